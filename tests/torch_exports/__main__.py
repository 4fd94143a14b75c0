"""Export networks of torch, and compare with torch: ``make torch-exports``.

``python -m tests.torch_exports [NAME ...]`` takes the families whose names begin so. Each
is exported at three opsets with open sizes, compiled once, and run at three sizes. Opset
17 is written by torch's older exporter, the others by its newer one. The exit status is 1
if anything is different.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import torch
from torch import nn

import relax_mlir
from tests.torch_exports.families import FAMILIES, Family

_OPSETS = (17, 20, 23)
_LAST_TRACED = 17  # opset that the older exporter writes here
_TOLERANCE = 1e-5  # of the largest element: float32, sums of up to 256 terms, 2 layers


def main() -> int:
    """Run all, or those that the command line names; 1 if anything is different."""
    wanted = tuple(sys.argv[1:]) or ("",)
    warnings.simplefilter("ignore")  # torch's own, of its exporters
    logging.disable()
    print(f"{'family':12}{'opset':>6}{'nodes':>7}{'error at each size':>30}{'s':>7}")
    chosen = [f for f in FAMILIES if f.name.startswith(wanted)]
    good = [_check(family, opset) for family in chosen for opset in _OPSETS]
    print(f"{good.count(True)} of {len(good)} good")
    return int(not all(good))


def _check(family: Family, opset: int) -> bool:
    """Print a row."""
    print(f"{family.name:12}{opset:6}", end="", flush=True)
    torch.manual_seed(0)
    network = family.build().eval()
    try:
        data = _exported(family, network, opset)
        start = time.perf_counter()
        nodes, errors = _errors(family, network, data)
    except Exception as error:  # the other rows shall be seen
        print("  FAIL " + " ".join(f"{type(error).__name__}: {error}".split())[:300])
        return False
    is_good = max(errors) <= _TOLERANCE
    shown = " ".join(f"{error:9.1e}" for error in errors)
    taken_s = time.perf_counter() - start
    print(
        f"{nodes:7}{shown:>30}{taken_s:7.1f}{'' if is_good else '  FAIL'}", flush=True
    )
    return is_good


def _exported(family: Family, network: nn.Module, opset: int) -> bytes:
    """The bytes of the model that torch's exporter writes."""
    inputs = family.inputs(*family.sizes[0])
    file = io.BytesIO()
    options: dict[str, object] = {"dynamo": False, "dynamic_axes": family.dynamic}
    if opset > _LAST_TRACED:
        dynamic = torch.export.Dim.DYNAMIC
        shapes = {n: dict.fromkeys(family.dynamic.get(n, ()), dynamic) for n in inputs}
        options = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
    names = list(inputs)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        made = torch.onnx.export(
            network,
            tuple(inputs.values()),
            None if opset > _LAST_TRACED else file,
            input_names=names,
            opset_version=opset,
            **options,
        )
    return file.getvalue() if made is None else made.model_proto.SerializeToString()


def _errors(
    family: Family, network: nn.Module, data: bytes
) -> tuple[int, Sequence[float]]:
    """The number of nodes, and the largest error at every size, relative to the scale."""
    model = onnx.load_from_string(data)
    compiled = relax_mlir.compile(model)
    errors = []
    for number, size in enumerate(family.sizes):
        torch.manual_seed(number)
        inputs = family.inputs(*size)
        with torch.no_grad():
            expected = network(**inputs)
        if isinstance(expected, torch.Tensor):
            expected = (expected,)
        ours = compiled(*(tensor.numpy() for tensor in inputs.values()))
        errors.append(
            max(_error(o, e.numpy()) for o, e in zip(ours, expected, strict=True))
        )
    return len(model.graph.node), errors


def _error(ours: np.ndarray, expected: np.ndarray) -> float:
    if ours.shape != expected.shape or ours.dtype != expected.dtype:
        return float("inf")
    return float(np.abs(ours - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    sys.exit(main())

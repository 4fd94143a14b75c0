"""Benchmark cases on disk: model, inputs and reference outputs."""

from pathlib import Path

import numpy as np

from benchmarks.baselines.baseline import Case

__all__ = ["read_case", "save_case", "write_case"]


def write_case(name: str, folder: Path) -> tuple[Case, int]:
    """Write a network's model; returns the case with reference outputs, and its FLOPs."""
    from benchmarks.baselines.onnxruntime import reference_outputs
    from benchmarks.flops import count_flops
    from benchmarks.networks import network

    entry = network(name).entry
    model = entry.build()
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    flops = count_flops(model)
    inputs = entry.inputs(seed=0)
    return Case(path, inputs, reference_outputs(path, inputs)), flops


def save_case(name: str, folder: str) -> None:
    """Write a network's model, arrays and compiled form, ``model.rxm``."""
    import relax_mlir

    case, _ = write_case(name, Path(folder))
    inputs = dict(case.inputs)
    np.savez(Path(folder) / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(Path(folder) / "outputs.npz", *case.outputs)
    relax_mlir.compile(case.model, cache=False).save(case.model.with_suffix(".rxm"))


def read_case(folder: str, model: str = "model.onnx") -> Case:
    """Read a case written by :func:`save_case`; needs only numpy.

    Args:
        folder: the folder of the case.
        model: the file to run, ``model.onnx`` or ``model.rxm``.
    """
    inputs = dict(np.load(Path(folder) / "inputs.npz"))
    outputs = list(np.load(Path(folder) / "outputs.npz").values())
    return Case(Path(folder) / model, inputs, outputs)

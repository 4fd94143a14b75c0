"""How far two runtimes may be apart, and whether they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import relax_mlir
from relax_mlir.tools.timing import time_calls
from tests.zoo.network import Arrays, Network

__all__ = [
    "Agreement",
    "Bounds",
    "Run",
    "allowed",
    "compare_runtimes",
    "distance",
    "moved",
    "session",
]

Run = Callable[[Arrays], Sequence[np.ndarray]]

_OPTIMISED = 10  # times what onnxruntime's own optimisations change
_ROUNDED = 3  # times what weights change that are rounded once more
_ULPS = 4  # of the largest element
_GRAIN = 2.0**-25  # onnxruntime's sigmoid gives multiples of it
_COPIES = 4  # of the weights, each rounded in its own way
_ROUNDS = 5


@dataclass(frozen=True)
class Agreement:
    """What was found out about a network.

    Attributes:
        shares: for every size the largest difference as a share of what is allowed.
        compile_s, first_s: how long compilation took, and the first call.
        ours_ms, theirs_ms: a call at the last size, on one thread.
    """

    shares: tuple[float, ...]
    compile_s: float
    first_s: float
    ours_ms: float
    theirs_ms: float


def compare_runtimes(network: Network, cache: Path) -> tuple[Agreement, Run]:
    """Compile a network once, and compare it with onnxruntime at every size.

    Args:
        cache: a folder that is empty, so that compilation starts from nothing.

    Returns:
        What was found, and the compiled network.
    """
    model = network.load()
    start = time.perf_counter()
    compiled = relax_mlir.compile(model, cache=cache)
    compile_s = time.perf_counter() - start
    bounds = Bounds.of(network.load_judged())

    def ours(inputs: Arrays) -> Sequence[np.ndarray]:
        named: dict[str, Any] = dict(inputs)  # Any: a call has options beside arrays
        return compiled(**named)

    start = time.perf_counter()
    ours(network.inputs(0))
    first_s = time.perf_counter() - start
    every = [network.inputs(number) for number in range(len(network.sizes))]
    shares = tuple(bounds.share(ours(inputs), inputs) for inputs in every)
    mine, its = time_calls(
        lambda: ours(every[-1]), lambda: bounds.optimised(every[-1]), rounds=_ROUNDS
    )
    ours_ms, theirs_ms = 1e3 * np.median(mine), 1e3 * np.median(its)
    found = Agreement(shares, compile_s, first_s, float(ours_ms), float(theirs_ms))
    return found, ours


@dataclass(frozen=True)
class Bounds:
    """onnxruntime, and what its results are worth.

    A result may differ from the optimised one by the largest of

    - 10 times what optimisation changes in this result, at this input,
    - 3 times what it changes at most if each weight, and each element of the inputs, is
      moved by its last bit, up or down, in four copies of the network: optimisation often
      changes nothing, and then says nothing of how results depend on rounding,
    - 4 units in the last place of the result's largest element, or 2**-25, of which
      onnxruntime's sigmoid gives multiples.

    Attributes:
        optimised: the runtime with all of its optimisations.
        plain: without any.
        rounded: with all of them, each with other last bits of the weights.
    """

    optimised: Run
    plain: Run
    rounded: Sequence[Run]

    @staticmethod
    def of(model: bytes) -> Bounds:
        """Start onnxruntime on a model."""
        copies = [_rounded(model, number) for number in range(_COPIES)]
        return Bounds(
            session(model),
            session(model, is_optimised=False),
            [session(copy) for copy in copies],
        )

    def share(self, ours: Sequence[np.ndarray], inputs: Arrays) -> float:
        """The largest difference as a share of what is allowed: 1 and less is good."""
        expected, plain = self.optimised(inputs), self.plain(inputs)
        rounded = [
            run({name: moved(array, number) for name, array in inputs.items()})
            for number, run in enumerate(self.rounded)
        ]
        found = zip(ours, expected, plain, *rounded, strict=True)
        return max(_share(*results) for results in found)


def session(model: bytes, *, is_optimised: bool = True) -> Run:
    """onnxruntime on one thread, with all of its optimisations or none."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; its advice on models is not ours to print
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        level.ORT_ENABLE_ALL if is_optimised else level.ORT_DISABLE_ALL
    )
    made: Any = onnxruntime.InferenceSession(  # Any: it may return more than arrays
        model, options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: made.run(None, inputs)


def allowed(
    expected: np.ndarray, plain: np.ndarray, rounded: Sequence[np.ndarray]
) -> float:
    """How far a result may be from ``expected``; 0 for whole numbers and truth values."""
    if expected.dtype.kind != "f" or not expected.size:
        return 0.0
    ulp = float(np.spacing(np.abs(expected).max()))
    moved = max(distance(expected, result) for result in rounded)
    floor = _OPTIMISED * distance(expected, plain)
    return max(floor, _ROUNDED * moved, _ULPS * ulp, _GRAIN)


def _share(
    ours: np.ndarray, expected: np.ndarray, plain: np.ndarray, *rounded: np.ndarray
) -> float:
    if ours.shape != expected.shape or ours.dtype != expected.dtype:
        return math.inf
    found, limit = distance(ours, expected), allowed(expected, plain, rounded)
    if found == 0:
        return 0.0
    return found / limit if limit else math.inf


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two elements; infinite if only one is a number."""
    if not one.size:
        return 0.0
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where(one == other, 0.0, np.abs(one - other))
    gaps[np.isnan(one) & np.isnan(other)] = 0.0
    return float(np.nan_to_num(gaps, nan=math.inf).max())


def moved(array: np.ndarray, seed: int) -> np.ndarray:
    """The next float32 number above or below each element; other types stay."""
    if array.dtype != np.float32:
        return array
    rng = np.random.default_rng(seed)
    towards = rng.choice(np.array([-np.inf, np.inf], np.float32), array.shape)
    return np.asarray(np.nextafter(array, towards))  # also of one without dimensions


def _rounded(data: bytes, seed: int) -> bytes:
    """A copy of a model whose float32 weights are moved.

    Only those of two dimensions or more: others may hold factors of sizes.
    """
    model = onnx.ModelProto.FromString(data)
    for tensor in _weights(model.graph):
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            weights = moved(numpy_helper.to_array(tensor), seed)
            tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    return model.SerializeToString()


def _weights(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == attribute.TENSOR:
                yield attribute.t
            elif attribute.type == attribute.GRAPH:
                yield from _weights(attribute.g)

"""Per-kernel profiles of models."""

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.errors import CompileError
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["KernelCall", "KernelTime", "Profile", "Recorder"]


@dataclass(frozen=True)
class KernelCall:
    """A kernel call of ``main``.

    Attributes:
        name: of the PrimFunc.
        rule: name of its schedule rule.
        nodes: names of the ONNX nodes that it computes, if they have names.
        operations: multiplications and additions, for a contraction of static sizes; else
            0.
        moved_bytes: total size of its arguments, if static; else 0.
        product: for a single matmul of static sizes: batch, M, N, K, and the element type
            of its operands.
        convolution: for a convolution of static sizes: batch size, shape, and the element
            type of its operands.
    """

    name: str
    rule: str
    nodes: tuple[str, ...] = ()
    operations: int = 0
    moved_bytes: int = 0
    product: tuple[int, int, int, int, str] | None = None
    convolution: tuple[int, ConvolutionShape, str] | None = None

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> "KernelCall":  # Any: JSON
        """Inverse of ``asdict``, after JSON converted tuples to lists."""
        product, convolution = fields.get("product"), fields.get("convolution")
        if convolution is not None:
            batch, parts, element = convolution
            shape = [
                parts[field.name] for field in dataclasses.fields(ConvolutionShape)
            ]
            convolution = batch, ConvolutionShape.from_fields(shape), element
        arguments = {
            **fields,
            "nodes": tuple(fields["nodes"]),
            "product": None if product is None else tuple(product),
            "convolution": convolution,
        }
        return KernelCall(**arguments)


@dataclass(frozen=True)
class KernelTime:
    """Run time of a kernel per call of the model.

    Attributes:
        name: of the PrimFunc.
        rule: name of its schedule rule.
        nodes: names of the ONNX nodes that it computes, if they have names.
        runs: launches per call.
        time_ms: of all launches of a call, the median over the calls.
        share: fraction of the median time of the whole call, from 0 to 1.
        rate_gflop_s: 10^9 multiplications and additions per second, of integers, too, for
            contractions of static sizes; else None.
        rate_gb_s: 10^9 bytes per second, each argument counted once, for arguments of
            static sizes; else None.
    """

    name: str
    rule: str
    nodes: tuple[str, ...]
    runs: int
    time_ms: float
    share: float
    rate_gflop_s: float | None
    rate_gb_s: float | None = None


@dataclass(frozen=True, eq=False)
class Profile:
    """Durations of kernels over several calls of a model.

    Attributes:
        kernels: kernel calls of ``main``, in order.
        durations_ns: [call, kernel].
        totals_ns: of whole calls, [call].
    """

    kernels: tuple[KernelCall, ...]
    durations_ns: np.ndarray
    totals_ns: np.ndarray

    def __repr__(self) -> str:
        """A summary."""
        calls, kernels = self.durations_ns.shape
        return f"<Profile of {kernels} kernels, {calls} calls, {self.total_ms:.4g} ms>"

    @property
    def total_ms(self) -> float:
        """Median duration of a call."""
        return _median_ms(self.totals_ns)

    @property
    def rest_ms(self) -> float:
        """Time outside of kernels: ``main``, host functions, conversion of arguments."""
        return _median_ms(self.totals_ns - self.durations_ns.sum(axis=1))

    def by_call(self) -> tuple[KernelTime, ...]:
        """Times of each kernel call, in order."""
        return tuple(self._time([index]) for index in range(len(self.kernels)))

    def by_kernel(self) -> tuple[KernelTime, ...]:
        """Times of each kernel over all its calls, the longest first."""
        indices: dict[str, list[int]] = {}
        for index, kernel in enumerate(self.kernels):
            indices.setdefault(kernel.name, []).append(index)
        times = map(self._time, indices.values())
        return tuple(sorted(times, key=lambda t: t.time_ms, reverse=True))

    def _time(self, indices: Sequence[int]) -> KernelTime:
        """Total time of several calls of one kernel."""
        kernels = [self.kernels[index] for index in indices]
        time_ms = _median_ms(self.durations_ns[:, indices].sum(axis=1))
        operations = sum(kernel.operations for kernel in kernels)
        moved_bytes = sum(kernel.moved_bytes for kernel in kernels)
        nodes = dict.fromkeys(node for kernel in kernels for node in kernel.nodes)
        return KernelTime(
            kernels[0].name,
            kernels[0].rule,
            tuple(nodes),
            len(indices),
            time_ms,
            time_ms / self.total_ms,
            _rate(operations, time_ms),
            _rate(moved_bytes, time_ms),
        )


def _rate(count: int, time_ms: float) -> float | None:
    """Rate in 10^9 per second; None for a count of 0."""
    return count / time_ms / 1e6 if count > 0 and time_ms > 0 else None


def _median_ms(times_ns: np.ndarray) -> float:
    return float(np.median(times_ns)) / 1e6


class _Record(ctypes.Structure):
    """``relax_rt2_profile`` of the native runtime."""

    _fields_ = (
        ("durations_ns", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


class Recorder:
    """Buffer to which the native runtime writes the durations of a call's kernels.

    Args:
        kernels: number of kernel calls.
    """

    def __init__(self, kernels: int) -> None:
        self._durations_ns = np.zeros(kernels, np.int64)
        self._record = _Record(self._durations_ns.ctypes.data, kernels, 0)

    @property
    def address(self) -> int:
        """Address of the ``relax_rt2_profile``, valid while this object lives."""
        return ctypes.addressof(self._record)

    def durations_ns(self) -> np.ndarray:
        """Durations of the last call's kernels.

        Raises:
            CompileError: the number of kernels differs.
        """
        ran = self._record.count
        if ran != len(self._durations_ns):
            raise CompileError(
                f"`main`: expected calls of {len(self._durations_ns)} kernels, got {ran}. "
                "Hint: only results of `compile` list their kernel calls."
            )
        return self._durations_ns.copy()

"""How long the kernels of a model take, one by one, while all of it runs."""

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.errors import CompileError

__all__ = ["KernelCall", "KernelTime", "Profile", "Recorder"]


@dataclass(frozen=True)
class KernelCall:
    """A place of ``main`` where it calls a kernel.

    Attributes:
        name: of the tensor program.
        rule: the schedule rule that wrote its loops.
        nodes: of the model that it computes, as far as they are known by name.
        operations: multiplications and additions, if it is a contraction of known sizes;
            else 0.
        moved_bytes: of its arguments, each once, if their sizes are known; else 0.
        product: if it is one contraction of known sizes: how many separate products, the
            rows, columns and terms of each, and the element type of its factors.
        convolution: if it is one of known sizes: how many pictures, what is computed of
            each, and the element type of its factors.
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
        """What ``asdict`` made of one, when JSON has turned tuples into lists."""
        product, convolution = fields.get("product"), fields.get("convolution")
        if convolution is not None:
            pictures, parts, element = convolution
            shape = [
                parts[field.name] for field in dataclasses.fields(ConvolutionShape)
            ]
            convolution = pictures, ConvolutionShape.from_fields(shape), element
        given = {
            **fields,
            "nodes": tuple(fields["nodes"]),
            "product": None if product is None else tuple(product),
            "convolution": convolution,
        }
        return KernelCall(**given)


@dataclass(frozen=True)
class KernelTime:
    """How long a kernel takes in one call of the model.

    Attributes:
        name: of the tensor program.
        rule: the schedule rule that wrote its loops.
        nodes: of the model that it computes, as far as they are known by name.
        runs: how often it runs.
        time_ms: all runs together, the median of the calls.
        share: of the median time of the whole call, from 0 to 1.
        rate_gflop_s: of contractions whose sizes are known, else None; an operation is a
            multiplication or an addition, of integers as well.
        rate_gb_s: of arguments whose sizes are known, each read or written once; else
            None.
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
    """How long kernels took in some calls of a model.

    Attributes:
        kernels: in the order in which ``main`` calls them.
        durations_ns: [call, kernel].
        totals_ns: of whole calls, [call].
    """

    kernels: tuple[KernelCall, ...]
    durations_ns: np.ndarray
    totals_ns: np.ndarray

    def __repr__(self) -> str:
        """How much there is."""
        calls, kernels = self.durations_ns.shape
        return f"<Profile of {kernels} kernels, {calls} calls, {self.total_ms:.4g} ms>"

    @property
    def total_ms(self) -> float:
        """How long a whole call takes, the median."""
        return _median_ms(self.totals_ns)

    @property
    def rest_ms(self) -> float:
        """What is no kernel: ``main``, functions that it calls by name, arguments."""
        return _median_ms(self.totals_ns - self.durations_ns.sum(axis=1))

    def by_call(self) -> tuple[KernelTime, ...]:
        """Each run of a kernel, in order."""
        return tuple(self._time([place]) for place in range(len(self.kernels)))

    def by_kernel(self) -> tuple[KernelTime, ...]:
        """All runs of a kernel together, the longest first."""
        places: dict[str, list[int]] = {}
        for place, kernel in enumerate(self.kernels):
            places.setdefault(kernel.name, []).append(place)
        times = map(self._time, places.values())
        return tuple(sorted(times, key=lambda t: t.time_ms, reverse=True))

    def _time(self, places: Sequence[int]) -> KernelTime:
        """Some runs of one kernel."""
        kernels = [self.kernels[place] for place in places]
        time_ms = _median_ms(self.durations_ns[:, places].sum(axis=1))
        operations = sum(kernel.operations for kernel in kernels)
        moved_bytes = sum(kernel.moved_bytes for kernel in kernels)
        nodes = dict.fromkeys(node for kernel in kernels for node in kernel.nodes)
        return KernelTime(
            kernels[0].name,
            kernels[0].rule,
            tuple(nodes),
            len(places),
            time_ms,
            time_ms / self.total_ms,
            _rate(operations, time_ms),
            _rate(moved_bytes, time_ms),
        )


def _rate(count: int, time_ms: float) -> float | None:
    """In 10^9 a second; None of nothing."""
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
    """Memory in which the native runtime notes how long the kernels of a call took.

    Args:
        kernels: how many there are.
    """

    def __init__(self, kernels: int) -> None:
        self._durations_ns = np.zeros(kernels, np.int64)
        self._record = _Record(self._durations_ns.ctypes.data, kernels, 0)

    @property
    def address(self) -> int:
        """Of the ``relax_rt2_profile``; good as long as this object lives."""
        return ctypes.addressof(self._record)

    def durations_ns(self) -> np.ndarray:
        """Of the last call.

        Raises:
            CompileError: another number of kernels ran.
        """
        ran = self._record.count
        if ran != len(self._durations_ns):
            raise CompileError(
                f"`main`: expected calls of {len(self._durations_ns)} kernels, got {ran}. "
                "Hint: only what `compile` made tells which kernels it calls."
            )
        return self._durations_ns.copy()

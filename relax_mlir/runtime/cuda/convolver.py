"""Convolutions by cuDNN: prepared once, then started again and again.

A convolution is a graph of operations: sums, then what is added to them, then a ReLU. Those
between are of no memory. Kernels that come with the library know such graphs if a bias is
added, behind the residual; where there is no bias, it is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cudnn
from relax_mlir.runtime.cuda.arrays import ALIGNMENT
from relax_mlir.runtime.cuda.convolutions import Convolution
from relax_mlir.runtime.cuda.cudnn import Cudnn, Descriptors
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.growing_memory import GrowingMemory
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.products import ITEM_BYTES
from relax_mlir.runtime.cuda.shared_libraries import handle

__all__ = ["Convolver", "PreparedConvolution"]

_MOST_WORKSPACE_BYTES = 256 << 20
# The numbers of tensors; of those between operations, the first.
_PICTURE, _WEIGHTS, _RESULT, _RESIDUAL, _BIAS, _BETWEEN = range(1, 7)


class Convolver:
    """What all convolutions of a model share on a device, which is current.

    Args:
        workspace: of all libraries.

    Raises:
        DeviceError: the library is not there, or does not start.
    """

    def __init__(self, device: Device, workspace: GrowingMemory) -> None:
        self.library = cudnn.library(device)
        self.handle = handle(self.library, device)
        self.workspace = workspace
        self.zeros = GrowingMemory(device, "biases of cuDNN", is_zero=True)

    def close(self) -> None:
        """Give memory back."""
        self.zeros.close()


class PreparedConvolution:
    """A convolution that needs nothing but addresses and a stream.

    Args:
        convolution: when sizes are known, and is not empty.
        what: it is, for errors; kernel: which of those that the model names.

    Raises:
        DeviceError: the library does not compute it.
        OutOfMemoryError: there is no memory for its workspace.
    """

    def __init__(
        self, convolver: Convolver, convolution: Convolution, what: str, kernel: int
    ) -> None:
        self.kernel = kernel
        shape = convolution.shape
        picture = convolution.batch, shape.channels, *shape.picture
        weights = shape.filters, shape.channels // shape.groups, *shape.window
        sizes = ("x".join(map(str, numbers)) for numbers in (picture, weights))
        self._what = f"{what}: convolution of {' by '.join(sizes)}"
        self._convolution, self._convolver = convolution, convolver
        self._shape = _in_planes(shape)
        self._is_double = convolution.element == "f64"
        self._sums = cudnn.TYPES["f64" if self._is_double else "f32"]
        self._library: Cudnn = convolver.library
        self._descriptors = Descriptors(self._library, self._what)
        self._addresses = Descriptors(self._library, self._what)
        self._start: Callable[[], None] | None = None
        try:
            with self._library.lock:
                self._plan, workspace_bytes = self._planned(self._graph())
            self._workspace = convolver.workspace.at_least(workspace_bytes)
        except BaseException:
            with suppress(DeviceError):  # the first error is the one to tell
                self.close()
            raise

    @property
    def _is_fused(self) -> bool:
        """Whether something is added to the sums, or applied to them."""
        made = self._convolution
        added = made.bias is not None or made.residual is not None
        return added or made.activation != "none"

    def _graph(self) -> int:
        """What is computed, as the library has it."""
        made, shape = self._convolution, self._shape
        sizes = made.batch, shape.filters, *shape.result
        result = partial(self._tensor, sizes=sizes, strides=shape.result_strides)
        steps: list[tuple[int, list[int]]] = []  # what is done, and with what
        if made.residual is not None:
            steps.append((cudnn.ADD, [result(_RESIDUAL)]))
        if self._is_fused:
            count, rank = shape.filters, len(shape.window)
            lying = (1, count, *[1] * rank), (count, 1, *[count] * rank)
            steps.append((cudnn.ADD, [self._tensor(_BIAS, *lying)]))
        if made.activation == "relu":
            steps.append((cudnn.RELU, []))
        numbers = [*(_BETWEEN + n for n in range(len(steps))), _RESULT]
        values = [result(number) for number in numbers]
        operations = [self._convolve(values[0])]
        for step, before, after in zip(steps, values, values[1:], strict=False):
            operations.append(self._map(*step, before, after))
        return self._descriptors.make(
            cudnn.GRAPH,
            {
                cudnn.GRAPH_HANDLE: [self._convolver.handle],
                cudnn.GRAPH_OPERATIONS: operations,
            },
        )

    def _tensor(self, number: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
        is_virtual = number >= _BETWEEN
        stored = cudnn.TYPES[self._convolution.element]
        return self._descriptors.make(
            cudnn.TENSOR,
            {
                cudnn.TENSOR_NUMBER: [number],
                cudnn.TENSOR_TYPE: [self._sums if is_virtual else stored],
                cudnn.TENSOR_SIZES: sizes,
                cudnn.TENSOR_STRIDES: strides,
                cudnn.TENSOR_ALIGNMENT_BYTES: [ALIGNMENT],
                cudnn.TENSOR_IS_VIRTUAL: [is_virtual],
            },
        )

    def _convolve(self, result: int) -> int:
        """The sums, as an operation."""
        shape = self._shape
        sizes = self._convolution.batch, shape.channels, *shape.picture
        weights = shape.filters, shape.channels // shape.groups, *shape.window
        how = self._descriptors.make(
            cudnn.CONVOLUTION,
            {
                cudnn.CONVOLUTION_SUMS: [self._sums],
                cudnn.CONVOLUTION_MODE: [cudnn.CROSS_CORRELATION],
                cudnn.RANK: [len(shape.window)],
                cudnn.STEPS: shape.steps,
                cudnn.DILATIONS: shape.dilations,
                cudnn.PADS_BEFORE: shape.pads,
                cudnn.PADS_BEHIND: shape.pads,
            },
        )
        picture = self._tensor(_PICTURE, sizes, shape.picture_strides)
        factors = self._tensor(_WEIGHTS, weights, shape.weight_strides)
        return self._descriptors.make(
            cudnn.CONVOLVE,
            {
                cudnn.CONVOLVE_HOW: [how],
                cudnn.CONVOLVE_PICTURE: [picture],
                cudnn.CONVOLVE_WEIGHTS: [factors],
                cudnn.CONVOLVE_RESULT: [result],
                cudnn.CONVOLVE_ALPHA[self._is_double]: [1.0],
                cudnn.CONVOLVE_BETA[self._is_double]: [0.0],
            },
        )

    def _map(self, mode: int, added: list[int], before: int, after: int) -> int:
        """What is done to each number, as an operation."""
        kind = {cudnn.POINTWISE_MODE: [mode], cudnn.POINTWISE_SUMS: [self._sums]}
        how = self._descriptors.make(cudnn.POINTWISE, kind)
        ends = {cudnn.MAP_OPERAND: [before], cudnn.MAP_RESULT: [after]}
        more = {cudnn.MAP_ADDED: added} if added else {}
        return self._descriptors.make(cudnn.MAP, {cudnn.MAP_HOW: [how], **ends, **more})

    def _planned(self, graph: int) -> tuple[int, int]:
        """How the library expects to compute a graph fastest, and the workspace in bytes.

        What is expected may still be refused; then the next one is taken.
        """
        problem = "none is as exact as it has to be"
        for mode in cudnn.MODES:
            with closing(Descriptors(self._library, self._what)) as searched:
                for config in self._configs(graph, mode, searched):
                    try:
                        plan, size_bytes = self._plan_of(config)
                    except DeviceError as error:
                        problem = str(error)
                        continue
                    if size_bytes <= _MOST_WORKSPACE_BYTES:
                        return plan, size_bytes
                    problem = f"one needs a workspace of {size_bytes} bytes"
        raise DeviceError(
            f"{self._what}: cuDNN {self._library.version} has no engine for it: {problem}. "
            'Hint: compile the model with `library="never"`'
        )

    def _configs(self, graph: int, mode: int, searched: Descriptors) -> list[int]:
        """Engines that add the very products up, always in the same order, the best first.

        Transforms (Winograd, Fourier) lose digits that the precision asked for keeps; on
        tensor cores f32 is rounded to TF32.
        """
        asked = {cudnn.HEURISTICS_GRAPH: [graph], cudnn.HEURISTICS_MODE: [mode]}
        heuristics = searched.make(cudnn.HEURISTICS, asked)
        kind = cudnn.ENGINE_CONFIG
        found = searched.parts(heuristics, cudnn.HEURISTICS_RESULTS, kind)
        is_whole = self._convolution.element == "f32" and not self._convolution.tf32
        refused = cudnn.INEXACT | ({cudnn.ON_TENSOR_CORES} if is_whole else set())

        def is_exact(config: int) -> bool:
            (engine,) = searched.parts(config, cudnn.CONFIG_ENGINE, cudnn.ENGINE)
            notes = searched.values(engine, cudnn.ENGINE_NOTES, cudnn.NOTES)
            return refused.isdisjoint(notes)

        return list(filter(is_exact, found))

    def _plan_of(self, config: int) -> tuple[int, int]:
        handle = self._convolver.handle
        given = {cudnn.PLAN_HANDLE: [handle], cudnn.PLAN_CONFIG: [config]}
        plan = self._descriptors.make(cudnn.PLAN, given)
        return plan, self._descriptors.values(plan, cudnn.PLAN_WORKSPACE_BYTES, 1)[0]

    def point(self, address: Callable[[Pointer], int]) -> None:
        """Say where its arrays are.

        Args:
            address: of a pointer.
        """
        made = self._convolution
        pointers = {
            _PICTURE: made.picture,
            _WEIGHTS: made.weights,
            _RESULT: made.result,
            _RESIDUAL: made.residual,
            _BIAS: made.bias,
        }
        places = {n: address(p) for n, p in pointers.items() if p is not None}
        if self._is_fused and made.bias is None:
            size_bytes = made.shape.filters * ITEM_BYTES[made.element]
            places[_BIAS] = self._convolver.zeros.at_least(size_bytes).address
        self._addresses.close()
        pack = self._addresses.make(
            cudnn.ADDRESSES,
            {
                cudnn.ADDRESSES_NUMBERS: list(places),
                cudnn.ADDRESSES_POINTERS: list(places.values()),
                cudnn.ADDRESSES_WORKSPACE: [self._workspace.address],
            },
        )
        given = self._convolver.handle, self._plan, pack
        self._start = partial(self._call, "cudnnBackendExecute", *given)

    def _call(self, name: str, *arguments: Any) -> None:  # Any: C values
        self._library.call(name, *arguments, what=self._what)

    def start(self, stream: int) -> None:
        """Put it on a stream, when it has been told where its arrays are.

        Raises:
            DeviceError: the library refuses it.
        """
        assert self._start is not None
        with self._library.lock:  # the handle is the process's, and knows one stream
            self._call("cudnnSetStream", self._convolver.handle, stream)
            self._start()

    def close(self) -> None:
        """Give its descriptors back."""
        self._addresses.close()
        self._descriptors.close()


def _in_planes(shape: ConvolutionShape) -> ConvolutionShape:
    """A convolution of one axis as one of two, which the library has: of rows of one."""
    rank = len(shape.picture)
    if rank > 1:
        return shape
    read, written = shape.picture[0], shape.result[0]
    *outer, between = shape.picture_strides
    *outside, along = shape.result_strides
    return replace(
        shape,
        picture=(1, read),
        window=(1, *shape.window),
        result=(1, written),
        steps=(1, *shape.steps),
        dilations=(1, *shape.dilations),
        pads=(0, *shape.pads),
        picture_strides=(*outer, between * read, between),
        result_strides=(*outside, along * written, along),
    )

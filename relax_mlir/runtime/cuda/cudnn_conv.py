"""cuDNN convolution plans: an operation graph is planned once, then executed often.

The graph has a convolution, the additions of residual and bias, and a ReLU; intermediate
tensors are virtual (never materialised). The library's precompiled kernels support such
graphs only with a bias, after the residual, so a missing bias is replaced by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cudnn
from relax_mlir.runtime.cuda.arrays import ALIGNMENT
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.cudnn import Cudnn, Descriptors
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.matmul_descriptors import ITEM_BYTES
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.shared_libraries import handle
from relax_mlir.runtime.cuda.virtual_memory import GrowableWorkspace
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["ConvolutionPlan", "CudnnContext"]

_MAX_WORKSPACE_BYTES = 256 << 20
# Identifiers of tensors; the last is that of the first virtual tensor.
_IMAGE, _WEIGHTS, _RESULT, _RESIDUAL, _BIAS, _VIRTUAL = range(1, 7)


class CudnnContext:
    """Handle and workspace that all convolutions of a model share on the current device.

    Args:
        workspace: of all libraries.

    Raises:
        DeviceError: the library is missing, or its initialisation fails.
    """

    def __init__(self, device: Device, workspace: GrowableWorkspace) -> None:
        self.library = cudnn.library(device)
        self.handle = handle(self.library, device)
        self.workspace = workspace
        self.zeros = GrowableWorkspace(device, "biases of cuDNN", is_zero=True)

    def close(self) -> None:
        """Free the memory."""
        self.zeros.close()


class ConvolutionPlan:
    """A prepared convolution, which needs only addresses and a stream.

    Args:
        convolution: with bound sizes, not empty.
        what: description for errors; kernel: index of the model's kernel call.

    Raises:
        DeviceError: the library does not support the convolution.
        OutOfMemoryError: the workspace cannot be allocated.
    """

    def __init__(
        self, context: CudnnContext, convolution: Convolution, what: str, kernel: int
    ) -> None:
        self.kernel = kernel
        shape = convolution.shape
        image = convolution.batch, shape.channels, *shape.image
        weights = shape.filters, shape.channels // shape.groups, *shape.window
        sizes = ("x".join(map(str, numbers)) for numbers in (image, weights))
        self._what = f"{what}: convolution of {' by '.join(sizes)}"
        self._convolution, self._context = convolution, context
        self._shape = _as_2d(shape)
        self._is_double = convolution.element == "f64"
        self._compute_type = cudnn.TYPES["f64" if self._is_double else "f32"]
        self._library: Cudnn = context.library
        self._descriptors = Descriptors(self._library, self._what)
        self._variant_pack = Descriptors(self._library, self._what)
        self._start: Callable[[], None] | None = None
        try:
            with self._library.lock:
                self._plan, workspace_bytes = self._best_plan(self._graph())
            self._workspace = context.workspace.at_least(workspace_bytes)
        except BaseException:
            with suppress(DeviceError):  # report the first error
                self.close()
            raise

    @property
    def _is_fused(self) -> bool:
        """Whether the convolution has an epilogue."""
        conv = self._convolution
        has_operand = conv.bias is not None or conv.residual is not None
        return has_operand or conv.activation != "none"

    def _graph(self) -> int:
        """The operation graph."""
        conv, shape = self._convolution, self._shape
        sizes = conv.batch, shape.filters, *shape.result
        result = partial(self._tensor, sizes=sizes, strides=shape.result_strides)
        epilogue: list[tuple[int, list[int]]] = []  # pointwise modes and operands
        if conv.residual is not None:
            epilogue.append((cudnn.ADD, [result(_RESIDUAL)]))
        if self._is_fused:
            count, rank = shape.filters, len(shape.window)
            layout = (1, count, *[1] * rank), (count, 1, *[count] * rank)
            epilogue.append((cudnn.ADD, [self._tensor(_BIAS, *layout)]))
        if conv.activation == "relu":
            epilogue.append((cudnn.RELU, []))
        ids = [*(_VIRTUAL + n for n in range(len(epilogue))), _RESULT]
        values = list(map(result, ids))
        operations = [self._convolve(values[0])]
        for step, x, y in zip(epilogue, values, values[1:], strict=False):
            operations.append(self._elementwise(*step, x, y))
        return self._descriptors.make(
            cudnn.GRAPH,
            {
                cudnn.GRAPH_HANDLE: [self._context.handle],
                cudnn.GRAPH_OPERATIONS: operations,
            },
        )

    def _tensor(self, id_: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
        is_virtual = id_ >= _VIRTUAL
        stored = cudnn.TYPES[self._convolution.element]
        return self._descriptors.make(
            cudnn.TENSOR,
            {
                cudnn.TENSOR_ID: [id_],
                cudnn.TENSOR_TYPE: [self._compute_type if is_virtual else stored],
                cudnn.TENSOR_SIZES: sizes,
                cudnn.TENSOR_STRIDES: strides,
                cudnn.TENSOR_ALIGNMENT_BYTES: [ALIGNMENT],
                cudnn.TENSOR_IS_VIRTUAL: [is_virtual],
            },
        )

    def _convolve(self, result: int) -> int:
        """The convolution operation."""
        shape = self._shape
        sizes = self._convolution.batch, shape.channels, *shape.image
        weights = shape.filters, shape.channels // shape.groups, *shape.window
        convolution = self._descriptors.make(
            cudnn.CONVOLUTION,
            {
                cudnn.CONVOLUTION_COMPUTE_TYPE: [self._compute_type],
                cudnn.CONVOLUTION_MODE: [cudnn.CROSS_CORRELATION],
                cudnn.RANK: [len(shape.window)],
                cudnn.STRIDES: shape.steps,
                cudnn.DILATIONS: shape.dilations,
                cudnn.PRE_PADS: shape.pads,
                cudnn.POST_PADS: shape.pads,
            },
        )
        image = self._tensor(_IMAGE, sizes, shape.image_strides)
        filters = self._tensor(_WEIGHTS, weights, shape.weight_strides)
        return self._descriptors.make(
            cudnn.CONVOLVE,
            {
                cudnn.CONVOLVE_DESCRIPTOR: [convolution],
                cudnn.CONVOLVE_IMAGE: [image],
                cudnn.CONVOLVE_WEIGHTS: [filters],
                cudnn.CONVOLVE_RESULT: [result],
                cudnn.CONVOLVE_ALPHA[self._is_double]: [1.0],
                cudnn.CONVOLVE_BETA[self._is_double]: [0.0],
            },
        )

    def _elementwise(self, mode: int, operands: list[int], x: int, y: int) -> int:
        """An elementwise operation from tensor ``x`` to tensor ``y``."""
        pointwise = self._descriptors.make(
            cudnn.POINTWISE,
            {
                cudnn.POINTWISE_MODE: [mode],
                cudnn.POINTWISE_COMPUTE_TYPE: [self._compute_type],
            },
        )
        attributes = {
            cudnn.ELEMENTWISE_DESCRIPTOR: [pointwise],
            cudnn.ELEMENTWISE_X: [x],
            cudnn.ELEMENTWISE_Y: [y],
        }
        if operands:
            attributes[cudnn.ELEMENTWISE_B] = operands
        return self._descriptors.make(cudnn.ELEMENTWISE, attributes)

    def _best_plan(self, graph: int) -> tuple[int, int]:
        """The execution plan that the heuristics rank first, and its workspace in bytes.

        Plans that the library rejects on creation are skipped.
        """
        problem = "none is exact enough"
        for mode in cudnn.HEURISTICS_MODES:
            with closing(Descriptors(self._library, self._what)) as searched:
                for config in self._configs(graph, mode, searched):
                    try:
                        plan, size_bytes = self._plan_of(config)
                    except DeviceError as error:
                        problem = str(error)
                        continue
                    if size_bytes <= _MAX_WORKSPACE_BYTES:
                        return plan, size_bytes
                    problem = f"one needs a workspace of {size_bytes} bytes"
        raise DeviceError(
            f"{self._what}: cuDNN {self._library.version} has no engine for it: {problem}. "
            'Hint: compile the model with `library="never"`'
        )

    def _configs(self, graph: int, mode: int, searched: Descriptors) -> list[int]:
        """Configurations of exact and deterministic engines, ranked by the heuristics.

        Transforms (Winograd, FFT) lose accuracy that the requested precision keeps; tensor
        cores round f32 to TF32.
        """
        query = {cudnn.HEURISTICS_GRAPH: [graph], cudnn.HEURISTICS_MODE: [mode]}
        heuristics = searched.make(cudnn.HEURISTICS, query)
        kind = cudnn.ENGINE_CONFIG
        configs = searched.parts(heuristics, cudnn.HEURISTICS_RESULTS, kind)
        excluded = set(cudnn.INEXACT_NOTES)
        if self._convolution.element == "f32" and not self._convolution.tf32:
            excluded.add(cudnn.TENSOR_CORE_NOTE)

        def is_exact(config: int) -> bool:
            (engine,) = searched.parts(config, cudnn.CONFIG_ENGINE, cudnn.ENGINE)
            notes = searched.values(engine, cudnn.ENGINE_NOTES, cudnn.NOTE_COUNT)
            return excluded.isdisjoint(notes)

        return list(filter(is_exact, configs))

    def _plan_of(self, config: int) -> tuple[int, int]:
        handle = self._context.handle
        attributes = {cudnn.PLAN_HANDLE: [handle], cudnn.PLAN_CONFIG: [config]}
        plan = self._descriptors.make(cudnn.PLAN, attributes)
        return plan, self._descriptors.values(plan, cudnn.PLAN_WORKSPACE_BYTES, 1)[0]

    def point(self, address: Callable[[Pointer], int]) -> None:
        """Bind the addresses of the operands.

        Args:
            address: resolves a pointer.
        """
        conv = self._convolution
        pointers = {
            _IMAGE: conv.image,
            _WEIGHTS: conv.weights,
            _RESULT: conv.result,
            _RESIDUAL: conv.residual,
            _BIAS: conv.bias,
        }
        addresses = {n: address(p) for n, p in pointers.items() if p is not None}
        if self._is_fused and conv.bias is None:
            size_bytes = conv.shape.filters * ITEM_BYTES[conv.element]
            addresses[_BIAS] = self._context.zeros.at_least(size_bytes).address
        self._variant_pack.close()
        pack = self._variant_pack.make(
            cudnn.VARIANT_PACK,
            {
                cudnn.VARIANT_PACK_IDS: list(addresses),
                cudnn.VARIANT_PACK_POINTERS: list(addresses.values()),
                cudnn.VARIANT_PACK_WORKSPACE: [self._workspace.address],
            },
        )
        arguments = self._context.handle, self._plan, pack
        self._start = partial(self._call, "cudnnBackendExecute", *arguments)

    def _call(self, name: str, *arguments: Any) -> None:  # Any: C values
        self._library.call(name, *arguments, what=self._what)

    def start(self, stream: int) -> None:
        """Enqueue the convolution on a stream; addresses must be bound.

        Raises:
            DeviceError: the library reports an error.
        """
        assert self._start is not None
        with self._library.lock:  # the handle is shared in the process, with one stream
            self._call("cudnnSetStream", self._context.handle, stream)
            self._start()

    def close(self) -> None:
        """Destroy the descriptors."""
        self._variant_pack.close()
        self._descriptors.close()


def _as_2d(shape: ConvolutionShape) -> ConvolutionShape:
    """A 1-D convolution as a 2-D one of height 1, since the library lacks 1-D."""
    rank = len(shape.image)
    if rank > 1:
        return shape
    width, result_width = shape.image[0], shape.result[0]
    *image_outer, image_inner = shape.image_strides
    *result_outer, result_inner = shape.result_strides
    return replace(
        shape,
        image=(1, width),
        window=(1, *shape.window),
        result=(1, result_width),
        steps=(1, *shape.steps),
        dilations=(1, *shape.dilations),
        pads=(0, *shape.pads),
        image_strides=(*image_outer, image_inner * width, image_inner),
        result_strides=(*result_outer, result_inner * result_width, result_inner),
    )

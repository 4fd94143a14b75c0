"""Launch plans of lowered GPU modules: the kernel launches of a model as plain data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func
from mlir.dialects.gpu import ObjectAttr  # pyright: ignore[reportAttributeAccessIssue]

from relax_mlir.compiler.kernel_modules import CompilationUnit
from relax_mlir.compiler.launch_operands import ValueReader, item_bytes, size_expression
from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import (
    CallPackedOp,
    LibraryConvolutionOp,
    LibraryMatmulOp,
    attribute_names,
)
from relax_mlir.errors import CompileError, PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.library_function import (
    LibraryConvolutionFunction,
    LibraryMatmulFunction,
)
from relax_mlir.runtime.cuda.matmul_descriptors import BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.plan import (
    Argument,
    Call,
    Copy,
    Expression,
    HostArray,
    HostCall,
    Launch,
    LibraryCall,
    Plan,
    Pointer,
    Program,
    TensorMap,
)
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.symbolic.dims import Dim

__all__ = ["main_plan", "serialize_program", "unpack_program"]

_SEPARATOR = b"\n"


def serialize_program(module: IRModule) -> bytes:
    """Serialise a kernel module at the level ``ptx``: its launches, and its PTX.

    Raises:
        PassError: launch plans do not support the program's size or buffer computations.
        CompileError: the module does not hold exactly one PrimFunc.
    """
    programs = list(filter(function_attributes.is_prim_func, module.func_ops()))
    if len(programs) != 1:
        raise CompileError(f"expected one PrimFunc, got {len(programs)}")
    ptx = [
        bytes(ObjectAttr(ir.ArrayAttr(op.attributes["objects"])[0]).object).rstrip(
            b"\0"
        )
        for op in own_operations(module.mlir.body)
        if op.operation.name == "gpu.binary"
    ]
    if len(ptx) > 1:
        raise CompileError(f"expected one `gpu.binary`, got {len(ptx)}")
    program = _ProgramReader(programs[0]).program()
    return json.dumps(program.fields()).encode() + _SEPARATOR + b"".join(ptx)


def unpack_program(code: bytes) -> tuple[Program, bytes]:
    """The program and the PTX in the result of :func:`serialize_program`."""
    fields, _, ptx = code.partition(_SEPARATOR)
    return Program.from_fields(json.loads(fields)), ptx


def main_plan(
    module: IRModule,
    units: Sequence[CompilationUnit],
    programs: Sequence[Program],
    kernels: Sequence[KernelCall],
) -> tuple[Plan, tuple[KernelCall, ...]]:
    """The launch plan of ``main`` at the level ``planned``.

    Args:
        units: kernel modules of the plan; programs: their compiled programs.
        kernels: kernel calls of ``main``, in order.

    Returns:
        The plan, and its kernel calls, to which the cuBLASLt and cuDNN calls of
        ``main`` are added; their programs are the last ones.

    Raises:
        PassError: launch plans do not support an operation of ``main``.
    """
    numbers = {name: n for n, unit in enumerate(units) for name in unit.programs}
    reader = _MainReader(module.func_op("main"), numbers, len(programs), kernels)
    steps = reader.steps()
    return Plan((*programs, *reader.library_calls), tuple(steps)), tuple(reader.kernels)


class _ProgramReader(ValueReader):
    """Translates a PrimFunc into a program: scratch buffers and launches."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(function)
        buffers = [v for v in function.arguments if _is_buffer(v)]
        for number, value in enumerate(buffers):
            self._pointers[value] = ("argument", number, 0)
        self._scratch: list[Expression] = []
        self._launches: list[Launch | LibraryCall] = []

    def program(self) -> Program:
        """Translate the function.

        Raises:
            PassError: launch plans do not support an operation.
        """
        for operation in own_operations(self._function.entry_block):
            name = operation.operation.name
            if name == "memref.alloc":
                value = operation.operation.results[0]
                self._pointers[value] = ("scratch", len(self._scratch), 0)
                self._scratch.append(size_expression(self.size_bytes(value)))
            elif name == "gpu.launch_func":
                self._launches.append(self._launch(operation))
            elif isinstance(operation, LibraryMatmulOp):
                self._launches.append(self._matmul(operation))
            elif isinstance(operation, LibraryConvolutionOp):
                self._launches.append(self._convolution(operation))
            elif not _is_read_by_users(operation):
                raise PassError(
                    f"{operation.location}: `{name}` is unsupported between launches"
                )
        return Program(self.size_names, tuple(self._scratch), tuple(self._launches))

    def _launch(self, operation: ir.OpView) -> Launch:
        groups = _groups(operation)
        shared = groups["dynamicSharedMemorySize"]
        kernel = ir.SymbolRefAttr(operation.attributes["kernel"]).value[-1]
        axes = ("X", "Y", "Z")
        return Launch(
            kernel,
            tuple(size_expression(self.size(groups[f"gridSize{a}"][0])) for a in axes),
            tuple(size_expression(self.size(groups[f"blockSize{a}"][0])) for a in axes),
            size_expression(self.size(shared[0])) if shared else 0,
            tuple(map(self._argument, groups["kernelOperands"])),
            attribute_names.WAITS in operation.attributes,
        )

    def _matmul(self, operation: LibraryMatmulOp) -> Matmul:
        transposed = [ir.BoolAttr(flag).value for flag in operation.turned]
        lhs, rhs, result = (
            BatchedMatrix(
                self.pointer(buffer),
                str(ir.MemRefType(buffer.type).element_type),
                size_expression(self.size(leading)),
                size_expression(self.size(step)),
                is_transposed,
            )
            for buffer, leading, step, is_transposed in zip(
                (operation.lhs, operation.rhs, operation.result),
                operation.leading,
                operation.steps,
                (*transposed, False),
                strict=True,
            )
        )
        return Matmul(
            tuple(size_expression(self.size(size)) for size in operation.sizes),
            lhs,
            rhs,
            result,
            next(map(self.pointer, operation.bias), None),
            ir.BoolAttr(operation.tf32).value,
            ir.StringAttr(operation.activation).value,
        )

    def _convolution(self, operation: LibraryConvolutionOp) -> Convolution:
        return Convolution(
            operation.shape,
            size_expression(self.size(operation.batch)),
            str(ir.MemRefType(operation.result.type).element_type),
            self.pointer(operation.image),
            self.pointer(operation.weights),
            self.pointer(operation.result),
            next(map(self.pointer, operation.bias), None),
            next(map(self.pointer, operation.residual), None),
            ir.BoolAttr(operation.tf32).value,
            ir.StringAttr(operation.activation).value,
        )

    def _argument(self, value: ir.Value) -> Argument:
        if _is_buffer(value):
            return self.pointer(value)
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.name == _CAST:
            return self._tensor_map(owner.operands[0].owner)
        return size_expression(self.size(value))

    def _tensor_map(self, operation: ir.OpView) -> TensorMap:
        """The TMA descriptor of a tensor, the innermost dimension first.

        Raises:
            PassError: launch plans do not support its kind.
        """
        if operation.name != _DESCRIPTOR:
            raise PassError(
                f"{operation.location}: `{operation.name}` is unsupported in a launch plan"
            )
        unranked, *box = operation.operands
        tensor = unranked.owner.operands[0]
        type_ = ir.MemRefType(tensor.type)
        strides, element_bytes = self._strides(tensor), item_bytes(tensor)
        text = str(operation.results[0].type)
        match = re.search(
            r"swizzle = swizzle_(\w+), .*oob = zero, interleave = none", text
        )
        element = _ELEMENTS.get(str(type_.element_type))
        if element is None or match is None:
            raise PassError(
                f"{operation.location}: `{text}` is unsupported in a launch plan"
            )
        steps: tuple[int, ...] = ()
        if attribute_names.STEPS in operation.attributes:
            steps = tuple(
                ir.DenseI64ArrayAttr(operation.attributes[attribute_names.STEPS])
            )
        return TensorMap(
            self.pointer(tensor),
            element,
            tuple(map(size_expression, reversed(self.shape(tensor)))),
            tuple(
                size_expression(stride * element_bytes)
                for stride in reversed(strides[:-1])
            ),
            tuple(
                ir.IntegerAttr(b.owner.attributes["value"]).value for b in reversed(box)
            ),
            match[1].upper(),
            steps[::-1],
        )

    def _strides(self, view: ir.Value) -> list[Dim]:
        """Strides of a view, in elements."""
        static, _ = ir.MemRefType(view.type).get_strides_and_offset()
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        count = static.count(dynamic)
        operands = map(self.size, list(view.owner.operands)[-count:] if count else ())
        return [next(operands) if stride == dynamic else stride for stride in static]


# The operand segments of `gpu.launch_func`, in the order of its definition.
_LAUNCH_GROUPS = (
    "asyncDependencies",
    *(f"{what}Size{axis}" for what in ("grid", "block", "cluster") for axis in "XYZ"),
    "dynamicSharedMemorySize",
    "kernelOperands",
    "asyncObject",
)


def _groups(operation: ir.OpView) -> dict[str, list[ir.Value]]:
    segments = ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])
    operands = iter(operation.operation.operands)
    groups = {
        name: [next(operands) for _ in range(count)]
        for name, count in zip(_LAUNCH_GROUPS, segments, strict=True)
    }
    if any(groups[f"clusterSize{axis}"] for axis in "XYZ"):
        raise PassError(
            f"{operation.location}: a cluster launch: expected the cluster size as an "
            "attribute of the kernel"
        )
    return groups


_CAST = "builtin.unrealized_conversion_cast"
_DESCRIPTOR = "nvgpu.tma.create.descriptor"

# CUtensorMapDataType by element type.
_ELEMENTS = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f8E4M3FN": "UINT8",
}


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _is_read_by_users(operation: ir.OpView) -> bool:
    """Whether an operation only computes values that are translated at their uses."""
    name = operation.operation.name
    makes_view = name in ("memref.view", "memref.cast", "memref.reinterpret_cast")
    return (
        makes_view
        or name.startswith("arith.")
        or name in ("func.return", _CAST, _DESCRIPTOR)
    )


class _MainReader(ValueReader):
    """Translates ``main``: calls of programs, copies, calls of host functions."""

    def __init__(
        self,
        function: func.FuncOp,
        programs: dict[str, int],
        count: int,
        kernels: Sequence[KernelCall],
    ) -> None:
        super().__init__(function)
        self._programs, self._count = programs, count
        self._remaining_kernels = iter(kernels)
        self.kernels: list[KernelCall] = []
        self.library_calls: list[Program] = []
        counts = dict.fromkeys(("input", "output", "constant", "arena"), 0)
        for value, attributes in zip(
            function.arguments, function.attributes["arg_attrs"], strict=True
        ):
            for role, count in counts.items():
                if f"relax.{role}" in attributes:
                    self._pointers[value] = (role, count, 0)
                    counts[role] += 1

    def steps(self) -> list[Any]:  # Any: steps of plans
        """Translate the function into the steps of the plan, in order.

        Raises:
            PassError: launch plans do not support an operation.
        """
        steps: list[Any] = []
        for operation in own_operations(self._function.entry_block):
            name = operation.operation.name
            if name == "func.call":
                steps.append(self._call(operation))
            elif name == "memref.copy":
                steps.append(self._copy(operation))
            elif isinstance(operation, CallPackedOp):
                steps.append(self._packed(operation))
            elif not _is_read_by_users(operation):
                raise PassError(
                    f"{operation.location}: `{name}` is unsupported in `main` for a GPU"
                )
        return steps

    def _call(self, call: ir.OpView) -> Call:
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        operands = list(call.operation.operands)
        self.kernels.append(next(self._remaining_kernels))
        return Call(
            self._programs[callee],
            len(self.kernels) - 1,
            tuple(self.pointer(v) for v in operands if _is_buffer(v)),
            tuple(size_expression(self.size(v)) for v in operands if not _is_buffer(v)),
        )

    def _copy(self, copy: ir.OpView) -> Copy:
        source, target = copy.operation.operands
        for buffer in (source, target):
            type_ = ir.MemRefType(buffer.type)
            if type_.affine_map != ir.AffineMap.get_identity(type_.rank, type_.context):
                raise PassError(
                    f"{copy.location}: a copy of `{type_}`: expected a contiguous buffer"
                )
        size_bytes = size_expression(self.size_bytes(source))
        return Copy(self.pointer(source), self.pointer(target), size_bytes)

    def _packed(self, call: CallPackedOp) -> HostCall | Call:
        """The call of a host function, or of a library on the GPU."""
        name = ir.StringAttr(call.callee).value
        function = get_global_func(name, allow_missing=True)
        if isinstance(function, LibraryMatmulFunction):
            operation = self._matmul(function, call)
        elif isinstance(function, LibraryConvolutionFunction):
            operation = self._convolution(function, call)
        else:
            return self._host_call(call)
        return self._library_call(function.name, operation, call)

    def _library_call(
        self, name: str, operation: LibraryCall, call: CallPackedOp
    ) -> Call:
        """Call of a new program that holds one library call, with the sizes of ``main``."""
        rule = "CublasLt" if isinstance(operation, Matmul) else "Cudnn"
        self.library_calls.append(Program(self.size_names, (), (operation,)))
        self.kernels.append(KernelCall(name, rule))
        return Call(
            self._count + len(self.library_calls) - 1,
            len(self.kernels) - 1,
            tuple(map(self.pointer, tensors.tuple_elements(call.args))),
            self.size_names,
        )

    def _convolution(
        self, function: LibraryConvolutionFunction, call: CallPackedOp
    ) -> Convolution:
        *buffers, result = tensors.tuple_elements(call.args)
        return Convolution(
            function.shape,
            size_expression(self.shape(result)[0]),
            str(ir.MemRefType(result.type).element_type),
            Pointer("argument", function.image),
            Pointer("argument", function.weights),
            Pointer("argument", len(buffers)),
            None if function.bias is None else Pointer("argument", function.bias),
            activation=function.activation,
        )

    def _matmul(self, function: LibraryMatmulFunction, call: CallPackedOp) -> Matmul:
        *buffers, result = tensors.tuple_elements(call.args)
        lhs, rhs = buffers[function.lhs], buffers[function.rhs]
        *outer, k = self.shape(lhs)
        n = self.shape(result)[-1]
        sizes = (1, math.prod(outer), n, k)
        if not isinstance(k, int) or k == 0:
            raise PassError(
                f"{call.location}: `{function.name}`: a matmul by cuBLAS: expected a static "
                f"reduction size, got `{k}`"
            )
        a, b, c = (
            BatchedMatrix(
                Pointer("argument", number),
                str(ir.MemRefType(buffer.type).element_type),
                size_expression(self.shape(buffer)[-1]),
                0,
                is_transposed,
            )
            for number, buffer, is_transposed in (
                (function.lhs, lhs, False),
                (function.rhs, rhs, function.is_transposed),
                (len(buffers), result, False),
            )
        )
        return Matmul(
            tuple(map(size_expression, sizes)),
            a,
            b,
            c,
            None if function.bias is None else Pointer("argument", function.bias),
            activation=function.activation,
        )

    def _host_call(self, call: CallPackedOp) -> HostCall:
        texts = ir.ArrayAttr(call.attributes["tir.dtypes"])
        names = [ir.StringAttr(text).value for text in texts]
        arrays = [
            HostArray(self.pointer(v), name, tuple(map(size_expression, self.shape(v))))
            for v, name in zip(tensors.tuple_elements(call.args), names, strict=True)
        ]
        return HostCall(ir.StringAttr(call.callee).value, tuple(arrays))

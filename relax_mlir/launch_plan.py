"""From lowered modules to what the runtime of GPUs reads: launches as plain data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func
from mlir.dialects.gpu import ObjectAttr  # pyright: ignore[reportAttributeAccessIssue]

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir import (
    CallPackedOp,
    LibraryConvolutionOp,
    LibraryProductOp,
    marks,
)
from relax_mlir.errors import CompileError, PassError
from relax_mlir.module import IRModule
from relax_mlir.plan_values import ValueReader, expression, item_bytes
from relax_mlir.runtime.cuda.convolutions import Convolution
from relax_mlir.runtime.cuda.library_function import (
    LibraryConvolutionFunction,
    LibraryFunction,
)
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
from relax_mlir.runtime.cuda.products import Matrix, Product
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.traversal import own_operations
from relax_mlir.units import Unit

__all__ = ["main_plan", "program_code", "unpacked"]

_SEPARATOR = b"\n"


def program_code(module: IRModule) -> bytes:
    """What a unit at the level ``ptx`` is to the runtime: its launches, and its PTX.

    Raises:
        PassError: the program computes sizes, or buffers, in a way that has no place in a
            plan.
        CompileError: the module holds no program, or more than one.
    """
    programs = [f for f in module.func_ops() if "tir.prim_func" in f.attributes]
    if len(programs) != 1:
        raise CompileError(f"expected one tensor program, got {len(programs)}")
    ptx = [
        bytes(ObjectAttr(ir.ArrayAttr(op.attributes["objects"])[0]).object).rstrip(
            b"\0"
        )
        for op in own_operations(module.mlir.body)
        if op.operation.name == "gpu.binary"
    ]
    if len(ptx) > 1:
        raise CompileError(f"expected kernels in one module, got {len(ptx)}")
    program = _ProgramReader(programs[0]).program()
    return json.dumps(program.fields()).encode() + _SEPARATOR + b"".join(ptx)


def unpacked(code: bytes) -> tuple[Program, bytes]:
    """The program and the PTX that :func:`program_code` put together."""
    fields, _, ptx = code.partition(_SEPARATOR)
    return Program.from_fields(json.loads(fields)), ptx


def main_plan(
    module: IRModule,
    units: Sequence[Unit],
    programs: Sequence[Program],
    kernels: Sequence[KernelCall],
) -> tuple[Plan, tuple[KernelCall, ...]]:
    """What ``main`` does, at the level ``planned``.

    Args:
        units: the programs that it calls; programs: what they are compiled to.
        kernels: that it calls, in order.

    Returns:
        The plan, and the kernels with products among them that ``main`` calls by name;
        their programs are the last ones.

    Raises:
        PassError: ``main`` has operations that have no place in a plan.
    """
    numbers = {name: n for n, unit in enumerate(units) for name in unit.programs}
    reader = _MainReader(module.func_op("main"), numbers, len(programs), kernels)
    steps = reader.steps()
    return Plan((*programs, *reader.library_calls), tuple(steps)), tuple(reader.kernels)


class _ProgramReader(ValueReader):
    """Reads a program: buffers of its own, and launches."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(function)
        buffers = [v for v in function.arguments if _is_buffer(v)]
        for number, value in enumerate(buffers):
            self._pointers[value] = ("argument", number, 0)
        self._scratch: list[Expression] = []
        self._launches: list[Launch | LibraryCall] = []

    def program(self) -> Program:
        """All of it.

        Raises:
            PassError: an operation has no place in a plan.
        """
        for operation in own_operations(self._function.entry_block):
            name = operation.operation.name
            if name == "memref.alloc":
                value = operation.operation.results[0]
                self._pointers[value] = ("scratch", len(self._scratch), 0)
                self._scratch.append(expression(self.size_bytes(value)))
            elif name == "gpu.launch_func":
                self._launches.append(self._launch(operation))
            elif isinstance(operation, LibraryProductOp):
                self._launches.append(self._product(operation))
            elif isinstance(operation, LibraryConvolutionOp):
                self._launches.append(self._convolution(operation))
            elif not _is_read_by_users(operation):
                raise PassError(
                    f"{operation.location}: `{name}` has no place between launches"
                )
        return Program(self.size_names, tuple(self._scratch), tuple(self._launches))

    def _launch(self, operation: ir.OpView) -> Launch:
        groups = _groups(operation)
        shared = groups["dynamicSharedMemorySize"]
        kernel = ir.SymbolRefAttr(operation.attributes["kernel"]).value[-1]
        axes = ("X", "Y", "Z")
        return Launch(
            kernel,
            tuple(expression(self.size(groups[f"gridSize{a}"][0])) for a in axes),
            tuple(expression(self.size(groups[f"blockSize{a}"][0])) for a in axes),
            expression(self.size(shared[0])) if shared else 0,
            tuple(map(self._argument, groups["kernelOperands"])),
            marks.WAITS in operation.attributes,
        )

    def _product(self, operation: LibraryProductOp) -> Product:
        turned = [ir.BoolAttr(flag).value for flag in operation.turned]
        lhs, rhs, result = (
            Matrix(
                self.pointer(buffer),
                str(ir.MemRefType(buffer.type).element_type),
                expression(self.size(leading)),
                expression(self.size(step)),
                is_turned,
            )
            for buffer, leading, step, is_turned in zip(
                (operation.lhs, operation.rhs, operation.result),
                operation.leading,
                operation.steps,
                (*turned, False),
                strict=True,
            )
        )
        return Product(
            tuple(expression(self.size(size)) for size in operation.sizes),
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
            expression(self.size(operation.batch)),
            str(ir.MemRefType(operation.result.type).element_type),
            self.pointer(operation.picture),
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
        return expression(self.size(value))

    def _tensor_map(self, operation: ir.OpView) -> TensorMap:
        """What a descriptor tells, the innermost dimension first.

        Raises:
            PassError: it is of a kind that has no place in a plan.
        """
        if operation.name != _DESCRIPTOR:
            raise PassError(
                f"{operation.location}: `{operation.name}` has no place in a plan"
            )
        tensor, *box = operation.operands
        whole = tensor.owner.operands[0]  # before its rank was hidden
        type_ = ir.MemRefType(whole.type)
        strides, step_bytes = self._strides(whole), item_bytes(whole)
        text = str(operation.results[0].type)
        found = re.search(
            r"swizzle = swizzle_(\w+), .*oob = zero, interleave = none", text
        )
        element = _ELEMENTS.get(str(type_.element_type))
        if element is None or found is None:
            raise PassError(f"{operation.location}: `{text}` has no place in a plan")
        steps: tuple[int, ...] = ()
        if marks.STEPS in operation.attributes:
            steps = tuple(ir.DenseI64ArrayAttr(operation.attributes[marks.STEPS]))
        return TensorMap(
            self.pointer(whole),
            element,
            tuple(map(expression, reversed(self.shape(whole)))),
            tuple(expression(stride * step_bytes) for stride in reversed(strides[:-1])),
            tuple(
                ir.IntegerAttr(b.owner.attributes["value"]).value for b in reversed(box)
            ),
            found[1].upper(),
            steps[::-1],
        )

    def _strides(self, view: ir.Value) -> list[Dim]:
        """Elements between neighbours along each dimension of a view."""
        known, _ = ir.MemRefType(view.type).get_strides_and_offset()
        mark = ir.ShapedType.get_dynamic_stride_or_offset()
        count = known.count(mark)
        given = map(self.size, list(view.owner.operands)[-count:] if count else ())
        return [next(given) if stride == mark else stride for stride in known]


# The operands of `gpu.launch_func`, as its definition has them.
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
            f"{operation.location}: a launch of clusters: expected their size as an "
            "attribute of the kernel"
        )
    return groups


_CAST = "builtin.unrealized_conversion_cast"
_DESCRIPTOR = "nvgpu.tma.create.descriptor"

# What the driver calls types of elements.
_ELEMENTS = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f8E4M3FN": "UINT8",
}


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _is_read_by_users(operation: ir.OpView) -> bool:
    """Whether an operation does nothing but make values."""
    name = operation.operation.name
    makes_view = name in ("memref.view", "memref.cast", "memref.reinterpret_cast")
    return (
        makes_view
        or name.startswith("arith.")
        or name in ("func.return", _CAST, _DESCRIPTOR)
    )


class _MainReader(ValueReader):
    """Reads ``main``: calls of programs, copies, calls of functions on the host."""

    def __init__(
        self,
        function: func.FuncOp,
        programs: dict[str, int],
        count: int,
        kernels: Sequence[KernelCall],
    ) -> None:
        super().__init__(function)
        self._programs, self._count = programs, count
        self._left = iter(kernels)
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
        """All of it, in order.

        Raises:
            PassError: an operation has no place in a plan.
        """
        found: list[Any] = []
        for operation in own_operations(self._function.entry_block):
            name = operation.operation.name
            if name == "func.call":
                found.append(self._call(operation))
            elif name == "memref.copy":
                found.append(self._copy(operation))
            elif isinstance(operation, CallPackedOp):
                found.append(self._packed(operation))
            elif not _is_read_by_users(operation):
                raise PassError(
                    f"{operation.location}: `{name}` has no place in a `main` that runs "
                    "on a GPU"
                )
        return found

    def _call(self, call: ir.OpView) -> Call:
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        operands = list(call.operation.operands)
        self.kernels.append(next(self._left))
        return Call(
            self._programs[callee],
            len(self.kernels) - 1,
            tuple(self.pointer(v) for v in operands if _is_buffer(v)),
            tuple(expression(self.size(v)) for v in operands if not _is_buffer(v)),
        )

    def _copy(self, copy: ir.OpView) -> Copy:
        source, target = copy.operation.operands
        for buffer in (source, target):
            type_ = ir.MemRefType(buffer.type)
            if type_.affine_map != ir.AffineMap.get_identity(type_.rank, type_.context):
                raise PassError(
                    f"{copy.location}: a copy of `{type_}`: expected a buffer without gaps"
                )
        size_bytes = expression(self.size_bytes(source))
        return Copy(self.pointer(source), self.pointer(target), size_bytes)

    def _packed(self, call: CallPackedOp) -> HostCall | Call:
        """A function on the host, or what a library computes on the GPU."""
        name = ir.StringAttr(call.callee).value
        function = get_global_func(name, allow_missing=True)
        if isinstance(function, LibraryFunction):
            made = self._product(function, call)
        elif isinstance(function, LibraryConvolutionFunction):
            made = self._convolution(function, call)
        else:
            return self._host_call(call)
        return self._library_call(function.name, made, call)

    def _library_call(self, name: str, made: LibraryCall, call: CallPackedOp) -> Call:
        """A program of its own, of the sizes that ``main`` has."""
        rule = "Library" if isinstance(made, Product) else "LibraryConvolution"
        self.library_calls.append(Program(self.size_names, (), (made,)))
        self.kernels.append(KernelCall(name, rule))
        return Call(
            self._count + len(self.library_calls) - 1,
            len(self.kernels) - 1,
            tuple(map(self.pointer, tensors.elements(call.args))),
            self.size_names,
        )

    def _convolution(
        self, function: LibraryConvolutionFunction, call: CallPackedOp
    ) -> Convolution:
        *buffers, result = tensors.elements(call.args)
        return Convolution(
            function.shape,
            expression(self.shape(result)[0]),
            str(ir.MemRefType(result.type).element_type),
            Pointer("argument", function.picture),
            Pointer("argument", function.weights),
            Pointer("argument", len(buffers)),
            None if function.bias is None else Pointer("argument", function.bias),
            activation=function.activation,
        )

    def _product(self, function: LibraryFunction, call: CallPackedOp) -> Product:
        *buffers, result = tensors.elements(call.args)
        lhs, rhs = buffers[function.lhs], buffers[function.rhs]
        *outer, terms = self.shape(lhs)
        columns = self.shape(result)[-1]
        sizes = (1, math.prod(outer), columns, terms)
        if not isinstance(terms, int) or terms == 0:
            raise PassError(
                f"{call.location}: `{function.name}`: a product by cuBLAS: expected a known "
                f"number of terms, got `{terms}`"
            )
        first, second, written = (
            Matrix(
                Pointer("argument", number),
                str(ir.MemRefType(buffer.type).element_type),
                expression(self.shape(buffer)[-1]),
                0,
                is_turned,
            )
            for number, buffer, is_turned in (
                (function.lhs, lhs, False),
                (function.rhs, rhs, function.is_turned),
                (len(buffers), result, False),
            )
        )
        return Product(
            tuple(map(expression, sizes)),
            first,
            second,
            written,
            None if function.bias is None else Pointer("argument", function.bias),
            activation=function.activation,
        )

    def _host_call(self, call: CallPackedOp) -> HostCall:
        texts = ir.ArrayAttr(call.attributes["tir.dtypes"])
        names = [ir.StringAttr(text).value for text in texts]
        arrays = [
            HostArray(self.pointer(v), name, tuple(map(expression, self.shape(v))))
            for v, name in zip(tensors.elements(call.args), names, strict=True)
        ]
        return HostCall(ir.StringAttr(call.callee).value, tuple(arrays))

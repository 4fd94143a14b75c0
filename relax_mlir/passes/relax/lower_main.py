"""``relax-lower-main``: lowering of ``main`` from tensors to buffers (destination passing)."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import CallPackedOp, Index, buffer_type, emit_dim
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.main_signature import (
    PLAN_ATTRIBUTES,
    arena_argument,
    array_argument,
    derived_sizes,
    set_signature,
    size_argument,
)
from relax_mlir.passes.relax.plan_memory import (
    result_tensors,
    storage_root,
)
from relax_mlir.passes.shape_function import emit_shape_function
from relax_mlir.rewrite.patterns import Pass, erase
from relax_mlir.schedules.builder import index, op, reinterpret

__all__ = ["LowerMain"]


@dataclass(frozen=True)
class LowerMain(Pass):
    """Lower ``main`` from tensors to buffers.

    Its arguments become the inputs, the outputs, the constants it uses, the arena and the
    symbolic sizes. ``main_shapes`` computes the derived sizes: dimensions of inputs and
    outputs that are expressions, and the size of the arena in bytes.
    """

    def run(self, module: IRModule) -> None:
        function = module.func_op("main")
        if "relax.main" in function.attributes:
            return
        if "relax.arena_bytes" not in function.attributes:
            raise PassError(
                "`main` has no memory plan. Hint: run `relax-plan-memory` first."
            )
        with ir.InsertionPoint(function), function.location:
            _MainLowering(module, function).run()
        erase(function)


class _MainLowering:
    def __init__(self, module: IRModule, function: func.FuncOp) -> None:
        self.module, self.function = module, function
        self.operations = list(own_operations(function.entry_block))
        self.returned = list(self.operations[-1].operands)
        self.symbols: list[str] = []
        for type_ in function.type.inputs:
            for dim in tensors.shape_of(type_):
                for name in () if isinstance(dim, int) else shapes.symbols_of(dim):
                    if name not in self.symbols:
                        self.symbols.append(name)
        self.buffers: dict[ir.Value, ir.Value] = {}
        self.constraints = constraints_of(module)

    def run(self) -> None:
        self.function.attributes["sym_name"] = ir.StringAttr.get("main.old")
        constants = self._constants()
        arena = self.function.attributes["relax.arena_bytes"].value
        types, attrs = self._signature(constants)
        main = func.FuncOp("main", ir.FunctionType.get(types, []))
        main.attributes["relax.main"] = ir.UnitAttr.get()
        for name in PLAN_ATTRIBUTES:
            if name in self.function.attributes:
                main.attributes[name] = self.function.attributes[name]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)
        block = main.add_entry_block()
        arguments = list(block.arguments)
        inputs = list(self.function.entry_block.arguments)
        outputs = arguments[len(inputs) : len(inputs) + len(self.returned)]
        tail = arguments[len(inputs) + len(self.returned) :]
        self.arena = tail[len(constants)]
        self.sizes = dict(
            zip(self.symbols, map(Index, tail[len(constants) + 1 :]), strict=True)
        )
        self.buffers.update(zip(inputs, arguments, strict=False))
        self.buffers.update(
            (c.results[0], v) for c, v in zip(constants, tail, strict=False)
        )
        with ir.InsertionPoint(block):
            self._assign_outputs(outputs)
            for operation in self.operations[:-1]:
                with operation.location:
                    self._lower(operation)
            self._copy_outputs(outputs)
            func.ReturnOp([])
        derived = self._derived(shapes.parse(arena))
        emit_shape_function(self.symbols, derived)
        set_signature(
            self.module, attrs, self.symbols, derived, self.constraints, arena
        )

    def _constants(self) -> list[ir.OpView]:
        return [o for o in self.operations if o.operation.name == "relax.constant"]

    def _signature(
        self, constants: list[ir.OpView]
    ) -> tuple[list[ir.Type], list[ir.DictAttr]]:
        names = _names(
            self.function, "relax.input_names", len(self.function.type.inputs), "x"
        )
        result_names = _names(
            self.function, "relax.output_names", len(self.returned), "y"
        )
        values = [
            (t, {"relax.input": n})
            for t, n in zip(self.function.type.inputs, names, strict=True)
        ]
        values += [
            (v.type, {"relax.output": n})
            for v, n in zip(self.returned, result_names, strict=True)
        ]
        values += [
            (c.results[0].type, {"relax.constant": self._key(c)}) for c in constants
        ]
        made = [
            array_argument(tensors.shape_of(type_), tensors.dtype_of(type_), roles)
            for type_, roles in values
        ]
        made += [arena_argument(), *map(size_argument, self.symbols)]
        return [type_ for type_, _ in made], [attr for _, attr in made]

    def _key(self, constant: ConstantOp) -> str:
        """The pool key of a constant; a small inline one is added to the pool."""
        if constant.key is not None:
            return constant.key
        array = constant.array({})
        key = f"inline.{array.dtype}.{array.shape}.{array.tobytes().hex()}".replace(
            " ", ""
        )
        self.module.constants[key] = array
        return key

    def _assign_outputs(self, outputs: list[ir.Value]) -> None:
        """Assigns the caller's output buffers to the returned values."""
        for value, buffer in zip(self.returned, outputs, strict=True):
            root = storage_root(value)
            if root not in self.buffers:
                self.buffers[root] = self._reshaped(buffer, root)

    def _copy_outputs(self, outputs: list[ir.Value]) -> None:
        """Copies returned inputs and constants, and values returned twice, to their outputs."""
        for value, buffer in zip(self.returned, outputs, strict=True):
            if not self._is_same_memory(value, buffer):
                source = self.buffers.get(value, self.buffers[storage_root(value)])
                op("memref.copy", None, self._reshaped(source, value), buffer)

    def _is_same_memory(self, value: ir.Value, buffer: ir.Value) -> bool:
        memory = self.buffers[storage_root(value)]
        while (
            not isinstance(memory.owner, ir.Block)
            and memory.owner.name == "memref.reinterpret_cast"
        ):
            memory = memory.owner.operands[0]
        return memory == buffer

    def _reshaped(self, buffer: ir.Value, value: ir.Value) -> ir.Value:
        """A view of a buffer in the shape of ``value``."""
        dims, dtype = tensors.shape_of(value), tensors.dtype_of(value)
        type_ = buffer_type(dims, dtype)
        if buffer.type == type_ and all(isinstance(d, int) for d in dims):
            return buffer
        return reinterpret(buffer, type_, [self._size(d) for d in dims])

    def _size(self, dim: Dim) -> "int | ir.Value":
        unknown = [s for s in shapes.symbols_of(dim) if s not in self.sizes]
        if unknown:
            raise PassError(
                f"`main`: size `{dim}`: expected `{unknown[0]}` to be a dimension of an input"
            )
        size = emit_dim(dim, self.sizes)
        return size.value if isinstance(size, Index) else size

    def _lower(self, operation: ir.OpView) -> None:
        name = operation.operation.name
        if name == "relax.call_tir":
            self._lower_call(operation)
        elif name == "relax.reshape":
            value = operation.results[0]
            source = self.buffers[operation.operands[0]]
            self.buffers[value] = self._reshaped(source, value)
        elif name == "relax.call_dps_packed":
            self._lower_packed(operation)
        elif name not in _NO_CODE:
            raise PassError(
                f"{operation.location}: `{name}`: expected calls of tensor programs only. "
                "Hint: run `relax-legalize` first."
            )

    def _lower_packed(self, call: ir.OpView) -> None:
        """Lowers a packed call: its arguments, then the buffers of its results."""
        values = tensors.tuple_elements(call.operands[0])
        types = [*(v.type for v in values), *tensors.tuple_types(call.results[0].type)]
        names = [str(tensors.dtype_of(t)) for t in types]
        pack = tensors.pack_tuple(
            [*(self.buffers[v] for v in values), *self._targets(call)]
        )
        ir.Operation.create(
            CallPackedOp.OPERATION_NAME,
            operands=[pack],
            attributes={
                "callee": call.attributes["callee"],
                "tir.dtypes": ir.ArrayAttr.get([ir.StringAttr.get(n) for n in names]),
            },
        )

    def _lower_call(self, call: ir.OpView) -> None:
        targets = self._targets(call)
        sources = [self.buffers[v] for v in tensors.tuple_elements(call.operands[0])]
        sizes = [
            index(self._size(d)) for d in tensors.python_value(call.attributes["sizes"])
        ]
        name = call.attributes["callee"].value
        types = self.module.func_op(name).type.inputs
        operands = [
            v if v.type == type_ else op("memref.cast", type_, v)
            for v, type_ in zip([*sources, *targets, *sizes], types, strict=True)
        ]
        func.CallOp([], name, operands)

    def _targets(self, call: ir.OpView) -> list[ir.Value]:
        """The destination buffers of a call, recorded for later operations."""
        offsets = (
            [a.value for a in call.attributes["relax.offsets"]]
            if "relax.offsets" in call.attributes
            else []
        )
        targets = []
        for position, (value, type_) in enumerate(
            zip(
                result_tensors(call),
                tensors.tuple_types(call.results[0].type),
                strict=True,
            )
        ):
            if value is not None and value in self.buffers:
                targets.append(self.buffers[value])
                continue
            targets.append(self._in_arena(type_, shapes.parse(offsets[position])))
            if value is not None:
                self.buffers[value] = targets[-1]
        return targets

    def _in_arena(self, type_: ir.Type, offset: Dim) -> ir.Value:
        dims, dtype = tensors.shape_of(type_), tensors.dtype_of(type_)
        sizes = [self._size(d) for d in dims if not isinstance(d, int)]
        where = index(self._size(offset))
        return op(
            "memref.view",
            buffer_type(dims, dtype),
            self.arena,
            where,
            *map(index, sizes),
        )

    def _derived(self, arena: Dim) -> list[Dim]:
        """The sizes that are expressions of symbols."""
        values = (*self.function.entry_block.arguments, *self.returned)
        dims = [d for value in values for d in tensors.shape_of(value)]
        return derived_sizes(self.symbols, [*dims, arena], self.constraints)


# Operations without code of their own; their users look through them.
_NO_CODE = frozenset({"relax.constant", "relax.tuple_get_item", tensors.TUPLE_PACK})


def _names(function: func.FuncOp, attribute: str, count: int, prefix: str) -> list[str]:
    if attribute in function.attributes:
        return [a.value for a in function.attributes[attribute]]
    return [f"{prefix}{i}" for i in range(count)]

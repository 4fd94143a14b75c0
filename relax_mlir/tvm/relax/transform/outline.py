"""Outlining of bindings into functions."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import (
    CallTirOp,
    ConstantOp,
    RelaxOperation,
    TupleGetItemOp,
)
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.symbol_table import SymbolTable
from relax_mlir.ir.traversal import own_operations, values_read
from relax_mlir.ir.use_def import users_of
from relax_mlir.objects.compare.structural_equal import (
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    dataflow_block_number,
    is_inline,
    leaves_of,
    symbols_in,
    update_type,
)
from relax_mlir.rewrite.patterns import clone

__all__ = ["Outliner", "fused_name", "sort_block", "variable_name"]

_ALWAYS_COPIED = (
    *(graph.StringOp, graph.DataTypeOp, graph.GlobalVarOp, graph.ExternFuncOp),
)


def fused_name(members: Sequence[ir.OpView]) -> str:
    """The name of a fused function: ``fused_``, then the names of its operators."""
    parts = ["fused"]
    for op in members:
        if isinstance(op, (CallTirOp, graph.CallOp)):
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            is_call = isinstance(op, graph.CallOp)
            parts.append(callee.removeprefix("fused_") if is_call else callee)
        elif isinstance(op, graph.CallOperatorOp):
            parts.append(_operator_name(op))
        elif isinstance(op, RelaxOperation) and not isinstance(op, TupleGetItemOp):
            parts.append(f"relax_{op.script_name().replace('.', '_')}")
    return "_".join(parts)


def _operator_name(op: graph.CallOperatorOp) -> str:
    """The operator; for a call of a tensor program, the program."""
    first = next(iter(tensors.packed_values(op.args) or ()), None)
    if first is not None and isinstance(first.owner, graph.GlobalVarOp):
        return first.owner.callee.value
    return op.operator.value.replace(".", "_")


class Outliner:
    """Outlines bindings into functions; structurally equal functions are merged.

    Args:
        module: the module that receives them.
        lift_constants: whether constants become parameters.
    """

    def __init__(self, module: IRModule, *, lift_constants: bool = True) -> None:
        self.module = module
        self.lift_constants = lift_constants
        self.table = SymbolTable(module)
        # Names of primitive functions by structural hash.
        self._known: dict[int, list[str]] = {}
        for function in filter(function_attributes.is_primitive, module.func_ops()):
            known = structural_hash(module[function.name.value])
            self._known.setdefault(known, []).append(function.name.value)

    def outline(
        self, members: Sequence[ir.OpView], name: str, attrs: Mapping[str, Any]
    ) -> ir.Value | None:
        """Moves operations into a private function, called in place of the last one.

        Args:
            members: bindings of one block, in order.
            name: of the function; a number is appended if it is taken.
            attrs: of the function.

        Returns:
            The result of the call; None if no member has users.
        """
        outputs = _outputs(members)
        if not outputs:
            _erase_members(members)
            return None
        body = _Body(members, outputs, lift_constants=self.lift_constants)
        function = body.write(self.module, f"{name}.new", attrs)
        callee = self._shared(function, name)
        value = body.call(callee)
        if len(outputs) > 1:
            sort_block(value.owner.operation.block)
        return value

    def _shared(self, function: func.FuncOp, name: str) -> str:
        """The name of a structurally equal function, or of this one."""
        self.module.forget_scopes()
        view = self.module[function.name.value]
        known = self._known.setdefault(structural_hash(view), [])
        for other in known:
            if structural_equal(self.module[other], view):
                function.operation.erase()
                return other
        unique = self.table.unique(name)
        function.attributes["sym_name"] = ir.StringAttr.get(unique)
        known.append(unique)
        return unique


def _outputs(members: Sequence[ir.OpView]) -> list[ir.Value]:
    """The live-out values: function-visible ones first, then in order of use."""
    inside = set(members)
    visible: list[ir.Value] = []
    hidden: list[ir.Value] = []
    for op in members:
        is_visible = (
            function_attributes.OUTPUT in op.attributes or dataflow_block_number(op) < 0
        )
        for result in op.operation.results:
            if is_visible:
                visible.append(result)
            elif any(user not in inside for user in users_of(result)):
                hidden.append(result)
    if len(hidden) > 1:
        hidden = _in_order_of_use(hidden, members)
    return visible + hidden


def _in_order_of_use(
    values: Sequence[ir.Value], members: Sequence[ir.OpView]
) -> list[ir.Value]:
    found: dict[ir.Value, None] = {}
    for op in own_operations(members[0].operation.block):
        if op not in members and not is_inline(op):
            read = chain.from_iterable(map(leaves_of, values_read(op)))
            found.update((value, None) for value in read if value in values)
    return list(found)


def _erase_members(members: Sequence[ir.OpView]) -> None:
    """Erases bindings without further users, and the tuple packs that read them."""
    for op in reversed(members):
        for result in op.operation.results:
            # One pack may contain a value twice.
            while (use := next(iter(result.uses), None)) is not None:
                use.owner.operation.erase()
        op.operation.erase()


class _Body:
    """The outlined function of some bindings, and the call that replaces them."""

    def __init__(
        self,
        members: Sequence[ir.OpView],
        outputs: Sequence[ir.Value],
        *,
        lift_constants: bool,
    ) -> None:
        self.members = list(members)
        self.outputs = list(outputs)
        self.lift_constants = lift_constants
        self._inside = {r for m in members for r in m.operation.results}
        self._items: dict[ir.Value, list[int]] = {}
        self.inputs = self._find_inputs()
        self.symbols: list[str] = []

    def _find_inputs(self) -> list[tuple[ir.Value, int | None]]:
        """The live-in values; for a tuple of which only elements are read, these elements."""
        read: dict[ir.Value, None] = {}
        parts: dict[ir.Value, list[int]] = {}
        fully: set[ir.Value] = set()
        for op in self.members:
            leaves = self._leaves(op)
            read.update((value, None) for value in leaves)
            # An element of a tuple packed inside is not an element of a live-in value.
            if not isinstance(op, TupleGetItemOp) or leaves != list(
                op.operation.operands
            ):
                fully.update(leaves)
                continue
            index = op.python_attrs()["index"]
            for value in leaves:
                if index not in parts.setdefault(value, []):
                    parts[value].append(index)
        self._items = {v: i for v, i in parts.items() if v not in fully}
        found: list[tuple[ir.Value, int | None]] = []
        for value in read:
            items = self._items.get(value)
            found += [(value, None)] if items is None else [(value, i) for i in items]
        return found

    def _leaves(self, op: ir.OpView) -> list[ir.Value]:
        """The values from outside that an operation reads."""
        found: list[ir.Value] = []
        for operand in op.operation.operands:
            found += self._leaves_of(operand)
        return found

    def _leaves_of(self, value: ir.Value) -> list[ir.Value]:
        if value in self._inside:
            return []
        owner = value.owner
        if not isinstance(owner, ir.Block) and is_inline(owner):
            if owner.name == tensors.TUPLE_PACK:
                return [v for o in owner.operands for v in self._leaves_of(o)]
            if self._is_copied(owner.opview):
                return []
        return [value]

    def _is_copied(self, op: ir.OpView) -> bool:
        if isinstance(op, _ALWAYS_COPIED):
            return True
        if isinstance(op, (graph.PrimValueOp, graph.ShapeExprOp)):
            return not symbols_in([op.result.type])
        return isinstance(op, ConstantOp) and not self.lift_constants

    def write(
        self, module: IRModule, name: str, attrs: Mapping[str, Any]
    ) -> func.FuncOp:
        """Emits the function at the end of the module."""
        types = [_input_type(v, i) for v, i in self.inputs]
        names = self._input_names()
        self.symbols = self._free_symbols(types)
        if self.symbols:
            text = ", ".join(f'"{s}"' for s in self.symbols)
            types.append(ir.Type.parse(f"!relax.sizes<[{text}]>"))
            names.append("tir_vars")
        location = self.members[-1].location
        with ir.InsertionPoint(module.mlir.body), location:
            function = func.FuncOp(name, ir.FunctionType.get(types, []))
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                self._fill(block)
        update_type(function)
        function_attributes.set_arg_names(function, names)
        store_attrs(function, attrs, module.constants)
        return function

    def _input_names(self) -> list[str]:
        names: list[str] = []
        constants = 0
        for value, item in self.inputs:
            name = variable_name(value)
            if name is None:
                name = f"param_{constants}"
                constants += 1
            names.append(name if item is None else f"{name}_{item}")
        return names

    def _free_symbols(self, types: Sequence[ir.Type]) -> list[str]:
        """The symbols that no parameter determines."""
        bound = {s for s in symbols_in(types) if any(_determines(t, s) for t in types)}
        used = symbols_in(r.type for m in self.members for r in m.operation.results)
        return [s for s in used if s not in bound]

    def _fill(self, block: ir.Block) -> None:
        arguments = list(block.arguments)[: len(self.inputs)]
        mapping: dict[ir.Value, ir.Value] = {}
        items: dict[tuple[ir.Value, int | None], ir.Value] = {}
        for key, argument in zip(self.inputs, arguments, strict=True):
            items[key] = argument
            if key[1] is None:
                mapping[key[0]] = argument
        for op in self.members:
            if isinstance(op, TupleGetItemOp) and op.tuple_value in self._items:
                key = (op.tuple_value, op.python_attrs()["index"])
                mapping[op.result] = items[key]
                continue
            for operand in op.operation.operands:
                self._copy_leaf(operand, mapping)
            clone(op, mapping)
            self._rename(op, mapping)
        func.ReturnOp([mapping[v] for v in self.outputs])

    def _copy_leaf(self, value: ir.Value, mapping: dict[ir.Value, ir.Value]) -> None:
        """Copies tuple packs and inline operands."""
        if value in mapping or isinstance(value.owner, ir.Block):
            return
        if is_inline(value.owner):
            for operand in value.owner.operands:
                self._copy_leaf(operand, mapping)
            clone(value.owner.opview, mapping)

    def _rename(self, op: ir.OpView, mapping: dict[ir.Value, ir.Value]) -> None:
        copy = mapping[op.operation.results[0]].owner
        copy.attributes[function_attributes.BLOCK] = to_attribute(0)
        is_output = any(r in self.outputs for r in op.operation.results)
        if is_output:
            copy.attributes[function_attributes.OUTPUT] = ir.UnitAttr.get()
        elif function_attributes.OUTPUT in copy.attributes:
            del copy.attributes[function_attributes.OUTPUT]

    def call(self, callee: str) -> ir.Value:
        """Calls the function in place of the last operation, and erases the operations."""
        last = self.members[-1]
        types = [v.type for v in self.outputs]
        is_one = len(types) == 1
        with ir.InsertionPoint(last), last.location:
            arguments = [_item(v, i) for v, i in self.inputs]
            if self.symbols:
                text = ", ".join(f'"{s}"' for s in self.symbols)
                sizes = ir.Type.parse(f"!relax.sizes<[{text}]>")
                arguments.append(graph.ShapeExprOp(results=[sizes]).result)
            result = tensors.packed_type(types)
            call = graph.CallOp(arguments, callee=callee, results=[result])
            copy_script_attributes(
                self.outputs[0].owner.opview if is_one else last, call
            )
            new = {self.outputs[0]: call.result} if is_one else self._parts(call)
        for old, value in new.items():
            old.replace_all_uses_with(value)
        _erase_members(self.members)
        return call.result

    def _parts(self, call: graph.CallOp) -> dict[ir.Value, ir.Value]:
        """The elements of the call's result, by output, in the order of the bindings."""
        call.attributes[function_attributes.NAME] = ir.StringAttr.get("lv")
        found: dict[ir.Value, ir.Value] = {}
        for member in self.members:
            for output in member.operation.results:
                if output in self.outputs:
                    index = self.outputs.index(output)
                    item = TupleGetItemOp(call.result, index=index)
                    copy_script_attributes(member, item)
                    found[output] = item.result
        return found


def _determines(type_: ir.Type, symbol: str) -> bool:
    """Whether a type has a dimension that is just the symbol."""
    return f'"{symbol}"' in str(type_)


def _input_type(value: ir.Value, item: int | None) -> ir.Type:
    return value.type if item is None else ir.TupleType(value.type).get_type(item)


def _item(value: ir.Value, item: int | None) -> ir.Value:
    if item is None:
        return value
    taken = TupleGetItemOp(value, index=item)
    taken.attributes[function_attributes.NAME] = ir.StringAttr.get("lv")
    taken.attributes[function_attributes.BLOCK] = to_attribute(0)
    return taken.result


def variable_name(value: ir.Value) -> str | None:
    """The variable name of a value in a script."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        number = ir.BlockArgument(value).arg_number
        holder = owner.owner.opview
        names = (
            function_attributes.arg_names(holder)
            if isinstance(holder, func.FuncOp)
            else []
        )
        return (names[number] if names else None) or f"arg{number}"
    if function_attributes.NAME in owner.attributes:
        return ir.StringAttr(owner.attributes[function_attributes.NAME]).value
    return None if is_inline(owner) else "lv"


def sort_block(block: ir.Block) -> None:
    """Stable topological sort of a block's operations."""
    *operations, last = list(own_operations(block))
    done: set[ir.Operation] = set()
    anchor = last

    def place(op: ir.Operation) -> None:
        if op in done:
            return
        done.add(op)
        for operand in op.operands:
            owner = operand.owner
            if not isinstance(owner, ir.Block) and owner.operation.block == block:
                place(owner.operation)
        op.move_before(anchor.operation)

    for op in operations:
        place(op.operation)

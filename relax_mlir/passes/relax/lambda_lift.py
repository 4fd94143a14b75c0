"""``relax-lambda-lift``: functions inside functions become functions of the module."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import (
    blocks_of,
    copy_script_attributes,
    graph_functions,
    operations_of,
    set_graph_attrs,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.rewriting import Pass, clone, erase, replace
from relax_mlir.traversal import own_operations

__all__ = ["LambdaLift"]


@dataclass(frozen=True)
class LambdaLift(Pass):
    """Move inner functions to the module, called ``<outer>_<inner>``.

    One that reads values around it takes them as parameters after its own, and is made a
    closure of them where it stood.
    """

    def run(self, module: IRModule) -> None:
        taken = {f.name.value for f in module.func_ops()}
        for function in graph_functions(module):
            outer = function.name.value
            for op in reversed(list(operations_of(function))):
                if isinstance(op, graph.FunctionOp):
                    _lift(module, op, _unique(f"{outer}_{_name(op)}", taken))


def _name(op: ir.OpView) -> str:
    if names.NAME not in op.attributes:
        return "lambda"
    return ir.StringAttr(op.attributes[names.NAME]).value


def _unique(wish: str, taken: set[str]) -> str:
    name, count = wish, 0
    while name in taken:
        name = f"{wish}_{count}"
        count += 1
    taken.add(name)
    return name


def _lift(module: IRModule, op: graph.FunctionOp, name: str) -> None:
    body = op.operation.regions[0].blocks[0]
    itself, *params = body.arguments
    captured = _captured(op)
    known = from_attribute(op.attributes["attrs"])
    with ir.InsertionPoint(module.mlir.body), op.location:
        types = [v.type for v in (*params, *captured)]
        lifted = func.FuncOp(name, ir.FunctionType.get(types, []))
        block = lifted.add_entry_block()
        mapping = dict(zip([*params, *captured], block.arguments, strict=True))
        *operations, last = own_operations(body)
        with ir.InsertionPoint(block):
            for inner in operations:
                clone(inner, mapping)
            func.ReturnOp([mapping.get(v, v) for v in last.operands])
    update_type(lifted)
    called = [str(n) for n in known["params"]]
    names.set_arg_names(lifted, [*called, *map(_value_name, captured)])
    attrs = dict(known["attrs"])
    attrs.pop("global_symbol", None)
    set_graph_attrs(lifted, attrs)
    if not known["is_pure"]:
        lifted.attributes[names.IMPURE] = ir.UnitAttr.get()
    _call_itself(itself, lifted, name, len(params))
    _replace(op, lifted, captured, is_pure=bool(known["is_pure"]))


def _captured(op: graph.FunctionOp) -> list[ir.Value]:
    """The values around a function that it reads."""
    inside: set[ir.Value] = set()
    found: dict[ir.Value, None] = {}
    for block in blocks_of(op):
        inside.update(block.arguments)
        for inner in own_operations(block):
            inside.update(inner.operation.results)
    for inner in operations_of(op):
        found.update((v, None) for v in inner.operation.operands if v not in inside)
    return list(found)


def _value_name(value: ir.Value) -> str:
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return _name(owner.opview)
    holder = owner.owner.opview
    number = ir.BlockArgument(value).arg_number
    if isinstance(holder, func.FuncOp):
        return names.arg_names(holder)[number] or f"arg{number}"
    if isinstance(holder, graph.FunctionOp):  # itself comes first
        return str(from_attribute(holder.attributes["attrs"])["params"][number - 1])
    return f"arg{number}"


def _call_itself(itself: ir.Value, lifted: func.FuncOp, name: str, count: int) -> None:
    """Let the lifted function call itself by its name."""
    extra = list(lifted.entry_block.arguments)[count:]
    for inner in operations_of(lifted):
        if isinstance(inner, graph.CallValueOp) and inner.function == itself:
            with ir.InsertionPoint(inner), inner.location:
                arguments = [*tensors.elements(inner.args), *extra]
                call = graph.CallOp(arguments, callee=name, results=[inner.result.type])
            copy_script_attributes(inner, call)
            replace(inner, call.result)


def _replace(
    op: graph.FunctionOp,
    lifted: func.FuncOp,
    captured: Sequence[ir.Value],
    *,
    is_pure: bool,
) -> None:
    """Use the function of the module where the inner one was used."""
    name = lifted.name.value
    with ir.InsertionPoint(op), op.location:
        target = graph.GlobalVarOp(callee=name, results=[op.result.type])
        value, closure = target.result, None
        if captured:
            made = graph.CallOperatorOp(
                [target.result, tensors.pack(list(captured))],
                operator="relax.make_closure",
                attrs=ir.DictAttr.get({}),
                types=ir.ArrayAttr.get([]),
                results=[ir.Type.parse(_CLOSURE)],
            )
            copy_script_attributes(op, made)
            value = closure = made.result
    for use in list(op.result.uses):
        user = use.owner
        if isinstance(user, graph.CallValueOp) and user.function == op.result:
            if closure is not None:
                _invoke(user, closure, is_pure=is_pure)
            else:
                _call(user, lifted)
        else:
            user.operation.operands[use.operand_number] = value
    erase(op)


_CLOSURE = "!relax.object"


def _call(user: graph.CallValueOp, lifted: func.FuncOp) -> None:
    """Call the function by its name; what it gives may be a closure now."""
    type_ = user.result.type
    if [str(given) for given in lifted.type.results] == [_CLOSURE]:
        type_ = lifted.type.results[0]
    with ir.InsertionPoint(user), user.location:
        arguments = tensors.elements(user.args)
        call = graph.CallOp(arguments, callee=lifted.name.value, results=[type_])
    copy_script_attributes(user, call)
    becomes_closure = type_ != user.result.type
    replace(user, call.result)
    if not becomes_closure:
        return
    for use in list(call.result.uses):
        reader = use.owner
        if isinstance(reader, graph.CallValueOp) and reader.function == call.result:
            _invoke(reader, call.result, is_pure=names.IMPURE not in lifted.attributes)


def _invoke(user: graph.CallValueOp, closure: ir.Value, *, is_pure: bool) -> None:
    """Call a closure where the function was called that it is made of."""
    with ir.InsertionPoint(user), user.location:
        call = graph.CallOperatorOp(
            [closure, tensors.pack(tensors.elements(user.args))],
            operator="relax.invoke_pure_closure" if is_pure else "relax.invoke_closure",
            attrs=ir.DictAttr.get({}),
            types=ir.ArrayAttr.get([ir.TypeAttr.get(user.result.type)]),
            results=[user.result.type],
        )
    copy_script_attributes(user, call)
    replace(user, call.result)

"""``relax-lambda-lift``: lifts nested functions to the module (lambda lifting)."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, operations_of, own_operations
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    graph_functions,
    set_graph_attrs,
    update_type,
)
from relax_mlir.rewrite.patterns import Pass, clone, erase, replace

__all__ = ["LambdaLift"]


@dataclass(frozen=True)
class LambdaLift(Pass):
    """Lifts nested functions to the module, named ``<outer>_<inner>``.

    Captured values become parameters after the function's own; a closure of them replaces
    the function at its definition.
    """

    def run(self, module: IRModule) -> None:
        taken = {f.name.value for f in module.func_ops()}
        for function in graph_functions(module):
            outer = function.name.value
            for op in reversed(list(operations_of(function))):
                if isinstance(op, graph.FunctionOp):
                    _lift(module, op, _unique(f"{outer}_{_name(op)}", taken))


def _name(op: ir.OpView) -> str:
    if function_attributes.NAME not in op.attributes:
        return "lambda"
    return ir.StringAttr(op.attributes[function_attributes.NAME]).value


def _unique(preferred: str, taken: set[str]) -> str:
    name, count = preferred, 0
    while name in taken:
        name = f"{preferred}_{count}"
        count += 1
    taken.add(name)
    return name


def _lift(module: IRModule, op: graph.FunctionOp, name: str) -> None:
    body = op.operation.regions[0].blocks[0]
    self_reference, *params = body.arguments
    captured = _captured(op)
    func_attrs = from_attribute(op.attributes["attrs"])
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
    param_names = [str(n) for n in func_attrs["params"]]
    function_attributes.set_arg_names(
        lifted, [*param_names, *map(_value_name, captured)]
    )
    attrs = dict(func_attrs["attrs"])
    attrs.pop("global_symbol", None)
    set_graph_attrs(lifted, attrs)
    if not func_attrs["is_pure"]:
        lifted.attributes[function_attributes.IMPURE] = ir.UnitAttr.get()
    _redirect_recursive_calls(self_reference, lifted, name, len(params))
    _replace_uses(op, lifted, captured, is_pure=bool(func_attrs["is_pure"]))


def _captured(op: graph.FunctionOp) -> list[ir.Value]:
    """Returns the values that a nested function captures."""
    inside: set[ir.Value] = set()
    captured: dict[ir.Value, None] = {}
    for block in blocks_of(op):
        inside.update(block.arguments)
        for inner in own_operations(block):
            inside.update(inner.operation.results)
    for inner in operations_of(op):
        captured.update((v, None) for v in inner.operation.operands if v not in inside)
    return list(captured)


def _value_name(value: ir.Value) -> str:
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return _name(owner.opview)
    holder = owner.owner.opview
    index = ir.BlockArgument(value).arg_number
    if isinstance(holder, func.FuncOp):
        return function_attributes.arg_names(holder)[index] or f"arg{index}"
    if isinstance(holder, graph.FunctionOp):  # argument 0 is the function itself
        return str(from_attribute(holder.attributes["attrs"])["params"][index - 1])
    return f"arg{index}"


def _redirect_recursive_calls(
    self_reference: ir.Value, lifted: func.FuncOp, name: str, count: int
) -> None:
    """Redirects recursive calls to the lifted function."""
    extra = list(lifted.entry_block.arguments)[count:]
    for inner in operations_of(lifted):
        if isinstance(inner, graph.CallValueOp) and inner.function == self_reference:
            with ir.InsertionPoint(inner), inner.location:
                arguments = [*tensors.tuple_elements(inner.args), *extra]
                call = graph.CallOp(arguments, callee=name, results=[inner.result.type])
            copy_script_attributes(inner, call)
            replace(inner, call.result)


def _replace_uses(
    op: graph.FunctionOp,
    lifted: func.FuncOp,
    captured: Sequence[ir.Value],
    *,
    is_pure: bool,
) -> None:
    """Replaces uses of the nested function by the lifted one."""
    name = lifted.name.value
    with ir.InsertionPoint(op), op.location:
        target = graph.GlobalVarOp(callee=name, results=[op.result.type])
        value, closure = target.result, None
        if captured:
            make_closure = graph.CallOperatorOp(
                [target.result, tensors.pack_tuple(list(captured))],
                operator="relax.make_closure",
                attrs=ir.DictAttr.get({}),
                types=ir.ArrayAttr.get([]),
                results=[ir.Type.parse(_CLOSURE)],
            )
            copy_script_attributes(op, make_closure)
            value = closure = make_closure.result
    for use in list(op.result.uses):
        user = use.owner
        if isinstance(user, graph.CallValueOp) and user.function == op.result:
            if closure is not None:
                _invoke_closure(user, closure, is_pure=is_pure)
            else:
                _replace_call(user, lifted)
        else:
            user.operation.operands[use.operand_number] = value
    erase(op)


_CLOSURE = "!relax.object"


def _replace_call(user: graph.CallValueOp, lifted: func.FuncOp) -> None:
    """Calls the lifted function by name; its result may have become a closure."""
    type_ = user.result.type
    if [str(result) for result in lifted.type.results] == [_CLOSURE]:
        type_ = lifted.type.results[0]
    with ir.InsertionPoint(user), user.location:
        arguments = tensors.tuple_elements(user.args)
        call = graph.CallOp(arguments, callee=lifted.name.value, results=[type_])
    copy_script_attributes(user, call)
    becomes_closure = type_ != user.result.type
    replace(user, call.result)
    if not becomes_closure:
        return
    for use in list(call.result.uses):
        reader = use.owner
        if isinstance(reader, graph.CallValueOp) and reader.function == call.result:
            _invoke_closure(
                reader,
                call.result,
                is_pure=function_attributes.IMPURE not in lifted.attributes,
            )


def _invoke_closure(
    user: graph.CallValueOp, closure: ir.Value, *, is_pure: bool
) -> None:
    """Replaces a call of the nested function by a call of its closure."""
    with ir.InsertionPoint(user), user.location:
        call = graph.CallOperatorOp(
            [closure, tensors.pack_tuple(tensors.tuple_elements(user.args))],
            operator="relax.invoke_pure_closure" if is_pure else "relax.invoke_closure",
            attrs=ir.DictAttr.get({}),
            types=ir.ArrayAttr.get([ir.TypeAttr.get(user.result.type)]),
            results=[user.result.type],
        )
    copy_script_attributes(user, call)
    replace(user, call.result)

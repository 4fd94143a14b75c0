"""``relax-bundle-model-params``: weights are passed as one tuple."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.graphs import (
    PACK,
    graph_attrs,
    graph_functions,
    stand_beside,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.rewriting import Pass

__all__ = ["BundleModelParams", "bundle_parameters"]

_NAME = "model_params"


@dataclass(frozen=True)
class BundleModelParams(Pass):
    """Take the parameters after the first ``num_input``, an attribute, as one tuple.

    Args:
        param_tuple_name: what the tuple is called; ``model_params`` if it is left out.
    """

    param_tuple_name: str | None = None

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            count = graph_attrs(function).get("num_input")
            if count is not None:
                name = self.param_tuple_name or _NAME
                bundle_parameters(function, int(count), name)


def bundle_parameters(function: func.FuncOp, count: int, name: str = _NAME) -> None:
    """Take the parameters after the first ``count`` as one tuple called ``name``."""
    block = function.entry_block
    called = [name or f"arg{i}" for i, name in enumerate(names.arg_names(function))]
    weights = list(block.arguments)[count:]
    type_ = ir.TupleType.get_tuple([w.type for w in weights])
    whole = block.add_argument(type_, function.location)
    for index, weight in enumerate(weights):
        for use in reversed(list(weight.uses)):  # the last comes first
            _take(whole, index, use, called[count + index])
    for number in range(count + len(weights) - 1, count - 1, -1):
        block.erase_argument(number)
    if "arg_attrs" in function.attributes:
        del function.attributes["arg_attrs"]
    update_type(function)
    names.set_arg_names(function, [*called[:count], name])


def _take(whole: ir.Value, index: int, use: ir.OpOperand, name: str) -> None:
    """Read one element of the tuple in front of its user."""
    user = use.owner
    reader = user
    while reader.operation.name == PACK and names.NAME not in reader.attributes:
        reader = next(iter(reader.operation.results[0].uses)).owner
    with ir.InsertionPoint(user), user.location:
        item = TupleGetItemOp(whole, index=index)
    stand_beside(item, reader, name)
    if names.NAME not in item.attributes:
        item.attributes[names.NAME] = ir.StringAttr.get(name)
    user.operation.operands[use.operand_number] = item.result

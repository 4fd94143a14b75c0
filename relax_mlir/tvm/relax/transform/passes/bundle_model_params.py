"""``relax-bundle-model-params``: bundles weight parameters into one tuple."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.use_def import users_through
from relax_mlir.rewrite.functions import (
    bind_next_to,
    graph_attrs,
    graph_functions,
    update_type,
)
from relax_mlir.rewrite.patterns import Pass

__all__ = ["BundleModelParams", "bundle_parameters"]

_DEFAULT_NAME = "model_params"


@dataclass(frozen=True)
class BundleModelParams(Pass):
    """Bundles the parameters after the first ``num_input``, an attribute, into one tuple.

    Args:
        param_tuple_name: the name of the tuple; ``model_params`` by default.
    """

    param_tuple_name: str | None = None

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            count = graph_attrs(function).get("num_input")
            if count is not None:
                name = self.param_tuple_name or _DEFAULT_NAME
                bundle_parameters(function, int(count), name)


def bundle_parameters(
    function: func.FuncOp, count: int, name: str = _DEFAULT_NAME
) -> None:
    """Bundles the parameters after the first ``count`` into a tuple called ``name``."""
    block = function.entry_block
    param_names = [
        name or f"arg{i}"
        for i, name in enumerate(function_attributes.arg_names(function))
    ]
    weights = list(block.arguments)[count:]
    type_ = ir.TupleType.get_tuple([w.type for w in weights])
    param_tuple = block.add_argument(type_, function.location)
    for index, weight in enumerate(weights):
        for use in reversed(list(weight.uses)):  # uses are listed last to first
            _project(param_tuple, index, use, param_names[count + index])
    for arg_number in range(count + len(weights) - 1, count - 1, -1):
        block.erase_argument(arg_number)
    if "arg_attrs" in function.attributes:
        del function.attributes["arg_attrs"]
    update_type(function)
    function_attributes.set_arg_names(function, [*param_names[:count], name])


def _project(param_tuple: ir.Value, index: int, use: ir.OpOperand, name: str) -> None:
    """Emits the projection of one element before its user."""
    user = use.owner
    reader = next(users_through(user))
    with ir.InsertionPoint(user), user.location:
        item = TupleGetItemOp(param_tuple, index=index)
    bind_next_to(item, reader, name)
    if function_attributes.NAME not in item.attributes:
        item.attributes[function_attributes.NAME] = ir.StringAttr.get(name)
    user.operation.operands[use.operand_number] = item.result

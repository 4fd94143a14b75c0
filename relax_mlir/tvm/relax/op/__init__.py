"""Builder functions of Relax operators: ``relax.op.add(x, y)``, ``relax.op.nn.relu(x)``.

A builder function returns an unbound call; ``BlockBuilder.emit`` binds it to a variable.
"""

import operator
from typing import Any

from relax_mlir.errors import MissingElementError, near_misses
from relax_mlir.objects.expr import Call, Expr, TupleGetItem
from relax_mlir.objects.expr.node import register_operator
from relax_mlir.objects.operators import operation_class, operator_names
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.op import calls
from relax_mlir.tvm.relax.op.calls import *  # noqa: F403  it has __all__
from relax_mlir.tvm.relax.op.functions import operator_function
from relax_mlir.tvm.relax.op.inspection import inspect
from relax_mlir.tvm.relax.op.namespaces import ccl, grad, image, nn, vision
from relax_mlir.tvm.relax.op.shorthand import (
    layout_transform,
    linear,
    masked_fill,
    reshape,
)
from relax_mlir.tvm.relax.op.storage import builtin, memory, vm

__all__ = [
    "builtin",
    "ccl",
    "grad",
    "image",
    "inspect",
    "layout_transform",
    "linear",
    "masked_fill",
    "memory",
    "nn",
    "operator_function",
    "reshape",
    "vision",
    "vm",
]
__all__ += calls.__all__


def __getattr__(name: str) -> Any:
    """Builder function of an operator; the prefixes ``nn.`` and ``vision.`` may be omitted."""
    if name.startswith("__"):
        raise AttributeError(name)
    for full in (f"relax.{name}", f"relax.nn.{name}", f"relax.vision.{name}"):
        if operation_class(full) is not None:
            return operator_function(full)
    known = [n.rpartition(".")[2] for n in operator_names()]
    raise AttributeError(f"`relax` has no operator `{name}`.{near_misses(name, known)}")


def __dir__() -> list[str]:
    """Names of the module, with all operators."""
    names = (n.removeprefix("relax.") for n in operator_names())
    return sorted({*__all__, *(n for n in names if "." not in n)})


def _get_item(expr: Expr, index: Any) -> TupleGetItem:  # Any: checked here
    try:
        index = operator.index(index)
    except TypeError:
        raise TypeError(
            f"`{expr!r}[{index!r}]`: expected an integer index of a tuple element"
        ) from None
    info = expr.struct_info_or_none()
    fields = getattr(info, "fields", None)
    if fields is not None and not -len(fields) <= index < len(fields):
        raise MissingElementError(
            f"tuple has {len(fields)} elements, got index {index}"
        )
    return TupleGetItem(expr, index)


for _name in (
    *("add", "subtract", "multiply", "divide", "floor_divide", "mod", "power"),
    *("less", "greater", "less_equal", "greater_equal", "negative", "astype"),
):
    register_operator(
        _name, lambda *args, n=_name: operator_function(f"relax.{n}")(*args)
    )

register_operator("call", lambda op, args, attrs: Call(op, args, attrs))
register_operator("getitem", _get_item)

check_exports(globals())

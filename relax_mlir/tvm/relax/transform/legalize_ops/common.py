"""Registration of legalization rules."""

from typing import Any

from relax_mlir.objects.operators import register_op_attr
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc

__all__ = ["LegalizeFunc", "register_legalize"]


def register_legalize(
    op_name: str, legal_func: LegalizeFunc | None = None
) -> Any:  # Any: the function, or a decorator
    """Registers the legalization rule of an operator, replacing an earlier one.

    Args:
        op_name: such as ``relax.add``.
        legal_func: maps a builder and a call to the replacement of the call; None: the
            result is a decorator.
    """
    return register_op_attr(op_name, "FLegalize", legal_func)

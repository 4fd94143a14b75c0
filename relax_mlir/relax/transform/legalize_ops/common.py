"""Registering what operators become when they are legalized."""

from typing import Any

from relax_mlir.objects.operators import register_op_attr
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc

__all__ = ["LegalizeFunc", "register_legalize"]


def register_legalize(
    op_name: str, legal_func: LegalizeFunc | None = None
) -> Any:  # Any: the function, or what decorates it
    """Say what calls of an operator become, in place of what they became before.

    Args:
        op_name: such as ``relax.add``.
        legal_func: from a builder and a call to what replaces the call; None: the result
            decorates it.
    """
    return register_op_attr(op_name, "FLegalize", legal_func)

"""The form of nodes of which the standard says nothing."""

from relax_mlir.dialects.hooks import OnnxNode
from relax_mlir.errors import near_misses

__all__ = ["check_form"]


def check_form(node: OnnxNode, most: int, *names: str) -> None:
    """Check how many inputs a node has, and what its attributes are called.

    Args:
        node: the node.
        most: how many inputs it may have.
        *names: of attributes that it may have.

    Raises:
        ValueError: it has more inputs, or other attributes.
    """
    if len(node.inputs) > most:
        raise ValueError(
            f"wrong number of inputs: expected up to {most}, got {len(node.inputs)}"
        )
    for name in node.attrs:
        if name not in names:
            listed = ", ".join(f"`{n}`" for n in names) or "no attributes"
            raise ValueError(
                f"attribute `{name}`: expected {listed}.{near_misses(name, names)}"
            )

"""The form of nodes, where nobody has checked it before."""

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import NotKnownError, OnnxNode
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import near_misses

__all__ = ["check_form", "check_input_shape", "input_shape", "known_size"]


def input_shape(node: OnnxNode, index: int, *axes: str) -> tuple[Dim, ...]:
    """The shape of an input of known rank.

    Args:
        node: the node.
        index: of the input.
        *axes: what they are called; a last name that ends in ``...`` stands for one axis
            or more.

    Raises:
        ValueError: it has another rank.
    """
    shape = tensors.shape_of(node.input(index))
    is_open = axes[-1].endswith("...")
    if len(shape) < len(axes) or (len(shape) > len(axes) and not is_open):
        raise ValueError(
            f"input {index}: expected [{', '.join(axes)}], got "
            f"{shapes.format_shape(shape)}"
        )
    return shape


def known_size(node: OnnxNode, index: int, axis: int) -> int:
    """A size of an input, as a number.

    Raises:
        NotKnownError: only the running model tells.
    """
    size = tensors.shape_of(node.input(index))[axis]
    if not isinstance(size, int):
        raise NotKnownError(
            index, f"axis {axis}: expected a known size, got {size}", is_of_sizes=True
        )
    return size


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


def check_input_shape(node: OnnxNode, index: int, expected: shapes.Shape) -> None:
    """Require the shape of an input, of which open sizes are checked when they are known.

    Raises:
        ValueError: it surely has another.
    """
    shape = tensors.shape_of(node.input(index))
    is_other = any(map(shapes.is_known_unequal, shape, expected))
    if len(shape) != len(expected) or is_other:
        raise ValueError(
            f"input {index}: expected {shapes.format_shape(expected)}, got "
            f"{shapes.format_shape(shape)}"
        )
    for size, want in zip(shape, expected, strict=True):
        shapes.require_equal(size, want)

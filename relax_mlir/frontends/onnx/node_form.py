"""Checks of a node's inputs and attributes, for operators without an ONNX schema."""

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import near_misses

__all__ = [
    "check_inputs_and_attributes",
    "input_shape",
    "known_size",
    "require_input_shape",
]


def input_shape(node: OnnxNode, index: int, *axes: str) -> tuple[Dim, ...]:
    """The shape of an input, which must have a given rank.

    Args:
        node: the node.
        index: the index of the input.
        *axes: names of the axes; a last name that ends in ``...`` stands for one or more.

    Raises:
        ValueError: the rank is wrong.
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
    """A dimension of an input, which must be static.

    Raises:
        NotKnownError: the dimension is symbolic.
    """
    size = tensors.shape_of(node.input(index))[axis]
    if not isinstance(size, int):
        raise ValueNotKnownError(
            index,
            f"axis {axis}: expected a known size, got {size}",
            needs_shape_only=True,
        )
    return size


def check_inputs_and_attributes(node: OnnxNode, most: int, *names: str) -> None:
    """Check the number of inputs and the names of attributes.

    Args:
        node: the node.
        most: the maximum number of inputs.
        *names: the allowed attributes.

    Raises:
        ValueError: there are too many inputs, or an attribute is unknown.
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


def require_input_shape(node: OnnxNode, index: int, expected: shapes.Shape) -> None:
    """Require a shape of an input; symbolic sizes become constraints.

    Raises:
        ValueError: the shape is known to differ.
    """
    shape = tensors.shape_of(node.input(index))
    differs = any(map(shapes.is_known_unequal, shape, expected))
    if len(shape) != len(expected) or differs:
        raise ValueError(
            f"input {index}: expected {shapes.format_shape(expected)}, got "
            f"{shapes.format_shape(shape)}"
        )
    for size, wanted in zip(shape, expected, strict=True):
        shapes.require_equal(size, wanted)

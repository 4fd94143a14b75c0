"""Values of a graph under construction: in the module already, or known beforehand."""

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import ConstantOp, ShapeToTensorOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.frontends.onnx import shape_values
from relax_mlir.frontends.onnx.shape_values import SizedValue
from relax_mlir.frontends.onnx.weights import element_type

__all__ = [
    "GraphValue",
    "Operands",
    "computed",
    "constant",
    "emit",
    "retyped",
    "sizes",
    "untyped",
]

_LARGEST_I64 = 2**63 - 1


@dataclass(eq=False)
class GraphValue(SizedValue):
    """A named value.

    Attributes:
        name: in the model.
        value: the value in the module, once it is there.
        array: what it is, if that is known entirely.
    """

    name: str = ""
    value: ir.Value | None = None
    array: np.ndarray | None = None

    @property
    def is_small(self) -> bool:
        """Whether it may well be sizes, axes or a condition."""
        return len(self.shape) < 2 and not self.dtype.is_float

    @property
    def is_sizes(self) -> bool:
        """Whether sizes of inputs tell it, which are known later on as well."""
        return self.content is not None and self.array is None


def computed(name: str, value: ir.Value) -> GraphValue:
    """What an operation or a parameter gives.

    Raises:
        ValueError: it is not a tensor with named sizes.
    """
    if not isinstance(value.type, ir.RankedTensorType):
        raise ValueError(f"expected `{name}` to be a tensor, got `{value.type}`")
    shape, dtype = tensors.shape_of(value), tensors.dtype_of(value)
    return GraphValue(shape, dtype, None, name, value)


def untyped(name: str, value: ir.Value) -> GraphValue:
    """What only the running model tells the type of."""
    return GraphValue((), dtypes.dtype("float32"), None, name, value)


def constant(name: str, array: np.ndarray) -> GraphValue:
    """A constant, not in the module before an operation reads it.

    Raises:
        ValueError: tensors of its element type are not supported.
    """
    dtype = dtypes.from_numpy(array.dtype)
    content = shape_values.contents_of(array)
    return GraphValue(array.shape, dtype, content, name, None, array)


def sizes(name: str, content: np.ndarray, dtype: str) -> GraphValue:
    """Integers that :mod:`shape_values` found, not in the module before they are read."""
    array = shape_values.as_array(content, dtype)
    return GraphValue(content.shape, dtypes.dtype(dtype), content, name, None, array)


def retyped(
    op_type: str,
    attrs: Mapping[str, Any],  # Any: as many types as attributes
    inputs: Sequence[GraphValue | None],
) -> np.ndarray | None:
    """What a node makes of a small constant if it only changes the element type.

    Other constants are folded by a pass. These come before the arguments that rules
    must know, in the bodies of the standard's functions for one.

    Raises:
        ValueError, NotImplementedError: the type is not known, or not supported.
    """
    source = inputs[0].array if inputs and inputs[0] is not None else None
    if source is None or source.size > shape_values.LIMIT:
        return None
    if op_type == "Identity":
        return source
    target = None
    if op_type == "Cast" and isinstance(attrs.get("to"), int):
        target = element_type(attrs["to"])
    if op_type == "CastLike" and len(inputs) > 1 and inputs[1] is not None:
        target = inputs[1].dtype
    if target is None or target.is_narrow:  # for which nodes say how to round
        return None
    return AstypeOp.reference(source, target)


def emit(value: GraphValue, pool: MutableMapping[str, np.ndarray]) -> ir.Value:
    """The value in the module; a known one is put there now."""
    found = value.value
    if found is None:
        with ir.Location.name(value.name):
            found = value.value = _emitted(value, pool)
    return found


def _emitted(value: GraphValue, pool: MutableMapping[str, np.ndarray]) -> ir.Value:
    if value.array is not None:
        return _constant_op(value.array, pool, _key(value.name))
    if value.content is None:
        raise ValueError(f"`{value.name}` has no value")
    found = ShapeToTensorOp(dims=value.content.reshape(-1).tolist()).y
    if value.content.ndim != 1:
        found = ReshapeOp(found, shape=value.shape).y
    is_narrow = value.dtype.name != "int64"
    return AstypeOp(found, dtype=value.dtype).y if is_narrow else found


def _constant_op(
    array: np.ndarray, pool: MutableMapping[str, np.ndarray], key: str
) -> ir.Value:
    if array.dtype != np.uint64 or array.max(initial=0) <= _LARGEST_I64:
        return ConstantOp.of(array, pool, key)
    # MLIR's Python attributes hold no integer over 63 bits, so this one is not inline.
    while key in pool:
        key += "_"
    pool[key] = array
    type_ = tensors.tensor_type(array.shape, dtypes.from_numpy(array.dtype))
    attr = ir.Attribute.parse(f'#relax.const<"{key}">')
    return ConstantOp(value=attr, results=[type_]).y


def _key(name: str) -> str:
    """A name as text in the IR spells it without escapes."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:200] or "_"


class Operands(Sequence["ir.Value | None"]):
    """Operands of a node; a known one enters the module when it is read."""

    def __init__(
        self,
        values: Sequence[GraphValue | None],
        read: Callable[[GraphValue], ir.Value],
    ) -> None:
        """Read nothing yet."""
        self._values = values
        self._read = read

    @overload
    def __getitem__(self, index: int) -> ir.Value | None: ...

    @overload
    def __getitem__(self, index: slice) -> "list[ir.Value | None]": ...

    def __getitem__(
        self, index: int | slice
    ) -> "ir.Value | list[ir.Value | None] | None":
        """Operand ``index``, None if left out."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        value = self._values[index]
        return None if value is None else self._read(value)

    def __len__(self) -> int:
        """How many there are, those left out included."""
        return len(self._values)

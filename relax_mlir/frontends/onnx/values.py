"""Values of a graph under construction: SSA values, constants and symbolic sizes."""

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import ConstantOp, ShapeToTensorOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.frontends.onnx import shape_values
from relax_mlir.frontends.onnx.shape_values import SizedValue
from relax_mlir.frontends.onnx.weights import element_type

__all__ = [
    "GraphValue",
    "Operands",
    "computed_value",
    "constant_value",
    "emit_value",
    "fold_cast",
    "symbolic_value",
    "untyped_value",
]

_LARGEST_I64 = 2**63 - 1


@dataclass(eq=False)
class GraphValue(SizedValue):
    """A named value of the graph.

    Attributes:
        name: its name in the model.
        value: the SSA value, once it is emitted.
        array: its contents, if it is a constant.
    """

    name: str = ""
    value: ir.Value | None = None
    array: np.ndarray | None = None

    @property
    def is_small(self) -> bool:
        """Whether it is a scalar or vector of integers: likely sizes, axes or a condition."""
        return len(self.shape) < 2 and not self.dtype.is_float

    @property
    def is_sizes(self) -> bool:
        """Whether its elements are symbolic sizes, which a deferred subgraph can recompute."""
        return self.content is not None and self.array is None


def computed_value(name: str, value: ir.Value) -> GraphValue:
    """The result of an operation, or a parameter.

    Raises:
        ValueError: it is not a ranked tensor.
    """
    if not isinstance(value.type, ir.RankedTensorType):
        raise ValueError(f"expected `{name}` to be a tensor, got `{value.type}`")
    shape, dtype = tensors.shape_of(value), tensors.dtype_of(value)
    return GraphValue(shape, dtype, None, name, value)


def untyped_value(name: str, value: ir.Value) -> GraphValue:
    """A value whose type is known only when the model runs."""
    return GraphValue((), dtypes.dtype("float32"), None, name, value)


def constant_value(name: str, array: np.ndarray) -> GraphValue:
    """A constant, which is emitted on first use.

    Raises:
        ValueError: its element type is not supported.
    """
    dtype = dtypes.from_numpy(array.dtype)
    content = shape_values.contents_of(array)
    return GraphValue(array.shape, dtype, content, name, None, array)


def symbolic_value(name: str, content: np.ndarray, dtype: str) -> GraphValue:
    """A result of :mod:`shape_values`, which is emitted on first use."""
    array = shape_values.as_array(content, dtype)
    return GraphValue(content.shape, dtypes.dtype(dtype), content, name, None, array)


def fold_cast(
    op_type: str,
    attrs: Mapping[str, Any],  # Any: attribute values
    inputs: Sequence[GraphValue | None],
) -> np.ndarray | None:
    """Fold an Identity, Cast or CastLike of a small constant; None for other nodes.

    A pass folds other constants. Rules need the values of these, for example in function
    bodies of the standard.

    Raises:
        ValueError, NotImplementedError: the element type is unknown or not supported.
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
    if target is None or target.is_narrow:  # attributes of the node select the rounding
        return None
    return AstypeOp.reference(source, target)


def emit_value(value: GraphValue, pool: MutableMapping[str, np.ndarray]) -> ir.Value:
    """The SSA value of a graph value; emits a constant or sizes on first use."""
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
    """A constant's key from a name, without characters that the IR would escape."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:200] or "_"


class Operands(Sequence["ir.Value | None"]):
    """Operands of a node; constants are emitted when they are first accessed."""

    def __init__(
        self,
        values: Sequence[GraphValue | None],
        read: Callable[[GraphValue], ir.Value],
    ) -> None:
        """Keep the values, and the function that emits one."""
        self._values = values
        self._read = read

    @overload
    def __getitem__(self, index: int) -> ir.Value | None: ...

    @overload
    def __getitem__(self, index: slice) -> "list[ir.Value | None]": ...

    def __getitem__(
        self, index: int | slice
    ) -> "ir.Value | list[ir.Value | None] | None":
        """Operand ``index``, None if omitted."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        value = self._values[index]
        return None if value is None else self._read(value)

    def __len__(self) -> int:
        """The number of operands, including omitted ones."""
        return len(self._values)

"""Struct-info inference for operators on memory: allocation, views, inspection, frees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.errors import OperatorError
from relax_mlir.objects.expr import DataTypeImm, Expr, PrimValue, Tuple
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import IntImm
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.dims import Dim

__all__ = ["infer_storage"]


def infer_storage(name: str, args: Sequence[Expr]) -> StructInfo:
    """Struct info of the result of an operator on memory; an object for other operators."""
    rule = _RULES.get(name)
    return ObjectStructInfo() if rule is None else rule(args)


def _tensor(shape: Expr, dtype: Expr) -> StructInfo:
    name = dtype.value if isinstance(dtype, DataTypeImm) else ""
    return TensorStructInfo(shape, name)


def _view(args: Sequence[Expr]) -> StructInfo:
    """Struct info of a view; shape and element type default to the memory's.

    Raises:
        OperatorError: it exceeds the memory, or the shape or element type is invalid.
    """
    known = args[0].struct_info_or_none()
    shape, dtype = args[1], args[2]
    asked = shape.struct_info_or_none()
    if not isinstance(shape, Tuple) and not isinstance(asked, ShapeStructInfo):
        raise OperatorError(f"`relax.memory.view`: expected a shape, got {asked}")
    sizes = getattr(known, "shape", None) if isinstance(shape, Tuple) else shape
    name = getattr(known if isinstance(dtype, Tuple) else None, "dtype", "")
    name = getattr(dtype, "value", name)
    if isinstance(dtype, DataTypeImm) and name == "void":
        raise OperatorError("`relax.memory.view`: expected an element type, got void")
    ndim = getattr(known, "ndim", -1) if isinstance(shape, Tuple) else -1
    view = TensorStructInfo(sizes, name, ndim=-1 if sizes is not None else ndim)
    if isinstance(known, TensorStructInfo):
        _check_fits(known, view, args[3], is_whole=isinstance(shape, Tuple))
    return view


def _check_fits(
    memory: TensorStructInfo, view: TensorStructInfo, offset: Expr, *, is_whole: bool
) -> None:
    """Checks that a view is within its memory, as far as sizes are known.

    Raises:
        OperatorError: it provably is not.
    """
    number = offset.value if isinstance(offset, PrimValue) else None
    start = number.value if isinstance(number, IntImm) else 0
    symbols = Symbols()
    has, needs = (_bytes(tensor, symbols) for tensor in (memory, view))
    is_moved = is_whole and memory.dtype == view.dtype and start > 0
    is_larger = has is not None and needs is not None
    if is_moved or (is_larger and is_known_le(has + 1, needs + start)):  # pyright: ignore[reportOptionalOperand]
        raise OperatorError(
            f"`relax.memory.view`: {view} at byte {start} reaches beyond {memory}"
        )


def _bytes(tensor: TensorStructInfo, symbols: Symbols) -> Dim | None:
    """The size of a tensor in bytes, if known; in elements for an unknown element type."""
    if tensor.known_sizes is None:
        return None
    width = 1
    if tensor.dtype != "void":
        try:
            width = dtypes.dtype(tensor.dtype).size_bytes
        except ValueError:
            return None
    return shapes.product(symbols.dims(tensor.known_sizes)) * width


def _scalar(dtype: str) -> Callable[[Sequence[Expr]], StructInfo]:
    """Rule of an inspection of a tensor, or of one of its axes."""

    def rule(args: Sequence[Expr]) -> StructInfo:
        info = args[0].struct_info_or_none()
        if not isinstance(info, TensorStructInfo):
            raise OperatorError(f"`relax.inspect`: expected a tensor, got {info}")
        for axis in args[1:]:
            number = axis.value if isinstance(axis, PrimValue) else None
            axis_number = number.value if isinstance(number, IntImm) else 0
            if axis_number < 0 or 0 <= info.ndim <= axis_number:
                raise OperatorError(
                    f"`relax.inspect`: expected an axis of {info.ndim}, got {axis_number}"
                )
        return PrimStructInfo(dtype)

    return rule


def _same(args: Sequence[Expr]) -> StructInfo:
    return args[0].struct_info_or_none() or ObjectStructInfo()


def _nothing(args: Sequence[Expr]) -> StructInfo:
    return TupleStructInfo([])


_RULES: Mapping[str, Callable[[Sequence[Expr]], StructInfo]] = {
    "relax.builtin.alloc_tensor": lambda args: _tensor(args[0], args[1]),
    "relax.builtin.stop_lift_params": _same,
    "relax.memory.alloc_tensor": lambda args: _tensor(args[2], args[3]),
    "relax.memory.kill_storage": _nothing,
    "relax.memory.kill_tensor": _nothing,
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": _same,
    "relax.inspect.tensor_byte_offset": _scalar("uint64"),
    "relax.inspect.tensor_dtype_bits": _scalar("uint8"),
    "relax.inspect.tensor_dtype_code": _scalar("uint8"),
    "relax.inspect.tensor_dtype_lanes": _scalar("uint16"),
    "relax.inspect.tensor_elem_offset": _scalar("uint64"),
    "relax.inspect.tensor_ndim": _scalar("int32"),
    "relax.inspect.tensor_shape_i": _scalar("int64"),
    "relax.inspect.tensor_stride_i": _scalar("int64"),
    "relax.vm.alloc_tensor": lambda args: _tensor(args[2], args[3]),
    "relax.vm.kill_object": _nothing,
    "relax.vm.call_tir_dyn": _nothing,
}

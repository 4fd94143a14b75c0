"""What is known of the results of operators that allocate, view, ask and give up memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import OperatorError
from relax_mlir.objects.expr import DataTypeImm, Expr, PrimValue, Tuple
from relax_mlir.objects.prim import IntImm
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["infer_storage"]


def infer_storage(name: str, args: Sequence[Expr]) -> StructInfo:
    """What is known of the result of an operator on memory; an object of any other."""
    rule = _RULES.get(name)
    return ObjectStructInfo() if rule is None else rule(args)


def _tensor(shape: Expr, dtype: Expr) -> StructInfo:
    name = dtype.value if isinstance(dtype, DataTypeImm) else ""
    return TensorStructInfo(shape, name)


def _view(args: Sequence[Expr]) -> StructInfo:
    """A tensor whose shape and element type are the argument's unless others are given.

    Raises:
        OperatorError: it reaches beyond the memory, or has no shape or element type.
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
    made = TensorStructInfo(sizes, name, ndim=-1 if sizes is not None else ndim)
    if isinstance(known, TensorStructInfo):
        _check_fits(known, made, args[3], is_whole=isinstance(shape, Tuple))
    return made


def _check_fits(
    memory: TensorStructInfo, view: TensorStructInfo, offset: Expr, *, is_whole: bool
) -> None:
    """Check that a view lies in the memory, as far as that is known.

    Raises:
        OperatorError: it does not.
    """
    number = offset.value if isinstance(offset, PrimValue) else None
    start = number.value if isinstance(number, IntImm) else 0
    names = Symbols()
    has, needs = (_bytes(tensor, names) for tensor in (memory, view))
    is_moved = is_whole and memory.dtype == view.dtype and start > 0
    is_larger = has is not None and needs is not None
    if is_moved or (is_larger and is_known_le(has + 1, needs + start)):  # pyright: ignore[reportOptionalOperand]
        raise OperatorError(
            f"`relax.memory.view`: {view} at byte {start} reaches beyond {memory}"
        )


def _bytes(tensor: TensorStructInfo, names: Symbols) -> Dim | None:
    """How large a tensor is, if that is known; of unknown element types, its elements."""
    if tensor.known_sizes is None:
        return None
    width = 1
    if tensor.dtype != "void":
        try:
            width = dtypes.dtype(tensor.dtype).size_bytes
        except ValueError:
            return None
    return shapes.product(names.dims(tensor.known_sizes)) * width


def _scalar(dtype: str) -> Callable[[Sequence[Expr]], StructInfo]:
    """What is asked of a tensor, and of one of its axes."""

    def rule(args: Sequence[Expr]) -> StructInfo:
        info = args[0].struct_info_or_none()
        if not isinstance(info, TensorStructInfo):
            raise OperatorError(f"`relax.inspect`: expected a tensor, got {info}")
        for axis in args[1:]:
            number = axis.value if isinstance(axis, PrimValue) else None
            place = number.value if isinstance(number, IntImm) else 0
            if place < 0 or 0 <= info.ndim <= place:
                raise OperatorError(
                    f"`relax.inspect`: expected an axis of {info.ndim}, got {place}"
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

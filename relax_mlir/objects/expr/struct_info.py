"""Struct info: the types of Relax values (tensor, shape, scalar, tuple, function).

:mod:`.struct_info_types` maps them to MLIR types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.errors import IRError, MissingElementError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text, instance_of, sequence_of
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.printing import Printed

__all__ = [
    "DynTensorType",
    "FuncStructInfo",
    "ObjectStructInfo",
    "PrimStructInfo",
    "ShapeExpr",
    "ShapeStructInfo",
    "StructInfo",
    "TensorStructInfo",
    "TupleStructInfo",
    "VDevice",
    "checked_element",
]


def _size(value: Any) -> PrimExpr:
    """A size as a scalar expression; numbers are int64, as everywhere in Relax."""
    if isinstance(value, str):
        return prim.Var(value, "int64")
    expr = prim.convert(value)
    if isinstance(expr, prim.IntImm):
        return prim.IntImm("int64", expr.value)
    if not expr.is_integer:
        raise IRError(
            f"size `{expr}`: the value in ShapeStructInfo can only have dtype of int64, "
            f"got {expr.dtype}"
        )
    return expr


def checked_element(
    values: Sequence[Any], index: Any, kind: str
) -> Any:  # Any: element type
    """An element, or a slice; ``kind`` names the sequence in the error message.

    Raises:
        IndexError: the index is out of range.
    """
    try:
        return values[index]
    except IndexError:
        raise MissingElementError(
            f"{kind} index out of range: expected one of {len(values)}, got {index}"
        ) from None


class ShapeExpr(Expr):
    """A shape as a value; also the shape of a tensor type.

    Attributes:
        values: a scalar expression per dimension.
    """

    def __init__(self, values: Sequence[Any], span: object = None) -> None:
        self.values = tuple(map(_size, sequence_of(values, "ShapeExpr", "sizes")))
        for value in self.values:
            if value.dtype != "int64":
                raise IRError(
                    f"size `{value}`: the value in ShapeType can only have dtype "
                    f"of int64, got {value.dtype}"
                )
        self._struct_info = ShapeStructInfo(self.values)

    def __getitem__(self, index: Any) -> Any:
        return checked_element(self.values, index, "ShapeExpr")

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[PrimExpr]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (tuple, list)):
            other = ShapeExpr(other)
        return isinstance(other, ShapeExpr) and _same_sizes(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"R.shape([{', '.join(map(str, self.values))}])"


def _same_sizes(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(map(_same_size, a, b))


def _same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two sizes are provably equal for all values of their variables."""
    if prim.structurally_equal(a, b):
        return True
    names = Symbols()
    try:
        return names.dim(a) == names.dim(b)
    except ValueError:
        return False


class VDevice:
    """A virtual device: target, device number and memory scope."""

    def __init__(
        self, target: Any = None, vdevice_id: int = 0, memory_scope: str = "global"
    ) -> None:
        self.target = _target_text(target) if isinstance(target, Mapping) else target
        self.vdevice_id = vdevice_id
        self.memory_scope = memory_scope

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VDevice) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        target = "" if self.target is None else f'"{self.target}"'
        return f'I.vdevice({target}, {self.vdevice_id}, "{self.memory_scope}")'

    def __str__(self) -> str:
        return f"{self.target}:{self.vdevice_id}:{self.memory_scope}"

    @staticmethod
    def parse(text: str) -> VDevice:
        """The device of a ``str(device)``; a target alone is accepted, too."""
        target, *rest = text.rsplit(":", 2)
        if len(rest) < 2 or not rest[0].isdigit():
            return VDevice(text)
        return VDevice(target, int(rest[0]), rest[1])


def _target_text(target: Mapping[str, Any]) -> str:
    """A target dictionary as text: ``opencl -device=adreno``."""
    options = [f"-{name}={value}" for name, value in target.items() if name != "kind"]
    return " ".join([str(target.get("kind", "llvm")), *options])


class StructInfo(Printed):
    """Base class of struct info."""

    def key(self) -> tuple[object, ...]:
        """The fields that equality compares."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._same(other)

    def _same(self, other: Any) -> bool:
        return self.key() == other.key()

    def __hash__(self) -> int:
        return hash((type(self), str(self)))

    def same_as(self, other: object) -> bool:
        """Whether it is equal."""
        return self == other

    def is_base_of(self, derived: StructInfo) -> bool:
        """Whether every value of ``derived`` also has this struct info."""
        from relax_mlir.objects.compare.struct_info_base_check import (
            BaseCheckResult,
            struct_info_base_check,
        )

        return struct_info_base_check(self, derived) is BaseCheckResult.PASS

    def __repr__(self) -> str:
        return str(self)


class ObjectStructInfo(StructInfo):
    """Struct info of any value."""

    def __init__(self, span: object = None) -> None:
        pass

    def __str__(self) -> str:
        return "R.Object"


class PrimStructInfo(StructInfo):
    """Struct info of a scalar.

    Attributes:
        dtype: its element type.
        value: the expression of its value, if known.
    """

    def __init__(
        self, dtype: Any = None, value: Any = None, span: object = None
    ) -> None:
        if isinstance(dtype, (list, tuple)):
            raise TypeError(
                f"R.Prim: expected an element type, got {short_repr(dtype)}"
            )
        if isinstance(dtype, PrimExpr):
            value = dtype
        self.value = None if value is None else prim.convert(value)
        known = self.value is not None and not isinstance(dtype, str)
        self.dtype = self.value.dtype if known else str(dtype)  # pyright: ignore[reportOptionalMemberAccess]

    def _same(self, other: Any) -> bool:
        if self.dtype != other.dtype or (self.value is None) != (other.value is None):
            return False
        return self.value is None or _same_size(self.value, other.value)

    __hash__ = StructInfo.__hash__

    def __str__(self) -> str:
        if self.value is None:
            return f'R.Prim("{self.dtype}")'
        return f'R.Prim(value="{self.value}")'


class ShapeStructInfo(StructInfo):
    """Struct info of a shape value.

    Attributes:
        values: a scalar expression per dimension, or None.
        ndim: number of dimensions; -1 if unknown.
    """

    def __init__(
        self,
        values: Sequence[Any] | None = None,
        ndim: int = -1,
        span: object = None,
    ) -> None:
        instance_of(ndim, int, "R.Shape: `ndim`", "a number")
        if values is not None and ndim != -1:
            raise ValueError(
                f"R.Shape: expected sizes or their number, got ndim={ndim} too"
            )
        listed = () if values is None else sequence_of(values, "R.Shape", "sizes")
        self.values = None if values is None else tuple(map(_size, listed))
        self.ndim = ndim if self.values is None else len(self.values)

    def _same(self, other: Any) -> bool:
        if self.ndim != other.ndim or (self.values is None) != (other.values is None):
            return False
        return self.values is None or _same_sizes(self.values, other.values)

    __hash__ = StructInfo.__hash__

    def __str__(self) -> str:
        if self.values is not None:
            return f"R.Shape([{', '.join(map(str, self.values))}])"
        return "R.Shape" if self.ndim < 0 else f"R.Shape(ndim={self.ndim})"


class TensorStructInfo(StructInfo):
    """Struct info of a tensor.

    Attributes:
        shape: its shape as a :class:`ShapeExpr`, or None.
        dtype: element type; ``void`` if unknown.
        ndim: rank; -1 if unknown.
        vdevice: its virtual device, or None.
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = "float32",
        vdevice: VDevice | None = None,
        ndim: int = -1,
        span: object = None,
    ) -> None:
        if shape is not None and ndim != -1:
            raise ValueError(
                f"expected a shape or a rank, got shape {short_repr(shape)} and ndim={ndim}"
            )
        self.shape_var: Expr | None = None
        if isinstance(shape, Expr) and not isinstance(shape, ShapeExpr):
            self.shape_var, shape = shape, None
            ndim = getattr(self.shape_var.struct_info_or_none(), "ndim", ndim)
        if shape is not None and not isinstance(shape, ShapeExpr):
            shape = ShapeExpr(shape)
        self._shape: ShapeExpr | None = shape
        is_unknown = dtype is None or (isinstance(dtype, str) and not dtype)
        where = "TensorStructInfo: `dtype`"
        self.dtype = "void" if is_unknown else dtype_text(dtype, where)
        self.ndim = ndim if shape is None else len(shape)
        self.vdevice = vdevice

    @property
    def shape(self) -> Any:  # Any: a ShapeExpr, the variable that holds it, or None
        """The shape, or the variable that holds it."""
        return self._shape if self._shape is not None else self.shape_var

    def replace(self, **changes: Any) -> TensorStructInfo:
        """A copy with some fields replaced; without a shape the rank is kept.

        Args:
            changes: any of ``shape``, ``dtype`` and ``vdevice``.
        """
        fields = {"shape": self.shape, "dtype": self.dtype, "vdevice": self.vdevice}
        fields |= changes
        ndim = self.ndim if fields["shape"] is None else -1
        return TensorStructInfo(**fields, ndim=ndim)

    @property
    def known_sizes(self) -> Sequence[PrimExpr] | None:
        """The sizes, also those of a shape variable whose value is known; or None."""
        if self._shape is not None:
            return self._shape.values
        held = None if self.shape_var is None else self.shape_var.struct_info_or_none()
        return held.values if isinstance(held, ShapeStructInfo) else None

    def _same(self, other: Any) -> bool:
        mine, theirs = self.shape, other.shape
        if (mine is None) != (theirs is None):
            return False
        same = (self.dtype, self.ndim, self.vdevice)
        return same == (other.dtype, other.ndim, other.vdevice) and mine == theirs

    __hash__ = StructInfo.__hash__

    def __str__(self) -> str:
        parts = []
        if self._shape is not None:
            comma = "," if self.ndim == 1 else ""
            parts.append(f"({', '.join(map(str, self._shape))}{comma})")
        if self.dtype != "void":
            parts.append(f'dtype="{self.dtype}"')
        if self._shape is None and self.ndim >= 0:
            parts.append(f"ndim={self.ndim}")
        if self.vdevice is not None:
            parts.append(f'vdevice="{self.vdevice}"')
        return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor"


class DynTensorType:
    """Type of a tensor in TVM before struct info: rank and element type.

    Attributes:
        ndim: rank; -1 if unknown.
        dtype: element type; empty if unknown.
    """

    def __init__(self, ndim: int = -1, dtype: str = "", span: object = None) -> None:
        self.ndim = ndim
        self.dtype = dtype

    def __repr__(self) -> str:
        return f'DynTensorType({self.ndim}, "{self.dtype}")'


class TupleStructInfo(StructInfo):
    """Struct info of a tuple.

    Attributes:
        fields: struct info of each field.
    """

    def __init__(self, fields: Sequence[StructInfo], span: object = None) -> None:
        self.fields: tuple[StructInfo, ...]
        self.fields = sequence_of(fields, "R.Tuple", "struct info")

    def key(self) -> tuple[object, ...]:
        return self.fields

    __hash__ = StructInfo.__hash__

    def __str__(self) -> str:
        return (
            f"R.Tuple({', '.join(map(str, self.fields))})" if self.fields else "R.Tuple"
        )


class FuncStructInfo(StructInfo):
    """Struct info of a function.

    Attributes:
        params: struct info of its parameters; None for an opaque function.
        ret: struct info of its result.
        purity: whether it is free of side effects.
    """

    def __init__(
        self,
        params: Sequence[StructInfo] | None,
        ret: StructInfo,
        purity: bool = True,
        span: object = None,
    ) -> None:
        self.params = None if params is None else tuple(params)
        self.ret = ret
        self.purity = purity
        self.derive_func: Callable[..., StructInfo] | None = None

    @staticmethod
    def opaque_func(
        *,
        ret: StructInfo | None = None,
        derive_func: Any = None,
        purity: bool = False,
        span: object = None,
    ) -> FuncStructInfo:
        """An opaque function, of which at most the result is known."""
        info = FuncStructInfo(None, ret or ObjectStructInfo(), purity)
        info.derive_func = derive_func
        return info

    def _same(self, other: Any) -> bool:
        from relax_mlir.objects.compare.structural_equal import structural_equal

        return structural_equal(
            self, other
        )  # symbolic sizes are bound in the signature

    __hash__ = StructInfo.__hash__

    def __str__(self) -> str:
        if self.params is None:
            return "R.Callable"
        params = ", ".join(map(str, self.params))
        comma = "," if len(self.params) == 1 else ""
        return f"R.Callable(({params}{comma}), {self.ret}, {self.purity})"

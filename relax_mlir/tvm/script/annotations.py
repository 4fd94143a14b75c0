"""Struct info annotations of scripts: ``R.Tensor((2, "n"), "float32")``, ``R.Shape``, ...

Sizes may be text, which only the enclosing function can resolve. An annotation is
struct info with unresolved sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable as Function
from collections.abc import Sequence
from typing import Any as Anything

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr import Expr, PrimValue
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)

__all__ = [
    "Annotation",
    "Any",
    "Callable",
    "Object",
    "Prim",
    "Shape",
    "Tensor",
    "Tuple",
    "as_annotation",
    "struct_info",
]

_ResolveSize = Function[[Anything], Anything]


class Annotation:
    """Struct info whose sizes may be text.

    Args:
        build: makes the struct info, given a function that resolves sizes.
        sizes: the sizes that are text.
    """

    def __init__(
        self, build: Function[[_ResolveSize], StructInfo], sizes: Sequence[str]
    ) -> None:
        self._build = build
        self.sizes = tuple(sizes)

    def resolve(self, resolve_size: _ResolveSize) -> StructInfo:
        """Makes the struct info; ``resolve_size`` resolves the text of a size."""
        return self._build(
            lambda size: resolve_size(size) if isinstance(size, str) else size
        )

    def as_struct_info(self) -> StructInfo:
        """Makes the struct info outside of a function.

        Raises:
            ValueError: a size is text.
        """
        if self.sizes:
            raise ValueError(
                f"size `{self.sizes[0]}` is text: expected a variable or a number. Text is "
                "allowed in annotations of parameters and results only."
            )
        return self._build(lambda size: size)

    as_ty = as_struct_info

    def symbols(self) -> list[str]:
        """Returns the sizes that are identifiers, which define variables."""
        return [size for size in self.sizes if size.isidentifier()]

    def encode_structure(self, encoder: Anything) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.structural_equal`."""
        encoder.info(self.as_struct_info())

    def __eq__(self, other: object) -> bool:
        info = other.as_struct_info() if isinstance(other, Annotation) else other
        return self.as_struct_info() == info

    def __hash__(self) -> int:
        return hash(self.as_struct_info())

    def __repr__(self) -> str:
        return (
            repr(self.as_struct_info()) if not self.sizes else f"Annotation{self.sizes}"
        )


def as_annotation(value: Anything) -> Annotation:
    """Converts the value of an annotation expression.

    Raises:
        TypeError: the value is not an annotation.
    """
    if value is None:
        return Tuple()
    if isinstance(value, Annotation):
        return value
    if isinstance(value, StructInfo):
        return Annotation(lambda resolve_size: value, ())
    if isinstance(value, prim.Var):
        return Prim(value.dtype)
    if callable(value) and getattr(value, "__module__", None) == __name__:
        return as_annotation(value())
    raise TypeError(
        f'expected an annotation such as `R.Tensor((2, 3), "float32")`, got {short_repr(value)}'
    )


def struct_info(value: Anything) -> StructInfo:
    """Converts an annotation outside of a function signature to struct info."""
    return (
        value
        if isinstance(value, StructInfo)
        else as_annotation(value).as_struct_info()
    )


class _Kind(Annotation):
    """An annotation with optional arguments: ``R.Tensor`` and ``R.Tensor((2,))``."""

    def __init__(self, make: Function[..., Annotation]) -> None:
        super().__init__(lambda resolve_size: make().as_struct_info(), ())
        self._make = make
        self.__doc__ = make.__doc__

    def __call__(self, *args: Anything, **kwargs: Anything) -> Annotation:
        try:
            inspect.signature(self._make).bind(*args, **kwargs)
        except TypeError as error:
            name = self._make.__name__.strip("_")
            raise TypeError(f"annotation of kind `{name}`: {error}") from None
        return self._make(*args, **kwargs)


def _texts(sizes: Anything) -> list[str]:
    return [size for size in sizes if isinstance(size, str)]


def _check_ndim(ndim: Anything) -> None:
    if not isinstance(ndim, int) or ndim < -1:
        raise ValueError(
            f"ndim: expected a rank, or -1 for an unknown one, got {short_repr(ndim)}"
        )


def _tensor(
    shape: Anything = None,
    dtype: Anything = None,
    vdevice: Anything = None,
    ndim: int = -1,
) -> Annotation:
    """Annotation of a tensor.

    Args:
        shape: its sizes: numbers, variables, or text; or a variable that holds a shape.
        dtype: element type; also accepted as the only positional argument.
        vdevice: the virtual device, or its name.
        ndim: rank, if the shape is unknown.
    """
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    _check_ndim(ndim)
    dtype = "" if dtype is None else dtype
    device = _vdevice(vdevice)
    if shape is None or isinstance(shape, Expr):
        info = TensorStructInfo(shape, dtype, device, ndim)
        return Annotation(lambda resolve_size: info, ())
    if not isinstance(shape, (tuple, list)):
        raise ValueError(
            f"shape: expected a tuple or a list of sizes, got {short_repr(shape)}"
        )
    if ndim not in (-1, len(shape)):
        raise ValueError(f"shape has {len(shape)} sizes, got ndim={ndim}")
    return Annotation(
        lambda resolve_size: TensorStructInfo(
            [resolve_size(s) for s in shape], dtype, device
        ),
        _texts(shape),
    )


# Stack of functions that look up names such as ``cuda:1`` in the module being parsed.
vdevice_lookups: list[Function[[str], VDevice]] = []


def _vdevice(named: Anything) -> VDevice | None:
    if named is None or isinstance(named, VDevice):
        return named
    if vdevice_lookups:
        return vdevice_lookups[-1](named)
    text = instance_of(named, str, "`vdevice`", "a device or its name")
    kind, number, scope, *_ = [*text.split(":", 2), "", ""]
    if not (number or "0").isdigit():
        raise ValueError(f"`vdevice`: expected `kind:number:scope`, got `{text}`")
    return VDevice(kind, int(number or 0), scope or "global")


def _shape(values: Anything = None, ndim: int = -1) -> Annotation:
    """Annotation of a shape value.

    Args:
        values: the sizes: numbers, variables, or text.
        ndim: number of sizes, if they are unknown.
    """
    _check_ndim(ndim)
    if values is None:
        return Annotation(lambda resolve_size: ShapeStructInfo(None, ndim), ())
    listed = sequence_of(values, "R.Shape", "sizes")
    return Annotation(
        lambda resolve_size: ShapeStructInfo([resolve_size(v) for v in listed]),
        _texts(listed),
    )


def _prim(dtype: Anything = None, value: Anything = None) -> Annotation:
    """Annotation of a scalar.

    Args:
        dtype: its type.
        value: its value, if known: a scalar expression, or text.
    """
    if dtype is None and value is None:
        raise ValueError("R.Prim: expected `dtype` or `value`")
    if isinstance(value, PrimValue):
        value = value.value

    def build(resolve_size: _ResolveSize) -> StructInfo:
        scalar = resolve_size(value)
        if isinstance(scalar, int) and not isinstance(scalar, bool):
            scalar = prim.IntImm(dtype or "int64", scalar)
        return PrimStructInfo(dtype, scalar)

    return Annotation(build, _texts([value]))


def _tuple(*fields: Anything) -> Annotation:
    """Annotation of a tuple.

    Args:
        fields: the annotations of the fields, or one list of them.
    """
    if len(fields) == 1 and isinstance(fields[0], (tuple, list)):
        fields = tuple(fields[0])
    parts = [as_annotation(field) for field in fields]
    return Annotation(
        lambda resolve_size: TupleStructInfo([p.resolve(resolve_size) for p in parts]),
        [size for part in parts for size in part.sizes],
    )


def _callable(
    params: Anything = None,
    ret: Anything = None,
    purity: bool | None = None,
    derive_func: Anything = None,
) -> Annotation:
    """Annotation of a function.

    Args:
        params: annotations of its parameters; None for an opaque function.
        ret: annotation of its result.
        purity: whether it has no side effects; by default true if ``params`` is given.
        derive_func: infers the struct info of a call, for an opaque function.
    """
    result = None if ret is None else as_annotation(ret)
    if params is None:
        return Annotation(
            lambda resolve_size: FuncStructInfo.opaque_func(
                ret=None if result is None else result.resolve(resolve_size),
                derive_func=derive_func,
                purity=bool(purity),
            ),
            (),
        )
    listed = params if isinstance(params, (tuple, list)) else [params]
    parts = [as_annotation(p) for p in listed]

    def build(resolve_size: _ResolveSize) -> StructInfo:
        ret_info = (
            ObjectStructInfo() if result is None else result.resolve(resolve_size)
        )
        infos = [p.resolve(resolve_size) for p in parts]
        return FuncStructInfo(infos, ret_info, purity is not False)

    return Annotation(build, [size for part in parts for size in part.sizes])


def _object() -> Annotation:
    """Annotation of an arbitrary object."""
    return Annotation(lambda resolve_size: ObjectStructInfo(), ())


Tensor = _Kind(_tensor)
Shape = _Kind(_shape)
Prim = _Kind(_prim)
Tuple = _Kind(_tuple)
Callable = _Kind(_callable)
Object = _Kind(_object)
Any = Object

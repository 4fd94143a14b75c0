"""What scripts write for struct info: ``R.Tensor((2, "n"), "float32")``, ``R.Shape``, ...

Where sizes are text, what they mean is only known to the function around them; until
then an annotation stands in place of struct info.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable as Function
from collections.abc import Sequence
from typing import Any as Anything

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr import Expr, PrimValue
from relax_mlir.objects.struct_info import (
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

_SizeOf = Function[[Anything], Anything]


class Annotation:
    """Struct info whose sizes may be text.

    Args:
        build: makes the struct info, given what tells the size that text spells.
        sizes: the sizes that are text.
    """

    def __init__(
        self, build: Function[[_SizeOf], StructInfo], sizes: Sequence[str]
    ) -> None:
        self._build = build
        self.sizes = tuple(sizes)

    def resolve(self, size_of: _SizeOf) -> StructInfo:
        """The struct info, where ``size_of`` gives the size that a text spells."""
        return self._build(
            lambda size: size_of(size) if isinstance(size, str) else size
        )

    def as_struct_info(self) -> StructInfo:
        """The struct info, without a function around it.

        Raises:
            ValueError: a size is text.
        """
        if self.sizes:
            raise ValueError(
                f"size `{self.sizes[0]}` is text: expected a variable or a number. Text is "
                "allowed in the annotations of parameters and results."
            )
        return self._build(lambda size: size)

    as_ty = as_struct_info

    def symbols(self) -> list[str]:
        """The sizes that are names, and so define variables."""
        return [size for size in self.sizes if size.isidentifier()]

    def spell(self, spelling: Anything) -> None:
        """Its structure; see :mod:`relax_mlir.objects.structure`."""
        spelling.info(self.as_struct_info())

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
    """What an annotation in a script means.

    Raises:
        TypeError: it is none.
    """
    if value is None:
        return Tuple()
    if isinstance(value, Annotation):
        return value
    if isinstance(value, StructInfo):
        return Annotation(lambda size_of: value, ())
    if isinstance(value, prim.Var):
        return Prim(value.dtype)
    if callable(value) and getattr(value, "__module__", None) == __name__:
        return as_annotation(value())
    raise TypeError(
        f'expected an annotation such as `R.Tensor((2, 3), "float32")`, got {shown(value)}'
    )


def struct_info(value: Anything) -> StructInfo:
    """The struct info that a script writes, outside of the annotations of a function."""
    return (
        value
        if isinstance(value, StructInfo)
        else as_annotation(value).as_struct_info()
    )


class _Kind(Annotation):
    """An annotation that may be called with more: ``R.Tensor`` and ``R.Tensor((2,))``."""

    def __init__(self, make: Function[..., Annotation]) -> None:
        super().__init__(lambda size_of: make().as_struct_info(), ())
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
            f"ndim: expected a rank, or -1 for an unknown one, got {shown(ndim)}"
        )


def _tensor(
    shape: Anything = None,
    dtype: Anything = None,
    vdevice: Anything = None,
    ndim: int = -1,
) -> Annotation:
    """A tensor.

    Args:
        shape: its sizes: numbers, variables, or text; or a variable that holds a shape.
        dtype: element type; also allowed in place of the shape.
        vdevice: where it lives.
        ndim: rank, where the shape is not known.
    """
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    _check_ndim(ndim)
    dtype = "" if dtype is None else dtype
    device = _vdevice(vdevice)
    if shape is None or isinstance(shape, Expr):
        info = TensorStructInfo(shape, dtype, device, ndim)
        return Annotation(lambda size_of: info, ())
    if not isinstance(shape, (tuple, list)):
        raise ValueError(
            f"shape: expected a tuple or a list of sizes, got {shown(shape)}"
        )
    if ndim not in (-1, len(shape)):
        raise ValueError(f"shape has {len(shape)} sizes, got ndim={ndim}")
    return Annotation(
        lambda size_of: TensorStructInfo([size_of(s) for s in shape], dtype, device),
        _texts(shape),
    )


# How names of devices such as ``cuda:1`` are found in the module that is being parsed.
find_vdevice: list[Function[[str], VDevice]] = []


def _vdevice(named: Anything) -> VDevice | None:
    if named is None or isinstance(named, VDevice):
        return named
    if find_vdevice:
        return find_vdevice[-1](named)
    text = instance_of(named, str, "`vdevice`", "a device or its name")
    kind, number, scope, *_ = [*text.split(":", 2), "", ""]
    if not (number or "0").isdigit():
        raise ValueError(f"`vdevice`: expected `kind:number:scope`, got `{text}`")
    return VDevice(kind, int(number or 0), scope or "global")


def _shape(values: Anything = None, ndim: int = -1) -> Annotation:
    """Sizes as a value.

    Args:
        values: the sizes: numbers, variables, or text.
        ndim: how many, where they are not known.
    """
    _check_ndim(ndim)
    if values is None:
        return Annotation(lambda size_of: ShapeStructInfo(None, ndim), ())
    listed = sequence_of(values, "R.Shape", "sizes")
    return Annotation(
        lambda size_of: ShapeStructInfo([size_of(v) for v in listed]), _texts(listed)
    )


def _prim(dtype: Anything = None, value: Anything = None) -> Annotation:
    """A scalar.

    Args:
        dtype: its type.
        value: what it equals: a term, or text.
    """
    if dtype is None and value is None:
        raise ValueError("R.Prim: expected `dtype` or `value`")
    if isinstance(value, PrimValue):
        value = value.value

    def build(size_of: _SizeOf) -> StructInfo:
        known = size_of(value)
        if isinstance(known, int) and not isinstance(known, bool):
            known = prim.IntImm(dtype or "int64", known)
        return PrimStructInfo(dtype, known)

    return Annotation(build, _texts([value]))


def _tuple(*fields: Anything) -> Annotation:
    """Several values.

    Args:
        fields: what is known of each; or one list of them.
    """
    if len(fields) == 1 and isinstance(fields[0], (tuple, list)):
        fields = tuple(fields[0])
    parts = [as_annotation(field) for field in fields]
    return Annotation(
        lambda size_of: TupleStructInfo([p.resolve(size_of) for p in parts]),
        [size for part in parts for size in part.sizes],
    )


def _callable(
    params: Anything = None,
    ret: Anything = None,
    purity: bool | None = None,
    derive_func: Anything = None,
) -> Annotation:
    """A function.

    Args:
        params: what it takes; None for a function of which nothing is known.
        ret: what it gives.
        purity: whether it does nothing else; by default if its parameters are known.
        derive_func: tells what it gives, from a call.
    """
    result = None if ret is None else as_annotation(ret)
    if params is None:
        return Annotation(
            lambda size_of: FuncStructInfo.opaque_func(
                ret=None if result is None else result.resolve(size_of),
                derive_func=derive_func,
                purity=bool(purity),
            ),
            (),
        )
    listed = params if isinstance(params, (tuple, list)) else [params]
    parts = [as_annotation(p) for p in listed]

    def build(size_of: _SizeOf) -> StructInfo:
        known = ObjectStructInfo() if result is None else result.resolve(size_of)
        infos = [p.resolve(size_of) for p in parts]
        return FuncStructInfo(infos, known, purity is not False)

    return Annotation(build, [size for part in parts for size in part.sizes])


def _object() -> Annotation:
    """Any value."""
    return Annotation(lambda size_of: ObjectStructInfo(), ())


Tensor = _Kind(_tensor)
Shape = _Kind(_shape)
Prim = _Kind(_prim)
Tuple = _Kind(_tuple)
Callable = _Kind(_callable)
Object = _Kind(_object)
Any = Object

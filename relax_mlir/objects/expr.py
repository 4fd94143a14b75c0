"""The expressions of Relax as Python objects.

What stands in a module is read from MLIR as these objects (:mod:`.reader`), and written
to it from them (:mod:`.writer`); a module holds MLIR alone. Variables are compared by
identity: one function gives the same object for the same value each time it is asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.node import Expr
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.printing import Printed
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    element,
)

__all__ = [
    "Attrs",
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "GlobalVar",
    "If",
    "MatchCast",
    "Op",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
    "const",
    "convert",
    "is_leaf",
]

_NUMBERS = itertools.count()


class Id:
    """What makes a variable itself, whatever it is called."""

    def __init__(self, name_hint: str) -> None:
        self.name_hint = name_hint
        self.number = next(_NUMBERS)

    def __repr__(self) -> str:
        return f'Id("{self.name_hint}")'


class Var(Expr):
    """A variable of a function.

    Attributes:
        name_hint: what a script calls it, if no other variable is called so.
    """

    def __init__(
        self,
        name_hint: Any,
        struct_info: Any = None,
        type_annotation: Any = None,
        span: object = None,
    ) -> None:
        self.vid = name_hint if isinstance(name_hint, Id) else Id(str(name_hint))
        self._struct_info = _annotation(struct_info, type_annotation)
        self.span = span

    @property
    def name_hint(self) -> str:
        """What a script calls it."""
        return self.vid.name_hint

    @property
    def name(self) -> str:
        """TVM's newest spelling of ``name_hint``."""
        return self.vid.name_hint

    def __repr__(self) -> str:
        return self.name_hint


def _annotation(info: Any, old: Any) -> StructInfo | None:
    """Struct info as a constructor may be given it.

    Before struct info, TVM's variables took a shape and a type with rank and element type.
    """
    if old is not None:
        return TensorStructInfo(info, getattr(old, "dtype", ""), ndim=old.ndim)
    if info is None or isinstance(info, StructInfo):
        return info
    if isinstance(info, (list, tuple)):
        return TensorStructInfo(info, "")
    as_struct_info = getattr(info, "as_struct_info", None)
    if as_struct_info is None:
        raise TypeError(f"expected struct info, got {info!r}")
    return as_struct_info()


def _info(given: Any) -> StructInfo:
    """Struct info, which may be given as scripts spell it."""
    found = _annotation(given, None)
    return ObjectStructInfo() if found is None else found


class DataflowVar(Var):
    """A variable that only its own dataflow block sees."""


class GlobalVar(Expr):
    """A function of the module, by name."""

    def __init__(self, name_hint: str, struct_info: StructInfo | None = None) -> None:
        self.name_hint = name_hint
        self._struct_info = struct_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and self.name_hint == other.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)

    def __repr__(self) -> str:
        return f'I.GlobalVar("{self.name_hint}")'


class ExternFunc(Expr):
    """A registered function, by name."""

    def __init__(
        self, global_symbol: str, struct_info: Any = None, span: object = None
    ) -> None:
        self.global_symbol = global_symbol
        self._struct_info = struct_info or FuncStructInfo.opaque_func()

    def __eq__(self, other: object) -> bool:
        is_same_kind = isinstance(other, ExternFunc)
        return is_same_kind and self.global_symbol == other.global_symbol

    def __hash__(self) -> int:
        return hash(self.global_symbol)

    def __repr__(self) -> str:
        return f'R.ExternFunc("{self.global_symbol}")'


class ArrayData(np.ndarray):
    """The array of a constant, with the methods of TVM's tensors."""

    def numpy(self) -> np.ndarray:
        """The plain array."""
        return self.view(np.ndarray)

    asnumpy = numpy


class Constant(Expr):
    """An array.

    Attributes:
        data: its elements; ``data.numpy()`` is the array.
    """

    def __init__(self, data: Any, struct_info: Any = None, span: object = None) -> None:
        array = data.numpy() if hasattr(data, "numpy") else data
        self.array = np.asarray(array)
        self._struct_info = struct_info or TensorStructInfo(
            self.array.shape, self.array.dtype.name
        )

    @property
    def data(self) -> ArrayData:
        """Its elements."""
        return self.array.view(ArrayData)


class PrimValue(Expr):
    """A scalar expression as a value."""

    def __init__(self, value: Any, span: object = None) -> None:
        number = isinstance(value, int) and not isinstance(value, bool)
        self.value: PrimExpr = (
            prim.IntImm("int64", value) if number else prim.convert(value)
        )
        self._struct_info = PrimStructInfo(value=self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrimValue):
            return False
        return self.struct_info == other.struct_info

    def __hash__(self) -> int:
        return hash(self.value)


class StringImm(Expr):
    """A string as a value."""

    def __init__(self, value: str, span: object = None) -> None:
        self.value = value
        self._struct_info = ObjectStructInfo()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.value == other
        return isinstance(other, StringImm) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class DataTypeImm(Expr):
    """An element type as a value."""

    def __init__(self, value: str, span: object = None) -> None:
        self.value = str(value)
        self._struct_info = ObjectStructInfo()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataTypeImm) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Tuple(Expr):
    """Several values as one."""

    def __init__(self, fields: Any, span: object = None) -> None:
        self.fields: tuple[Expr, ...] = tuple(convert(f) for f in fields)

    def struct_info_or_none(self) -> StructInfo | None:
        known = [f.struct_info_or_none() for f in self.fields]
        if any(k is None for k in known):
            return None
        return TupleStructInfo([k for k in known if k is not None])

    def __getitem__(self, index: Any) -> Any:
        return element(self.fields, index, "Tuple")

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


class TupleGetItem(Expr):
    """One element of a tuple."""

    def __init__(self, tuple_value: Expr, index: int, span: object = None) -> None:
        self.tuple_value = tuple_value
        self.index = int(index)
        info = tuple_value.struct_info_or_none()
        if isinstance(info, TupleStructInfo) and not 0 <= self.index < len(info.fields):
            raise IndexError(
                f"`{tuple_value!r}`: expected an index below its length, which is "
                f"{len(info.fields)}, got {self.index}"
            )

    def struct_info_or_none(self) -> StructInfo | None:
        info = self.tuple_value.struct_info_or_none()
        if isinstance(info, TupleStructInfo):
            return info.fields[self.index]
        return None if info is None else ObjectStructInfo()


class Op(Expr):
    """An operator, by its name; there is one object per name.

    Attributes:
        name: such as ``relax.add``.
    """

    _all: dict[str, Op] = {}  # noqa: RUF012  it is the registry

    def __init__(self, name: str) -> None:
        self.name = name
        self._struct_info = FuncStructInfo.opaque_func(purity=True)
        self._attrs: dict[str, Any] = {}  # Any: as many types as attributes

    @staticmethod
    def with_attr(name: str) -> dict[str, Any]:  # Any: what the attribute is
        """The values of an attribute, by the names of the operators that have it."""
        operators = Op._all.values()
        return {op.name: op._attrs[name] for op in operators if name in op._attrs}

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        from relax_mlir.objects.operators import operator_names

        return sorted(operator_names())

    def get_attr(self, name: str) -> Any:
        """What is registered of the operator under this name; None for nothing."""
        from relax_mlir.objects.operators import own_attr

        return self._attrs[name] if name in self._attrs else own_attr(self, name)

    def has_attr(self, name: str) -> bool:
        """Whether something is registered of the operator under this name."""
        return name in self._attrs

    def set_attr(self, name: str, value: Any, plevel: int = 10) -> None:
        """Register something of the operator, in place of what was registered."""
        self._attrs[name] = value

    def reset_attr(self, name: str) -> None:
        """Forget what is registered of the operator under this name."""
        self._attrs.pop(name, None)

    @staticmethod
    def of(name: str) -> Op:
        """The operator with this name, known or not."""
        return Op._all.setdefault(name, Op(name))

    @staticmethod
    def get(name: str) -> Op:
        """The operator with this name.

        Raises:
            AttributeError: there is none.
        """
        from relax_mlir.objects.operators import get_op

        return get_op(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Op({self.name})"


class Attrs(Mapping[str, Any]):
    """Attributes of a call or a function, as items and as fields."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> Any:  # Any: as many types as attributes
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            known = ", ".join(self.__dict__.get("_values", ()))
            raise AttributeError(f"no attribute `{name}`: expected one of {known}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_str(self, name: str) -> str:
        """An attribute that is a string."""
        return str(self._values[name])

    def get_int(self, name: str) -> int:
        """An attribute that is an integer."""
        return int(self._values[name])

    def __repr__(self) -> str:
        return repr(self._values)


class Call(Expr):
    """A call of an operator, of a function of the module, or of a value.

    Attributes:
        op: an :class:`Op`, :class:`GlobalVar`, :class:`ExternFunc` or an expression.
        args: its arguments.
        attrs: named ones.
        sinfo_args: types among the arguments.
    """

    def __init__(
        self,
        op: Any,
        args: Any,
        attrs: Any = None,
        sinfo_args: Any = None,
        span: object = None,
    ) -> None:
        self.op: Expr = _callee(Op.of(op) if isinstance(op, str) else op)
        self.args: tuple[Expr, ...] = tuple(convert(a) for a in args)
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        self.sinfo_args: tuple[StructInfo, ...] = tuple(map(_info, sinfo_args or ()))
        self.span = span

    @property
    def ty_args(self) -> tuple[StructInfo, ...]:
        """TVM's newest spelling of ``sinfo_args``."""
        return self.sinfo_args

    def with_struct_info(self, info: StructInfo) -> Call:
        """The same call, of which the result is known."""
        made = Call(self.op, self.args, self.attrs, self.sinfo_args, self.span)
        made._struct_info = info
        return made


def _callee(op: Expr) -> Expr:
    """What a call calls, checked as far as it is known.

    Raises:
        ValueError: it is a variable that holds no function.
    """
    info = op.struct_info_or_none() if isinstance(op, Var) else None
    if info is None or isinstance(info, (FuncStructInfo, ObjectStructInfo)):
        return op
    raise ValueError(f"call of `{op}`: expected a function, got {info}")


class If(Expr):
    """One of two values, by a condition.

    Attributes:
        cond: a boolean tensor of rank 0, or a boolean scalar.
        true_branch, false_branch: :class:`SeqExpr`.
    """

    def __init__(
        self, cond: Expr, true_branch: Expr, false_branch: Expr, span: object = None
    ) -> None:
        self.cond = cond
        self.true_branch = as_sequence(true_branch)
        self.false_branch = as_sequence(false_branch)


class Binding(Printed):
    """Something that gives a variable its value."""

    var: Var
    value: Expr
    span: object = None


class VarBinding(Binding):
    """``var = value``."""

    def __init__(self, var: Var, value: Expr, span: object = None) -> None:
        self.var = var
        self.value = value


class MatchCast(Binding):
    """``var = R.match_cast(value, struct_info)``: checked when it runs."""

    def __init__(
        self, var: Var, value: Expr, struct_info: Any, span: object = None
    ) -> None:
        self.var = var
        self.value = value
        self.struct_info: StructInfo = _info(struct_info)

    @property
    def ty(self) -> StructInfo:
        """TVM's newest spelling of ``struct_info``."""
        return self.struct_info


class BindingBlock(Printed):
    """Bindings in order."""

    def __init__(self, bindings: Sequence[Binding], span: object = None) -> None:
        self.bindings = tuple(bindings)


class DataflowBlock(BindingBlock):
    """Bindings that do nothing but compute: their order is free."""


class SeqExpr(Expr):
    """Blocks of bindings, and the value after them.

    Attributes:
        blocks: in order.
        body: a variable, a constant, or a tuple of such.
    """

    def __init__(
        self, blocks: Sequence[BindingBlock], body: Expr, span: object = None
    ) -> None:
        self.blocks = tuple(blocks)
        self.body = body

    def struct_info_or_none(self) -> StructInfo | None:
        return self._struct_info or self.body.struct_info_or_none()


def as_sequence(expr: Expr) -> SeqExpr:
    """An expression as the body of a function or a branch."""
    return expr if isinstance(expr, SeqExpr) else SeqExpr((), expr)


_LEAVES = (
    *(Var, Constant, ShapeExpr, GlobalVar, ExternFunc, Op),
    *(PrimValue, StringImm, DataTypeImm),
)


def is_leaf(expr: Expr) -> bool:
    """Whether an expression may be an argument as it is, in TVM's normal form."""
    if isinstance(expr, Tuple):
        return all(map(is_leaf, expr.fields))
    return isinstance(expr, _LEAVES)


def const(value: Any, dtype: Any = None) -> Constant:
    """An array, or a number, as a constant.

    Args:
        value: Python numbers and nested lists, numpy arrays, or tensors with ``numpy()``.
        dtype: element type; by default that of the value, where numbers and numpy arrays
            of 64 bits become int32 and float32.

    Raises:
        ValueError: it is no array of numbers.
    """
    if isinstance(value, Constant):
        value = value.data
    is_tensor = hasattr(value, "numpy")
    array = np.asarray(value.numpy() if is_tensor else value)
    if dtype is None and not is_tensor:
        dtype = {"float64": "float32", "int64": "int32"}.get(array.dtype.name)
    if array.dtype.kind not in "biufV":
        raise ValueError(f"expected numbers, got {value!r}")
    if dtype is not None:
        name = str(getattr(dtype, "name", dtype))
        array = array.astype(getattr(ml_dtypes, name, None) or name)
    return Constant(array)


def convert(value: Any) -> Expr:
    """A Python value as an expression: tuples, numbers, strings, scalar expressions.

    Raises:
        TypeError: it cannot be one.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (tuple, list)):
        return Tuple(value)
    if isinstance(value, (PrimExpr, prim.IterVar, int, float, np.number, np.bool_)):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, np.ndarray):
        return Constant(value)
    as_expr = getattr(value, "as_expr", None)
    if as_expr is not None:
        return as_expr()
    raise TypeError(f"expected an expression, got {value!r}")

"""Structural equality, structural hash, and the first mismatch of two programs.

A program is encoded as a canonical stream of tokens, in which a variable is the number of
its definition, so that names do not matter; each token has the access path of its origin.
Programs are equal if their streams are. Sizes are encoded in canonical form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from tvm_ffi.access_path import AccessPath

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.compare.access_path import access_path, missing
from relax_mlir.objects.compare.mismatch_text import mismatch_message, narrow_mismatch
from relax_mlir.objects.expr import (
    Attrs,
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = [
    "StructuralEncoder",
    "assert_structural_equal",
    "first_mismatch",
    "structural_equal",
    "structural_hash",
]


@dataclass(frozen=True)
class Token:
    """A piece of a program's structure, and its access path."""

    value: object
    path: str


_END = "no more"  # marks the end of a list


class OptionalPart:
    """Tokens of an optional part, which equal any others if the part is omitted.

    Args:
        parts: values of its tokens; None if it is omitted.
    """

    def __init__(self, parts: tuple[object, ...] | None) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptionalPart):
            return False
        return None in (self.parts, other.parts) or self.parts == other.parts

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return " ".join(map(str, self.parts or ()))


class StructuralEncoder:
    """Encodes the structure of one program as a stream of tokens.

    Args:
        map_free_vars: whether free variables are numbered, too; otherwise each equals only
            itself.
    """

    def __init__(self, *, map_free_vars: bool = False) -> None:
        self.tokens: list[Token] = []
        self.map_free_vars = map_free_vars
        self.limits: dict[
            str, tuple[int, int | None]
        ] = {}  # of loop variables and axes
        self._numbers: dict[int, int] = {}
        self._enclosing: set[int] = set()  # ids of the containers being encoded
        self._alive: list[object] = []
        self._path: list[str] = ["<root>"]
        self._functions = 0

    def put(self, *values: object) -> None:
        """Appends tokens at the current path."""
        path = "".join(self._path)
        self.tokens += [Token(value, path) for value in values]

    def put_optional(
        self,
        encode: Callable[[StructuralEncoder, Any], None],
        parts: Iterable[Any] | None,
    ) -> None:
        """Appends one token for an optional part, which is None if omitted."""
        if parts is None:
            self.put(OptionalPart(None))
            return
        first = len(self.tokens)
        for part in parts:
            encode(self, part)
        values = tuple(token.value for token in self.tokens[first:])
        del self.tokens[first:]
        self.put(OptionalPart(values))

    def at(self, step: str, encode: Callable[..., None], *args: Any) -> None:
        """Encodes a part, one step down the path."""
        self._path.append(step)
        encode(*args)
        self._path.pop()

    def each(
        self, step: str, encode: Callable[[Any], None], parts: Iterable[Any]
    ) -> None:
        """Encodes a list of parts."""
        listed = list(parts)
        for number, part in enumerate(listed):
            self.at(f"{step}[{number}]", encode, part)
        self.end(f"{step}[{len(listed)}]")

    def end(self, step: str) -> None:
        """Appends the end of a list."""
        self.at(step, self.put, _END)

    def define(self, var: object) -> None:
        """Numbers a variable at its definition."""
        if id(var) not in self._numbers:
            self._numbers[id(var)] = len(self._numbers)
            self._alive.append(var)

    def number(self, var: object) -> object:
        """The token value of a variable."""
        if id(var) not in self._numbers and self.map_free_vars:
            self.define(var)
        return self._numbers.get(id(var), ("free", id(var)))

    def encode(self, value: Any) -> None:
        """Encodes any value.

        Raises:
            ValueError: a list or a dictionary contains itself.
        """
        if isinstance(value, (list, tuple, dict)):
            self._encode_container(value)
        else:
            self._encode(value)

    def _encode_container(self, value: Any) -> None:
        if id(value) in self._enclosing:
            raise ValueError(
                "expected finite nesting, got a value that contains itself"
            )
        self._enclosing.add(id(value))
        self._encode(value)
        self._enclosing.discard(id(value))

    def _encode(self, value: Any) -> None:
        encode_itself = getattr(value, "encode_structure", None)
        if encode_itself is not None:
            encode_itself(self)
            return
        for kind, encode in _KINDS.items():
            if isinstance(value, kind):
                encode(self, value)
                return
        self.attribute(value)

    def attribute(self, value: Any) -> None:
        """Encodes a plain Python value."""
        if isinstance(value, Mapping):
            step = ".{}" if isinstance(value, Attrs) else '["{}"]'
            for key in sorted(value, key=str):
                self.at(step.format(key), self.put, str(key))
                self.at(step.format(key), self.encode, value[key])
            self.put(_END)
        elif isinstance(value, (list, tuple)):
            self.each("", self.encode, value)
        elif isinstance(value, (bool, int, np.integer)):
            self.put(int(value))
        else:
            self.put(value if isinstance(value, (str, float)) else short_repr(value))

    def size(self, size: PrimExpr, *, is_dimension: bool = False) -> None:
        """Encodes a size in canonical form, or a scalar expression structurally."""
        symbols = Symbols()
        for expr in prim.post_order(size):
            if isinstance(expr, prim.Var):
                if self._functions:
                    self.define(expr)
                symbols.alias(expr, _identifier(f"v{self.number(expr)}"))
        try:
            self.put(
                str(symbols.dims([size])[0] if is_dimension else symbols.dim(size))
            )
        except ValueError:
            self._expr(size)

    def _expr(self, expr: PrimExpr) -> None:
        if isinstance(expr, prim.Var):
            self.put("Var", self.number(expr))
            return
        if isinstance(expr, prim.Let):
            self.define(expr.var)
        self.put(type(expr).__name__, *map(str, expr.key()))
        for child in expr.children():
            self._expr(child)

    def _dimension(self, size: PrimExpr) -> None:
        self.size(size, is_dimension=True)

    def info(self, info: StructInfo | None) -> None:
        """Encodes struct info."""
        self.put(type(info).__name__)
        if isinstance(info, TensorStructInfo):
            self.put(info.dtype, info.ndim, str(info.vdevice))
            if isinstance(info.shape, ShapeExpr):
                self.each(".shape", self._dimension, info.shape.values)
            else:
                self.put("unknown shape")
        elif isinstance(info, ShapeStructInfo):
            self.put(info.ndim)
            self.each(".values", self._dimension, info.values or ())
        elif isinstance(info, PrimStructInfo):
            self.put(info.dtype)
            if info.value is not None:
                self.at(".value", self.size, info.value)
        elif isinstance(info, TupleStructInfo):
            self.each(".fields", self.info, info.fields)
        elif isinstance(info, FuncStructInfo):
            self.put(info.purity, info.params is None)
            self._functions += 1  # its size variables are bound in the signature
            self.each(".params", self.info, info.params or ())
            self.at(".ret", self.info, info.ret)
            self._functions -= 1

    def function(self, function: Any) -> None:
        """Encodes a Relax function."""
        self._functions += 1
        self.put("Function", function.is_pure)
        self.at(".attrs", self.attribute, function.attrs)
        self.each(".params", self._definition, function.params)
        self.at(".body", self.sequence, function.body)
        self.at(".ret_struct_info", self.info, function.ret_struct_info)
        self._functions -= 1

    def _definition(self, var: Var) -> None:
        self.put("DataflowVar" if isinstance(var, DataflowVar) else "Var")
        self.define(var)
        self.at(".struct_info", self.info, var.struct_info_or_none())

    def sequence(self, body: SeqExpr) -> None:
        """Encodes a sequence expression."""
        self.put("SeqExpr")
        self.each(".blocks", self._block, [b for b in body.blocks if b.bindings])
        self.at(".body", self.encode, body.body)

    def _block(self, block: BindingBlock) -> None:
        is_dataflow = isinstance(block, DataflowBlock)
        self.put("DataflowBlock" if is_dataflow else "BindingBlock")
        self.each(".bindings", self._binding, block.bindings)

    def _binding(self, binding: Binding) -> None:
        self.put(type(binding).__name__)
        if hasattr(binding.value, "params"):  # a local function may be recursive
            self.define(binding.var)
        self.at(".value", self.encode, binding.value)
        self.at(".var", self._definition, binding.var)

    def call(self, call: Call) -> None:
        """Encodes a call."""
        self.put("Call")
        self.at(".op", self.encode, call.op)
        self.each(".args", self.encode, call.args)
        self.at(".attrs", self.attribute, call.attrs)
        self.each(".sinfo_args", self.info, call.sinfo_args)

    def module(self, module: Any) -> None:
        """Encodes a module: its functions by name."""
        functions = {v.name_hint: f for v, f in module.functions.items()}
        self.put("IRModule", *sorted(functions))
        self.at(".attrs", self.attribute, module.attrs)
        for name in sorted(functions):
            self.at(f'.functions["{name}"]', self.encode, functions[name])


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)


def _encode_constant(encoder: StructuralEncoder, constant: Constant) -> None:
    array = np.ascontiguousarray(constant.array)
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    encoder.put("Constant", array.dtype.name, array.shape, digest)


def _encode_if(encoder: StructuralEncoder, expr: If) -> None:
    encoder.put("If")
    encoder.at(".cond", encoder.encode, expr.cond)
    encoder.at(".true_branch", encoder.sequence, expr.true_branch)
    encoder.at(".false_branch", encoder.sequence, expr.false_branch)


def _encode_tuple_get_item(encoder: StructuralEncoder, expr: TupleGetItem) -> None:
    encoder.put("TupleGetItem", expr.index)
    encoder.at(".tuple_value", encoder.encode, expr.tuple_value)


_KINDS: Mapping[type, Callable[[StructuralEncoder, Any], object]] = {
    Var: lambda s, v: s.put("Var", s.number(v)),
    Call: StructuralEncoder.call,
    Constant: _encode_constant,
    Tuple: lambda s, t: s.each(".fields", s.encode, t.fields),
    TupleGetItem: _encode_tuple_get_item,
    ShapeExpr: lambda s, e: (s.put("ShapeExpr"), s.each(".values", s.size, e.values)),
    PrimValue: lambda s, v: (s.put("PrimValue", v.value.dtype), s.size(v.value)),
    StringImm: lambda s, v: s.put("StringImm", v.value),
    DataTypeImm: lambda s, v: s.put("DataTypeImm", v.value),
    GlobalVar: lambda s, v: s.put("GlobalVar", v.name_hint),
    ExternFunc: lambda s, v: s.put("ExternFunc", v.global_symbol),
    Op: lambda s, v: s.put("Op", v.name),
    If: _encode_if,
    SeqExpr: StructuralEncoder.sequence,
    VarBinding: StructuralEncoder._binding,
    MatchCast: StructuralEncoder._binding,
    BindingBlock: StructuralEncoder._block,
    StructInfo: StructuralEncoder.info,
    PrimExpr: lambda s, e: (s.put(e.dtype), s.size(e)),
    Attrs: StructuralEncoder.attribute,
}


def _tokens(value: Any, *, map_free_vars: bool) -> list[Token]:
    encoder = StructuralEncoder(map_free_vars=map_free_vars)
    encoder.encode(value)
    return encoder.tokens


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two modules, functions, expressions or types are equal up to names.

    Args:
        lhs, rhs: the two objects.
        map_free_vars: whether free variables may correspond to each other.
    """
    return _first_difference(lhs, rhs, map_free_vars) is None


def _first_difference(
    lhs: Any, rhs: Any, map_free_vars: bool
) -> tuple[Token | None, Token | None] | None:
    lhs, rhs = _as_exprs(lhs, rhs)
    mine = _tokens(lhs, map_free_vars=map_free_vars)
    theirs = _tokens(rhs, map_free_vars=map_free_vars)
    for a, b in zip_longest(mine, theirs):
        if a is None or b is None or a.value != b.value:
            return a, b
    return None


def _entry(end: str, place: str) -> str:
    """The path of the first item that one collection has and the other lacks.

    Args:
        end: path of the end of the shorter: the missing item, or the mapping.
        place: path of the mismatch in the longer.
    """
    rest = place.removeprefix(end)
    is_item = not rest or rest == place or (end.endswith("]") and rest[0] != "[")
    return end if is_item else end + re.split(r"(?<=.)(?=[.\[])", rest)[0]


def _as_exprs(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Converts a Python number beside a scalar expression to a constant."""
    if isinstance(lhs, PrimExpr) and isinstance(rhs, (int, float)):
        return lhs, prim.convert(rhs)
    if isinstance(rhs, PrimExpr) and isinstance(lhs, (int, float)):
        return prim.convert(lhs), rhs
    return lhs, rhs


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """A hash that is equal for structurally equal objects."""
    tokens = _tokens(value, map_free_vars=map_free_vars)
    values = (t.value for t in tokens if not isinstance(t.value, OptionalPart))
    text = "\0".join(map(str, values))
    return int.from_bytes(
        hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big"
    )


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Checks structural equality.

    Raises:
        ValueError: the objects differ; the message shows the first mismatch.
    """
    paths = first_mismatch(lhs, rhs, map_free_vars)
    if paths is not None:
        raise ValueError(mismatch_message(lhs, rhs, *paths))


def first_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[AccessPath, AccessPath] | None:
    """The paths of the first mismatch in both objects, or None if they are equal."""
    mismatch = _first_difference(lhs, rhs, map_free_vars)
    if mismatch is None:
        return None
    place = (mismatch[0] or mismatch[1]).path  # pyright: ignore[reportOptionalMemberAccess]
    for number, token in enumerate(mismatch):
        if token is not None and token.value == _END:
            other = mismatch[1 - number]
            place = token.path if other is None else _entry(token.path, other.path)
            paths = [access_path(root, place) for root in (lhs, rhs)]
            paths[number] = missing(paths[number])
            return paths[0], paths[1]
    return narrow_mismatch(lhs, rhs, place)

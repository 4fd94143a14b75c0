"""When two programs are the same: structural equality, hashes, the first difference.

A program is spelled as a stream of tokens in which a variable is the number of its
definition, so names do not matter; each token knows the path to where it stands. Equal
programs are equal streams. Sizes are compared in canonical form.
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

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.access_path import access_path, missing
from relax_mlir.objects.difference_text import difference_text, narrowed
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
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "Spelling",
    "assert_structural_equal",
    "first_mismatch",
    "structural_equal",
    "structural_hash",
]


@dataclass(frozen=True)
class Token:
    """One piece of a program, and where it stands."""

    value: object
    path: str


_END = "no more"  # where a list ends


class Said:
    """What a program may say or leave out: what is left out is equal to anything.

    Args:
        parts: what it says, as tokens; None if nothing.
    """

    def __init__(self, parts: tuple[object, ...] | None) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Said):
            return False
        return None in (self.parts, other.parts) or self.parts == other.parts

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return " ".join(map(str, self.parts or ()))


class Spelling:
    """The stream of tokens of one program.

    Args:
        map_free_vars: whether variables that nothing defines are numbered too; else each
            is only equal to itself.
    """

    def __init__(self, *, map_free_vars: bool = False) -> None:
        self.tokens: list[Token] = []
        self.map_free_vars = map_free_vars
        self.limits: dict[str, tuple[int, int | None]] = {}  # of loops and axes
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()  # the containers around what is being spelled
        self._alive: list[object] = []
        self._path: list[str] = ["<root>"]
        self._functions = 0

    def put(self, *values: object) -> None:
        """Add tokens where we stand."""
        path = "".join(self._path)
        self.tokens += [Token(value, path) for value in values]

    def put_if_said(
        self, spell: Callable[[Spelling, Any], None], parts: Iterable[Any] | None
    ) -> None:
        """Add one token for parts that a program may leave out, which is None."""
        if parts is None:
            self.put(Said(None))
            return
        first = len(self.tokens)
        for part in parts:
            spell(self, part)
        values = tuple(token.value for token in self.tokens[first:])
        del self.tokens[first:]
        self.put(Said(values))

    def at(self, step: str, spell: Callable[..., None], *args: Any) -> None:
        """Spell a part, one step down the path."""
        self._path.append(step)
        spell(*args)
        self._path.pop()

    def each(
        self, step: str, spell: Callable[[Any], None], parts: Iterable[Any]
    ) -> None:
        """Spell a list of parts."""
        listed = list(parts)
        for number, part in enumerate(listed):
            self.at(f"{step}[{number}]", spell, part)
        self.end(f"{step}[{len(listed)}]")

    def end(self, step: str) -> None:
        """Say that a list has no such part."""
        self.at(step, self.put, _END)

    def define(self, var: object) -> None:
        """Give a variable the next number."""
        if id(var) not in self._numbers:
            self._numbers[id(var)] = len(self._numbers)
            self._alive.append(var)

    def number(self, var: object) -> object:
        """What stands for a variable."""
        if id(var) not in self._numbers and self.map_free_vars:
            self.define(var)
        return self._numbers.get(id(var), ("free", id(var)))

    def anything(self, value: Any) -> None:
        """Spell whatever has a structure.

        Raises:
            ValueError: a list or a dictionary contains itself.
        """
        if isinstance(value, (list, tuple, dict)):
            self._spell_container(value)
        else:
            self._spell(value)

    def _spell_container(self, value: Any) -> None:
        if id(value) in self._open:
            raise ValueError(
                "expected values with an end, got one that contains itself"
            )
        self._open.add(id(value))
        self._spell(value)
        self._open.discard(id(value))

    def _spell(self, value: Any) -> None:
        spell_itself = getattr(value, "spell", None)
        if spell_itself is not None:
            spell_itself(self)
            return
        for kind, spell in _KINDS.items():
            if isinstance(value, kind):
                spell(self, value)
                return
        self.attribute(value)

    def attribute(self, value: Any) -> None:
        """Spell a plain Python value."""
        if isinstance(value, Mapping):
            step = ".{}" if isinstance(value, Attrs) else '["{}"]'
            for key in sorted(value, key=str):
                self.at(step.format(key), self.put, str(key))
                self.at(step.format(key), self.anything, value[key])
            self.put(_END)
        elif isinstance(value, (list, tuple)):
            self.each("", self.anything, value)
        elif isinstance(value, (bool, int, np.integer)):
            self.put(int(value))
        else:
            self.put(value if isinstance(value, (str, float)) else shown(value))

    def size(self, size: PrimExpr, *, is_dimension: bool = False) -> None:
        """Spell a size in canonical form, or a scalar term as it is."""
        names = Symbols()
        for term in prim.post_order(size):
            if isinstance(term, prim.Var):
                if self._functions:
                    self.define(term)
                names.alias(term, _identifier(f"v{self.number(term)}"))
        try:
            self.put(str(names.dims([size])[0] if is_dimension else names.dim(size)))
        except ValueError:
            self._term(size)

    def _term(self, term: PrimExpr) -> None:
        if isinstance(term, prim.Var):
            self.put("Var", self.number(term))
            return
        if isinstance(term, prim.Let):
            self.define(term.var)
        self.put(type(term).__name__, *map(str, term.key()))
        for child in term.children():
            self._term(child)

    def _dimension(self, size: PrimExpr) -> None:
        self.size(size, is_dimension=True)

    def info(self, info: StructInfo | None) -> None:
        """Spell what is known of a value."""
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
            self._functions += 1  # its sizes are its own
            self.each(".params", self.info, info.params or ())
            self.at(".ret", self.info, info.ret)
            self._functions -= 1

    def function(self, function: Any) -> None:
        """Spell a function of Relax."""
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
        """Spell blocks and the value after them."""
        self.put("SeqExpr")
        self.each(".blocks", self._block, [b for b in body.blocks if b.bindings])
        self.at(".body", self.anything, body.body)

    def _block(self, block: BindingBlock) -> None:
        is_dataflow = isinstance(block, DataflowBlock)
        self.put("DataflowBlock" if is_dataflow else "BindingBlock")
        self.each(".bindings", self._binding, block.bindings)

    def _binding(self, binding: Binding) -> None:
        self.put(type(binding).__name__)
        if hasattr(binding.value, "params"):  # a function may call itself
            self.define(binding.var)
        self.at(".value", self.anything, binding.value)
        self.at(".var", self._definition, binding.var)

    def call(self, call: Call) -> None:
        """Spell a call."""
        self.put("Call")
        self.at(".op", self.anything, call.op)
        self.each(".args", self.anything, call.args)
        self.at(".attrs", self.attribute, call.attrs)
        self.each(".sinfo_args", self.info, call.sinfo_args)

    def module(self, module: Any) -> None:
        """Spell a module: its functions by name."""
        functions = {v.name_hint: f for v, f in module.functions.items()}
        self.put("IRModule", *sorted(functions))
        self.at(".attrs", self.attribute, module.attrs)
        for name in sorted(functions):
            self.at(f'.functions["{name}"]', self.anything, functions[name])


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)


def _spell_constant(spelling: Spelling, constant: Constant) -> None:
    array = np.ascontiguousarray(constant.array)
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    spelling.put("Constant", array.dtype.name, array.shape, digest)


def _spell_if(spelling: Spelling, expr: If) -> None:
    spelling.put("If")
    spelling.at(".cond", spelling.anything, expr.cond)
    spelling.at(".true_branch", spelling.sequence, expr.true_branch)
    spelling.at(".false_branch", spelling.sequence, expr.false_branch)


def _spell_item(spelling: Spelling, expr: TupleGetItem) -> None:
    spelling.put("TupleGetItem", expr.index)
    spelling.at(".tuple_value", spelling.anything, expr.tuple_value)


_KINDS: Mapping[type, Callable[[Spelling, Any], object]] = {
    Var: lambda s, v: s.put("Var", s.number(v)),
    Call: Spelling.call,
    Constant: _spell_constant,
    Tuple: lambda s, t: s.each(".fields", s.anything, t.fields),
    TupleGetItem: _spell_item,
    ShapeExpr: lambda s, e: (s.put("ShapeExpr"), s.each(".values", s.size, e.values)),
    PrimValue: lambda s, v: (s.put("PrimValue", v.value.dtype), s.size(v.value)),
    StringImm: lambda s, v: s.put("StringImm", v.value),
    DataTypeImm: lambda s, v: s.put("DataTypeImm", v.value),
    GlobalVar: lambda s, v: s.put("GlobalVar", v.name_hint),
    ExternFunc: lambda s, v: s.put("ExternFunc", v.global_symbol),
    Op: lambda s, v: s.put("Op", v.name),
    If: _spell_if,
    SeqExpr: Spelling.sequence,
    VarBinding: Spelling._binding,
    MatchCast: Spelling._binding,
    BindingBlock: Spelling._block,
    StructInfo: Spelling.info,
    PrimExpr: lambda s, e: (s.put(e.dtype), s.size(e)),
    Attrs: Spelling.attribute,
}


def _spelled(value: Any, *, map_free_vars: bool) -> list[Token]:
    spelling = Spelling(map_free_vars=map_free_vars)
    spelling.anything(value)
    return spelling.tokens


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two modules, functions, expressions or types are the same but for names.

    Args:
        lhs, rhs: the two.
        map_free_vars: whether variables that neither defines may correspond.
    """
    return _first_difference(lhs, rhs, map_free_vars) is None


def _first_difference(
    lhs: Any, rhs: Any, map_free_vars: bool
) -> tuple[Token | None, Token | None] | None:
    lhs, rhs = _as_terms(lhs, rhs)
    mine = _spelled(lhs, map_free_vars=map_free_vars)
    theirs = _spelled(rhs, map_free_vars=map_free_vars)
    for a, b in zip_longest(mine, theirs):
        if a is None or b is None or a.value != b.value:
            return a, b
    return None


def _entry(end: str, place: str) -> str:
    """The way to what one collection has and another, which ends, does not.

    Args:
        end: where the other ends: the item that it lacks, or the mapping itself.
        place: where we are in the first.
    """
    rest = place.removeprefix(end)
    is_item = not rest or rest == place or (end.endswith("]") and rest[0] != "[")
    return end if is_item else end + re.split(r"(?<=.)(?=[.\[])", rest)[0]


def _as_terms(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """A number beside a scalar term stands for a constant."""
    if isinstance(lhs, PrimExpr) and isinstance(rhs, (int, float)):
        return lhs, prim.convert(rhs)
    if isinstance(rhs, PrimExpr) and isinstance(lhs, (int, float)):
        return prim.convert(lhs), rhs
    return lhs, rhs


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """A number that is the same for what is structurally equal."""
    tokens = _spelled(value, map_free_vars=map_free_vars)
    values = (t.value for t in tokens if not isinstance(t.value, Said))
    text = "\0".join(map(str, values))
    return int.from_bytes(
        hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big"
    )


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Check that two programs are the same but for names.

    Raises:
        ValueError: they are not; shows where the first difference is.
    """
    paths = first_mismatch(lhs, rhs, map_free_vars)
    if paths is not None:
        raise ValueError(difference_text(lhs, rhs, *paths))


def first_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[AccessPath, AccessPath] | None:
    """The ways to where two programs first differ, or None if they are the same."""
    found = _first_difference(lhs, rhs, map_free_vars)
    if found is None:
        return None
    place = (found[0] or found[1]).path  # pyright: ignore[reportOptionalMemberAccess]
    for number, token in enumerate(found):
        if token is not None and token.value == _END:
            other = found[1 - number]
            place = token.path if other is None else _entry(token.path, other.path)
            paths = [access_path(root, place) for root in (lhs, rhs)]
            paths[number] = missing(paths[number])
            return paths[0], paths[1]
    return narrowed(lhs, rhs, place)

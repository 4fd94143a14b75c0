"""When two programs are the same: structural equality, hashes, the first difference.

A program is spelled as a stream of tokens in which a variable is the number of its
definition, so names do not matter; each token knows the path to where it stands. Equal
programs are equal streams. Sizes are compared in canonical form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Attrs,
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
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

__all__ = ["Spelling", "assert_structural_equal", "structural_equal", "structural_hash"]


@dataclass(frozen=True)
class Token:
    """One piece of a program, and where it stands."""

    value: object
    path: str


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
        self._alive: list[object] = []
        self._path: list[str] = ["<root>"]
        self._functions = 0

    def put(self, *values: object) -> None:
        """Add tokens where we stand."""
        path = "".join(self._path)
        self.tokens += [Token(value, path) for value in values]

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
        self.put(len(listed))
        for number, part in enumerate(listed):
            self.at(f"{step}[{number}]", spell, part)

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
        """Spell whatever has a structure."""
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
            self.put("{}", *sorted(map(str, value)))
            for key in sorted(value, key=str):
                self.at(f".{key}", self.anything, value[key])
        elif isinstance(value, (list, tuple)):
            self.each("", self.anything, value)
        elif isinstance(value, (bool, int, np.integer)):
            self.put(int(value))
        else:
            self.put(value if isinstance(value, (str, float)) else str(value))

    def size(self, size: PrimExpr) -> None:
        """Spell a size in canonical form, or a scalar term as it is."""
        names = Symbols()
        for term in prim.post_order(size):
            if isinstance(term, prim.Var):
                if self._functions:
                    self.define(term)
                names.alias(term, _identifier(f"v{self.number(term)}"))
        try:
            self.put(str(names.dim(size)))
        except ValueError:
            self._term(size)

    def _term(self, term: PrimExpr) -> None:
        if isinstance(term, prim.Var):
            self.put("Var", self.number(term))
            return
        self.put(type(term).__name__, *map(str, term.key()))
        for child in term.children():
            self._term(child)

    def info(self, info: StructInfo | None) -> None:
        """Spell what is known of a value."""
        self.put(type(info).__name__)
        if isinstance(info, TensorStructInfo):
            self.put(info.dtype, info.ndim, str(info.vdevice))
            if isinstance(info.shape, ShapeExpr):
                self.each(".shape", self.size, info.shape.values)
            else:
                self.put("unknown shape")
        elif isinstance(info, ShapeStructInfo):
            self.put(info.ndim)
            self.each(".values", self.size, info.values or ())
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
        self.at(".ret_struct_info", self.info, function.ret_struct_info)
        self.at(".body", self.sequence, function.body)
        self._functions -= 1

    def _definition(self, var: Var) -> None:
        self.put(type(var).__name__)
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
    mine = _spelled(lhs, map_free_vars=map_free_vars)
    theirs = _spelled(rhs, map_free_vars=map_free_vars)
    for a, b in zip_longest(mine, theirs):
        if a is None or b is None or a.value != b.value:
            return a, b
    return None


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """A number that is the same for what is structurally equal."""
    tokens = _spelled(value, map_free_vars=map_free_vars)
    text = "\0".join(str(t.value) for t in tokens)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Check that two programs are the same but for names.

    Raises:
        ValueError: they are not; says where the first difference is.
    """
    found = _first_difference(lhs, rhs, map_free_vars)
    if found is None:
        return
    mine, theirs = found
    place = (mine or theirs).path  # pyright: ignore[reportOptionalMemberAccess]
    raise ValueError(
        f"not structurally equal: at {place}: {_shown(mine)} on the left, "
        f"{_shown(theirs)} on the right\nleft:\n{lhs}\nright:\n{rhs}"
    )


def _shown(token: Token | None) -> str:
    return "nothing" if token is None else f"`{token.value}`"

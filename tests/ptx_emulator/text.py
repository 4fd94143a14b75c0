"""PTX parser: kernels, instructions and variables.

Calls of functions are inlined.

Source: NVIDIA, PTX ISA: syntax, state spaces, directives, call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.forms import check_form
from tests.ptx_emulator.operands import (
    Address,
    Group,
    Inverted,
    Label,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    TensorAddress,
    Variable,
)
from tests.ptx_emulator.program import GLOBALS_ADDRESS, Instruction, Kernel, Program

__all__ = ["parse"]

# What says where a line comes from counts as a comment.
_COMMENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|^\s*\.(?:loc|file)\s[^\n]*", re.DOTALL | re.MULTILINE
)
_DIRECTIVES = re.compile(r"\s*(?:\.(?:version|target|address_size)[^\n]*\n?\s*|;\s*)*")
_FUNCTION = re.compile(
    r"(?:\.(?:visible|weak|extern)\s+)?\.(?P<kind>entry|func)\s+(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<limits>[^{;]*)(?P<end>[{;])"
)
_BRACE = re.compile(r"[{}]")
_VARIABLE = re.compile(
    r"(?P<extern>\.extern\s+)?(?:\.(?:visible|weak)\s+)?\.(?P<space>shared|global|const|local)\s+"
    r"(?:\.align\s+(?P<alignment>\d+)\s+)?\.[a-z]+(?P<bits>\d+)\s+(?P<name>[\w$]+)"
    r"(?P<counts>(?:\[\d*\])*)(?:\s*=\s*(?:\{(?P<values>[^}]*)\}|(?P<value>[^;{]+)))?\s*;"
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<alignment>\d+)\s+)?\.[a-z]+(?P<bits>\d+)\s+"
    r"(?:\.ptr\s+(?:\.(?:global|shared|const|local)\s+)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$]+)(?P<counts>(?:\[\d+\])?)"
)
_MOST_THREADS = re.compile(r"\.maxntid\s+([\d\s,]+)")
_STATEMENT = re.compile(
    r"\s*(?:(?P<brace>[{}])|(?P<label>[$%\w]+):(?!:)|(?P<text>[^;]*);)"
)
_GUARDED = re.compile(r"(?:@(?P<guard>!?[%\w]+)\s+)?(?P<name>[\w.:]+)\s*(?P<rest>.*)")
_OPERAND = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)|[^,{}\[\]()\s]+")
_REGISTERS = re.compile(r"\.reg\s+\.(?P<type>\w+)\s+(?P<names>.*)")
_ADDRESS = re.compile(r"(?P<base>[%$\w.]+)\s*(?:\+\s*(?P<offset>-?\w+))?$")
_FLOAT = re.compile(r"0[fFdD]([0-9a-fA-F]+)$")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?$")


@dataclass(frozen=True)
class _Function:
    """A function or kernel as text."""

    name: str
    results: tuple[str, ...]
    parameters: str
    body: str
    limits: str

    @property
    def parameter_names(self) -> list[str]:
        return [found["name"] for found in _PARAMETER.finditer(self.parameters)]


@dataclass
class _Passed:
    """A parameter or result of a function: a register per element, by offset."""

    parts: dict[int, Register] = field(default_factory=dict)


_Named: TypeAlias = Register | Variable | _Passed


class _Scope:
    """A lexical scope ``{ ... }``."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self._outer = outer
        self.names: dict[str, _Named] = {}
        self.labels: dict[str, int] = {}

    def name(self, text: str) -> _Named | None:
        scope: _Scope | None = self
        while scope is not None:
            if text in scope.names:
                return scope.names[text]
            scope = scope._outer
        return None

    def label(self, text: str) -> int:
        scope: _Scope | None = self
        while scope is not None:
            if text in scope.labels:
                return scope.labels[text]
            scope = scope._outer
        raise EmulationError(f"PTX has no label `{text}`")


@dataclass
class _Space:
    """Layout of the variables of a state space."""

    name: str
    size_bytes: int = 0

    def place(self, size_bytes: int, alignment: int) -> Variable:
        begin = -(-self.size_bytes // alignment) * alignment
        self.size_bytes = begin + size_bytes
        return Variable(self.name, begin)


def parse(text: str) -> Program:
    """Parses a PTX module.

    Raises:
        EmulationError: it has something unsupported.
    """
    try:
        return _program(text)
    except (LookupError, ValueError, TypeError, AssertionError) as error:
        raise EmulationError(f"PTX cannot be read: {error!r}") from error


def _program(text: str) -> Program:
    functions, rest = _split(_COMMENT.sub("", text))
    outer, shared, dynamic = _Scope(), _Space("shared"), []
    variables = bytearray()
    unknown = _DIRECTIVES.sub("", _VARIABLE.sub("", rest), count=1).strip()
    if unknown:
        raise EmulationError(f"unsupported: `{unknown.splitlines()[0]}`")
    for found in _VARIABLE.finditer(rest):
        if found["space"] != "shared":
            begin = _append(variables, found)
            outer.names[found["name"]] = Variable("global", GLOBALS_ADDRESS + begin)
        elif found["extern"]:
            dynamic.append(found)
        else:
            outer.names[found["name"]] = shared.place(*_extent(found))
    callable_ = {f.name: f for kind, f in functions if kind == "func"}
    kernels = {
        f.name: _Assembler(f, callable_, outer, shared, dynamic).kernel()
        for kind, f in functions
        if kind == "entry"
    }
    return Program(kernels, np.frombuffer(bytes(variables), np.uint8))


def _split(text: str) -> tuple[list[tuple[str, _Function]], str]:
    """Splits a module into functions and other directives."""
    functions, rest, place = [], [], 0
    while found := _FUNCTION.search(text, place):
        rest.append(text[place : found.start()])
        place = found.end()
        if found["end"] == ";":
            continue
        depth, begin = 1, place
        while depth:
            brace = _BRACE.search(text, place)
            if brace is None:
                raise EmulationError(f"PTX: `{found['name']}` has no end")
            depth += 1 if brace[0] == "{" else -1
            place = brace.end()
        results = tuple(r["name"] for r in _PARAMETER.finditer(found["results"] or ""))
        made = _Function(
            found["name"],
            results,
            found["parameters"] or "",
            text[begin : place - 1],
            found["limits"],
        )
        functions.append((found["kind"], made))
    return functions, "".join(rest) + text[place:]


def _extent(found: re.Match[str]) -> tuple[int, int]:
    """Size and alignment of a variable or parameter, in bytes."""
    item = int(found["bits"]) // 8
    counts = [int(count or 0) for count in re.findall(r"\[(\d*)\]", found["counts"])]
    return math.prod(counts) * item, int(found["alignment"] or item)


def _append(variables: bytearray, found: re.Match[str]) -> int:
    """Appends a table; returns its offset."""
    size, alignment = _extent(found)
    variables.extend(bytes(-len(variables) % max(alignment, 16)))
    begin, item = len(variables), int(found["bits"]) // 8
    for text in (found["values"] or found["value"] or "").split(","):
        if text.strip():
            bits = _number(text.strip()).bits & ((1 << 8 * item) - 1)
            variables.extend(bits.to_bytes(item, "little"))
    variables.extend(bytes(begin + size - len(variables)))
    return begin


def _number(text: str) -> Number:
    if found := _FLOAT.match(text):
        return Number(int(found[1], 16))
    if not _INTEGER.match(text):
        raise EmulationError(f"PTX names `{text}`, which nothing declares")
    return Number(int(text.rstrip("U"), 0))


@dataclass
class _Assembler:
    """Assembler of one kernel."""

    function: _Function
    callable: Mapping[str, _Function]
    outer: _Scope
    shared: _Space
    dynamic: Sequence[re.Match[str]]
    code: list[Instruction] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)
    branches: list[tuple[int, str, _Scope]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def kernel(self) -> Kernel:
        """The assembled kernel."""
        scope, parameters = _Scope(self.outer), _Space("param")
        self._shared = _Space("shared", self.shared.size_bytes)
        self._local, placed = _Space("local"), []
        for found in _PARAMETER.finditer(self.function.parameters):
            size, alignment = _extent(found)
            variable = parameters.place(size, alignment)
            scope.names[found["name"]] = variable
            placed.append((variable.address, size))
        # What is dynamic begins behind all that is static, aligned as it asks for.
        for found in _VARIABLE.finditer(self.function.body):
            if found["space"] == "shared":
                scope.names[found["name"]] = self._shared.place(*_extent(found))
        for found in self.dynamic:
            scope.names[found["name"]] = self._shared.place(0, _extent(found)[1])
        self._add(self.function.body, scope)
        for number, label, where in self.branches:
            self._retarget(number, where.label(label))
        limit = _MOST_THREADS.search(self.function.limits)
        most = None
        if limit is not None:
            most = int(np.prod([int(n) for n in limit[1].split(",")]))
        return Kernel(
            self.function.name,
            tuple(placed),
            tuple(self.code),
            tuple(self.registers),
            self._shared.size_bytes,
            self._local.size_bytes,
            most,
        )

    def _add(self, body: str, scope: _Scope) -> None:
        """Assembles a body."""
        scopes = [scope]
        for found in _STATEMENT.finditer(body):
            if found["brace"] == "{":
                scopes.append(_Scope(scopes[-1]))
            elif found["brace"]:
                scopes.pop()
            elif found["label"]:
                scopes[-1].labels[found["label"]] = len(self.code)
            elif text := " ".join(found["text"].split()):
                self._add_statement(text, scopes[-1])

    def _add_statement(self, text: str, scope: _Scope) -> None:
        if text.startswith(".reg"):
            self._declare(text, scope)
        elif text.startswith(".local"):
            found = _VARIABLE.match(text + ";")
            assert found is not None
            scope.names[found["name"]] = self._local.place(*_extent(found))
        elif text.startswith(".param"):
            found = _PARAMETER.match(text)
            assert found is not None
            scope.names[found["name"]] = _Passed()
        elif not text.startswith("."):
            self._add_instruction(text, scope)

    def _declare(self, text: str, scope: _Scope) -> None:
        """``.reg``: declares registers, also as a numbered range."""
        found = _REGISTERS.match(text)
        assert found is not None
        bits = 1 if found["type"] == "pred" else int(found["type"][1:])
        for name in found["names"].split(","):
            row = name.strip().removesuffix(">").partition("<")
            for member in _row(row[0], row[2]):
                scope.names[member] = self._register(bits)

    def _register(self, bits: int) -> Register:
        self.registers.append(bits)
        return Register(len(self.registers) - 1, bits)

    def _add_instruction(self, text: str, scope: _Scope) -> None:
        found = _GUARDED.match(text)
        if found is None:
            raise EmulationError(f"unsupported: `{text}`")
        name, *modifiers = found["name"].split(".")
        guard = None
        if found["guard"]:
            guard = self._operand(found["guard"], scope)
            assert isinstance(guard, Register | Inverted)
            assert isinstance(guard, Inverted) or guard.bits == 1
        words = _OPERAND.findall(found["rest"])
        try:
            check_form(name, modifiers)
        except EmulationError as error:
            where = f"kernel `{self.function.name}`: `{text}`"
            raise EmulationError(f"{where}: {error}") from error
        if name == "call":
            if guard is not None:
                raise EmulationError("predicated calls are unsupported")
            self._call(words, scope)
            return
        if name == "bra":
            self.branches.append((len(self.code), words[0], scope))
            operands: tuple[Operand, ...] = (Label(-1),)
        elif name == "ret" and self.calls:
            name, operands = "bra", (Label(-1),)
            self.branches.append((len(self.code), _END, scope))
        elif (passed := self._passed(name, modifiers, words, scope)) is not None:
            other = self._operand(words[1 if name == "st" else 0], scope)
            operands = (other, passed) if name == "ld" else (passed, other)
            name = "mov"
        else:
            operands = tuple(self._operand(word, scope) for word in words)
        made = Instruction(name, tuple(modifiers), operands, guard, text)
        self.code.append(made)

    def _passed(
        self,
        name: str,
        modifiers: Sequence[str],
        words: Sequence[str],
        scope: _Scope,
    ) -> Register | None:
        """The register of an element of a function's parameter or result."""
        if name not in ("ld", "st") or "param" not in modifiers:
            return None
        found = _ADDRESS.match(words[1 if name == "ld" else 0].strip("[]"))
        known = scope.name(found["base"]) if found is not None else None
        if found is None or not isinstance(known, _Passed):
            return None
        begin, bits = int(found["offset"] or "0", 0), int(modifiers[-1][1:])
        part = known.parts.setdefault(begin, self._register(bits))
        if part.bits != bits or "{" in words[1 if name == "st" else 0]:
            raise EmulationError("unsupported access to a part of a parameter")
        return part

    def _call(self, words: Sequence[str], scope: _Scope) -> None:
        """Inlines a call; parameters and results become registers."""
        results, name, given = words if len(words) == 3 else ("()", *words)
        function = self.callable.get(name)
        if function is None or name in self.calls:
            raise EmulationError(f"unsupported function `{name}`")
        inner = _Scope(self.outer)
        ours = [*results.strip("()").split(","), *given.strip("()").split(",")]
        theirs = [*function.results, *function.parameter_names]
        named = [text.strip() for text in ours if text.strip()]
        for own, text in zip(theirs, named, strict=True):
            operand = scope.name(text)
            assert operand is not None
            inner.names[own] = operand
        self.calls.append(name)
        self._add(function.body, inner)
        self.calls.pop()
        inner.labels[_END] = len(self.code)

    def _retarget(self, number: int, target: int) -> None:
        self.code[number] = replace(self.code[number], operands=(Label(target),))

    def _operand(self, text: str, scope: _Scope) -> Operand:
        """Parses an operand."""
        known = scope.name(text)
        if known is not None and not isinstance(known, _Passed):
            return known
        if text[0] == "{":
            words = _OPERAND.findall(text[1:-1])
            return Group(tuple(self._operand(word, scope) for word in words))
        if text[0] == "[":
            return self._address(text[1:-1].strip(), scope)
        if text == "_":
            return Sink()
        if text[0] == "!":
            register = self._operand(text[1:], scope)
            assert isinstance(register, Register)
            assert register.bits == 1
            return Inverted(register)
        if "|" in text:
            first, _, second = text.partition("|")
            return Pair(self._operand(first, scope), self._operand(second, scope))
        return Special(text) if text[0] == "%" else _number(text)

    def _address(self, text: str, scope: _Scope) -> Operand:
        map_, comma, first = text.partition(",")
        if comma:
            group = self._operand(first.strip(), scope)
            assert isinstance(group, Group)
            return TensorAddress(self._operand(map_.strip(), scope), group.members)
        found = _ADDRESS.match(text)
        if found is None:
            raise EmulationError(f"unsupported address `{text}`")
        base = self._operand(found["base"], scope)
        assert isinstance(base, Register | Variable | Number)
        return Address(base, int(found["offset"] or "0", 0))


_END = "<end>"  # of a function, as a label


def _row(name: str, count: str) -> Iterator[str]:
    """Register names of a declaration, which may be a numbered range."""
    if not count:
        yield name
    else:
        yield from (f"{name}{number}" for number in range(int(count)))

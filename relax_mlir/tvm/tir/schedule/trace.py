"""Traces: recorded primitive calls to print, simplify and replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.tvm.tir.schedule.buffer_access import AccessRegion
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.instruction import (
    Instruction,
    InstructionKind,
    is_variable,
    named_map,
)
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, LoopRV

__all__ = ["Trace"]

JSON = list[Any]


class Trace:
    """A list of instructions with the decisions of its sampling instructions.

    Attributes:
        insts: the instructions.
        decisions: the decision of each sampling instruction.
    """

    def __init__(
        self,
        insts: Iterable[Instruction] = (),
        decisions: Mapping[Instruction, Any] | None = None,
    ) -> None:
        self.insts = [
            instance_of(i, Instruction, "Trace: `insts`", "instructions")
            for i in sequence_of(insts, "Trace: `insts`", "instructions")
        ]
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def get_decision(self, inst: Instruction) -> Any:
        """The decision of a sampling instruction, or None."""
        return self.decisions.get(inst)

    def append(
        self,
        inst: Instruction,
        decision: Any = None,
    ) -> None:
        """Append an instruction."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Remove the last instruction; None if there is none."""
        if not self.insts:
            return None
        last = self.insts.pop()
        self.decisions.pop(last, None)
        return last

    def with_decision(
        self, inst: Instruction, decision: Any, remove_postproc: bool
    ) -> Trace:
        """A copy of the trace with another decision of one instruction."""
        made = Trace(self._instructions(remove_postproc), self.decisions)
        made.decisions[inst] = decision
        return made

    def _instructions(self, remove_postproc: bool) -> list[Instruction]:
        found: list[Instruction] = []
        for inst in self.insts:
            if remove_postproc and inst.kind.is_postproc:
                break
            found.append(inst)
        return found

    def apply_to_schedule(
        self,
        sch: Any,  # Any: a Schedule
        remove_postproc: bool = False,
        decision_provider: Callable[..., Any] | None = None,
    ) -> None:
        """Replay the trace on a schedule.

        Args:
            sch: the schedule.
            remove_postproc: whether to stop where post-processing starts.
            decision_provider: returns another decision, given an instruction, its inputs and
                attributes, and the decision.
        """
        values: dict[Any, Any] = {}
        for inst in self._instructions(remove_postproc):
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                given = decision_provider(inst, inst.inputs, inst.attrs, decision)
                decision = decision if given is None else given
            given = inst.apply(sch, values, decision)
            values.update(zip(inst.outputs, given, strict=True))

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """The trace without pure instructions whose results are unused."""
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(self._instructions(remove_postproc)):
            if inst.kind.is_pure and not any(v in used for v in inst.outputs):
                continue
            kept.append(inst)
            used.update(_variables(inst.inputs))
        kept.reverse()
        return Trace(kept, {i: d for i, d in self.decisions.items() if i in kept})

    def names(self) -> dict[Any, str]:
        """The names of random variables: ``b0``, ``l1``, ``v2``, in order."""
        given = [variable for inst in self.insts for variable in inst.outputs]
        return {v: f"{_letter(v)}{n}" for n, v in enumerate(given) if is_variable(v)}

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """The trace as lines of Python."""
        names = self.names()
        listed = self._instructions(remove_postproc)
        return [inst.as_python(names, self.decisions.get(inst)) for inst in listed]

    def as_json(self, remove_postproc: bool = False) -> JSON:
        """The trace as lists of strings and numbers."""
        names = self.names()
        listed = self._instructions(remove_postproc)
        calls = [
            [
                inst.kind.name,
                [_to_json(v, names) for v in inst.inputs],
                [_attr_to_json(v, names) for v in inst.attrs],
                [names.get(v, "_") for v in inst.outputs],
            ]
            for inst in listed
        ]
        decided = [
            [number, _plain(self.decisions[inst])]
            for number, inst in enumerate(listed)
            if inst in self.decisions
        ]
        return [calls, decided]

    @staticmethod
    def apply_json_to_schedule(json_obj: JSON, sch: Any) -> None:
        """Replay the result of :meth:`as_json` on a schedule."""
        calls, decided = json_obj
        decisions = dict(map(tuple, decided))
        values: dict[str, Any] = {}
        for number, (name, inputs, attrs, outputs) in enumerate(calls):
            kind = InstructionKind.get(name)
            given = [_from_json(v, values) for v in inputs]
            known = [_attr_from_json(a, values) for a in attrs]
            inst = Instruction(kind, given, known, [])
            same = {v: v for v in _variables(given)}
            results = inst.apply(sch, same, decisions.get(number))
            values.update(zip(outputs, results, strict=True))

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the trace."""
        print(self)

    def __str__(self) -> str:
        is_new = any(inst.kind.name == "GetSBlock" for inst in self.insts)
        package = "s_tir" if is_new else "tir"
        lines = [
            f"# from tvm import {package}",
            f"def apply_trace(sch: {package}.Schedule) -> None:",
        ]
        body = self.as_python() or ["pass"]
        return "\n".join([*lines, *(f"  {line}" for line in body)])

    __repr__ = __str__


def _letter(variable: object) -> str:
    if isinstance(variable, BlockRV):
        return "b"
    return "l" if isinstance(variable, LoopRV) else "v"


def _variables(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [v for value in values for v in _variables(value)]
    if isinstance(values, Mapping):
        return _variables(list(values.values()))
    if isinstance(values, prim.PrimExpr) and not isinstance(values, prim.Var):
        return [t for t in prim.post_order(values) if isinstance(t, prim.Var)]
    return [values] if is_variable(values) else []


def _to_json(value: Any, names: Mapping[Any, str]) -> Any:
    if is_variable(value):
        return names[value]
    if isinstance(value, (list, tuple)):
        return [_to_json(v, names) for v in value]
    if isinstance(value, Mapping):
        return {k: _to_json(v, names) for k, v in value.items()}
    if value is None:
        return "None"
    return f'"{value}"' if isinstance(value, str) else _plain(value)


def _from_json(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_from_json(v, values) for v in value]
    if isinstance(value, Mapping):
        return {k: _from_json(v, values) for k, v in value.items()}
    if value == "None":
        return None
    if isinstance(value, str):
        return value[1:-1] if value.startswith('"') else values[value]
    return value


def _attr_to_json(value: Any, names: Mapping[Any, str]) -> Any:
    return _plain(named_map(value, names) if isinstance(value, IndexMap) else value)


def _attr_from_json(value: Any, values: Mapping[str, Any]) -> Any:
    """A constant; an index map may refer to sampled values."""
    sampled = {n: v for n, v in values.items() if isinstance(v, prim.Var)}
    is_map = isinstance(value, str) and value.startswith("lambda ")
    if not is_map or sampled.keys().isdisjoint(_free_names(value)):
        return value
    return IndexMap.from_text(value, "int32", sampled)


def _free_names(function: str) -> set[str]:
    """The free names in the body of a ``lambda``."""
    head, _, body = function.partition(":")
    return set(re.findall(r"[^\W\d]\w*", body)) - set(re.findall(r"\w+", head))


def _plain(value: Any) -> Any:
    """A constant in JSON form."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (IndexMap, AccessRegion)):
        return str(value)
    if isinstance(value, prim.IntImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    return value

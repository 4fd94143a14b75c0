"""The table of kinds: what ``relax-fuse-ops`` takes every operator's program for.

``make golden`` writes it to ``tests/golden/kinds.txt``.
"""

from collections.abc import Iterator
from pathlib import Path

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.op_pattern import OpPatternKind, op_pattern_of
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.relax.legalize import emit_program

TABLE = Path(__file__).with_suffix(".txt")
HOW_TO_WRITE = "run `make golden`, and look at what it changed"

_HEADER = """\
# The kind of every operator's tensor program, over the operator's cases. Where they
# differ, those of all but the commonest kind are listed.
# Written by `make golden`.
"""


def operators() -> list[type[RelaxOperation]]:
    """The operators that have a tensor program."""
    return [op for op in relax_ops() if hasattr(op, "legalize")]


def rows(op: type[RelaxOperation]) -> list[str]:
    """The lines of one operator."""
    by_kind: dict[OpPatternKind, list[Case]] = {}
    for case, kind in zip(op.cases, _kinds(op), strict=True):
        by_kind.setdefault(kind, []).append(case)
    ordered = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    lines: list[str] = []
    for number, (kind, cases) in enumerate(ordered):
        name = op.OPERATION_NAME.removeprefix("relax.") if number == 0 else ""
        lines.append(f"{name:<22} {kind.name.lower():<12} {len(cases):>3}")
        lines += [f"    {case}" for case in cases if number > 0]
    return lines


def _kinds(op: type[RelaxOperation]) -> Iterator[OpPatternKind]:
    """The kind of each case's program, all in one module."""
    module = IRModule.empty()
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        for number, case in enumerate(op.cases):
            program, _ = emit_program(_build(op, case, number), f"program{number}")
            yield op_pattern_of(program)


def _build(op: type[RelaxOperation], case: Case, number: int) -> RelaxOperation:
    """The operation in a function of its own."""
    groups = [g if isinstance(g, list) else [g] for g in case.operand_types()]
    flat = [type_ for group in groups for type_ in group]
    function = func.FuncOp(f"case{number}", ir.FunctionType.get(flat, []))
    arguments = iter(function.add_entry_block().arguments)
    with ir.InsertionPoint(function.entry_block):
        operands = [
            [next(arguments) for _ in g] if isinstance(g, list) else next(arguments)
            for g in case.operand_types()
        ]
        built = op(*operands, **case.attrs)
        func.ReturnOp([])
    return built


def table() -> str:
    """The whole table."""
    return _HEADER + "".join(f"{line}\n" for op in operators() for line in rows(op))


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")

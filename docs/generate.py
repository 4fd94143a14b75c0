"""Write ``docs/operators.md``: ``make docs``."""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any  # schemas of onnx, whose stub lacks the functions

import onnx
from onnx import defs

from relax_mlir.dialects.hooks import find_onnx_rule, onnx_operators
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation

__all__ = ["OPERATORS", "operators_page"]

OPERATORS = Path(__file__).parent / "operators.md"

_HEAD = """\
# Operators

`make docs` writes this page from the code, for onnx {onnx}.

## ONNX

The operators of ai.onnx up to opset {opset}. A *rule* makes our operations of a node. `6+` is a rule from opset 6 on; where
several numbers stand, a rule begins at each. An operator without a rule is imported as the *body* that the standard gives
it. A body marked with `*` depends on the node, and may turn out to use an operator without a rule. A model of an opset
before the first rule goes through onnx's version converter. A rule may refuse a node whose sizes or types it cannot handle:
`relax-mlir check model.onnx` tells what holds for one model.

| operator | rules | body |
|---|---|---|
{covered}

Not covered: {uncovered}.

## relax

The operations of the dialect, by the file of `dialects/relax` that holds them, as their docstrings begin.
"""


def operators_page() -> str:
    """The text of ``docs/operators.md``."""
    rows = {name: _row(name, versions) for name, versions in _schemas().items()}
    head = _HEAD.format(
        onnx=onnx.__version__,
        opset=defs.onnx_opset_version(),
        covered="\n".join(row for row in rows.values() if row),
        uncovered=", ".join(name for name, row in rows.items() if not row),
    )
    return head + "".join(_families())


def _schemas() -> dict[str, list[Any]]:
    """The versions of every operator of ai.onnx, oldest first, by name."""
    found: dict[str, list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema)
    return {
        name: sorted(found[name], key=lambda schema: schema.since_version)
        for name in sorted(found)
    }


def _row(name: str, versions: list[Any]) -> str:
    """The line of an operator; empty if it is not covered."""
    newest = versions[-1]
    starts = ", ".join(map(str, onnx_operators().get(name, ())))
    if starts:
        end = f", gone in {newest.since_version}" if newest.deprecated else "+"
        return f"| {name} | {starts}{end} | |"
    body = _body(newest)
    return f"| {name} | | {body} |" if body else ""


def _body(schema: Any) -> str:
    """From which opset on the standard's body of an operator can be imported."""
    whole = [v for v in schema.function_opset_versions if _is_covered(schema, v)]
    if whole:
        return f"{min(whole)}+"
    typed = schema.context_dependent_function_opset_versions
    return f"{min(typed)}+ *" if typed else ""


def _is_covered(schema: Any, version: int) -> bool:
    """Whether all operators in a body have rules, or bodies of which that is true."""
    data = schema.get_function_with_opset_version(version)
    proto = onnx.FunctionProto.FromString(data)
    opsets = {o.domain: o.version for o in proto.opset_import}
    return all(
        find_onnx_rule(node.op_type, opsets[""]) is not None
        or bool(_body(defs.get_schema(node.op_type, opsets[""])))
        for node in _nodes(proto.node)
    )


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of the graphs that they hold."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node)


def _families() -> Iterator[str]:
    families: dict[str, list[type[RelaxOperation]]] = {}
    for op in relax_ops():
        families.setdefault(op.__module__.rpartition(".")[2], []).append(op)
    for family in sorted(families):
        lines = [f"| `{op.OPERATION_NAME}` | {_cell(op)} |" for op in families[family]]
        head = f"\n### {family}\n\n| operation | is |\n|---|---|\n"
        yield head + "\n".join(lines) + "\n"


def _cell(op: type[RelaxOperation]) -> str:
    """The first line of a docstring, as a cell of a table."""
    first = (inspect.getdoc(op) or "").partition("\n")[0]
    return first.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    OPERATORS.write_text(operators_page(), encoding="utf-8")

"""Generate ``docs/operators.md``, ``docs/onnx.md`` and the package diagram: ``make docs``."""

import inspect
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any  # schemas of onnx, whose stub lacks the functions

import onnx
from onnx import defs

from docs import package_map
from relax_mlir.dialects.op_interface import find_onnx_rule, onnx_operators
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.frontends.onnx.functions import FUNCTION_BODIES
from relax_mlir.frontends.onnx.stages import HOST_OPERATORS, TEXT_OPERATORS
from tests.onnx_suite.kinds import KINDS
from tests.onnx_suite.suite import SuiteTest, expected_failures, suite_tests

__all__ = ["ONNX", "OPERATORS", "onnx_page", "operators_page"]

OPERATORS = Path(__file__).parent / "operators.md"
ONNX = Path(__file__).parent / "onnx.md"

_HEAD = """\
# Operators

`make docs` writes this page from the code, for onnx {onnx}.

## ONNX

The operators of ai.onnx up to opset {opset}. A *rule* imports a node as relax operations. `6+` is a rule for opset 6 and later;
several numbers are several rules, each from its opset. An operator without a rule is imported as its *function body* in the
standard; a body marked with `*` depends on the node. An operator that runs *on the host* has a data-dependent shape or a sequence
as its result; see [onnx.md](onnx.md). A model whose opset is older than the first rule is converted by onnx's version converter. A
rule may reject a node for its sizes or types: `relax-mlir check model.onnx` reports whether a model is supported.

| operator | rules | function body | on the host |
|---|---|---|---|
{supported}

Unsupported: {unsupported}.

Operators of other domains:

{domains}

## relax

The operations of the dialect, by file of `dialects/relax`, with the first line of each docstring.
"""

_INDICES = """
## Indices

The effect of an out-of-range index, by operand. It is always memory-safe. With `checks="indices"`, a model raises an error
instead, except for operands of which *every index has a meaning*; see [onnx.md](onnx.md).

| operation | operand | out of range | checked |
|---|---|---|---|
"""


_SUITE = "## ONNX's own tests\n"
_TESTS = """
`make docs` generates this section. {passed} of the {count} CPU backend tests of onnx {onnx} pass; `make onnx-suite` runs them. CI runs
them except three quarters of the `_expanded` ones, and fails if a test listed below passes or another one fails.
With GPU kernels in the emulator (`make onnx-suite-gpu`; CI runs some), `test_attention_4d_causal_fp16` passes as well.

| category | pass | of |
|---|---|---|
{categories}

| kind | pass | of |
|---|---|---|
{kinds}

Failing tests:

| test | reason |
|---|---|
"""


def operators_page() -> str:
    """The text of ``docs/operators.md``."""
    rows = {name: _row(name, versions) for name, versions in _schemas().items()}
    head = _HEAD.format(
        onnx=onnx.__version__,
        opset=defs.onnx_opset_version(),
        supported="\n".join(row for row in rows.values() if row),
        unsupported=", ".join(name for name, row in rows.items() if not row),
        domains="\n".join(_domains()),
    )
    return head + "".join(_families()) + _INDICES + "".join(_index_rows())


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
    """The table row of an operator; empty if it is not supported."""
    newest = versions[-1]
    starts = ", ".join(map(str, onnx_operators().get(name, ())))
    if starts:
        end = f", gone in {newest.since_version}" if newest.deprecated else "+"
        return f"| {name} | {starts}{end} | | |"
    if _runs_on_host(name):
        return f"| {name} | | | yes |"
    body = _body(newest)
    return f"| {name} | | {body} | |" if body else ""


def _runs_on_host(name: str) -> bool:
    return name == "If" or name in HOST_OPERATORS or name in TEXT_OPERATORS


def _domains() -> Iterator[str]:
    """A line per domain other than ai.onnx."""
    found: dict[str, list[str]] = {}
    known = (*onnx_operators(), *FUNCTION_BODIES, *HOST_OPERATORS, *TEXT_OPERATORS)
    for name in known:
        domain, _, operator = name.rpartition("::")
        found.setdefault(domain, []).append(f"`{operator}`")
    for domain in sorted(filter(None, found)):
        yield f"- {domain}: {', '.join(sorted(set(found[domain])))}."


def _body(schema: Any) -> str:
    """The first opset whose function body of an operator can be imported."""
    whole = [v for v in schema.function_opset_versions if _is_supported(schema, v)]
    if whole:
        return f"{min(whole)}+"
    typed = schema.context_dependent_function_opset_versions
    return f"{min(typed)}+ *" if typed else ""


def _is_supported(schema: Any, version: int) -> bool:
    """Whether all operators in a function body are supported."""
    data = schema.get_function_with_opset_version(version)
    proto = onnx.FunctionProto.FromString(data)
    opsets = {o.domain: o.version for o in proto.opset_import}
    return all(
        find_onnx_rule(node.op_type, opsets[""]) is not None
        or _runs_on_host(node.op_type)
        or bool(_body(defs.get_schema(node.op_type, opsets[""])))
        for node in _nodes(proto.node)
    )


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, including those of nested graphs."""
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


def _index_rows() -> Iterator[str]:
    """A table row per operand that holds indices."""
    for op in relax_ops():
        for name, operand in op.index_operands.items():
            column = "" if operand.column is None else f", column {operand.column}"
            checked = "no: every index has a meaning" if operand.is_unlimited else "yes"
            cells = (
                f"`{op.OPERATION_NAME}`",
                f"`{name}`{column}",
                operand.out_of_range,
                checked,
            )
            yield f"| {' | '.join(cells)} |\n"


def _cell(op: type[RelaxOperation]) -> str:
    """The first line of a docstring as a table cell."""
    first = (inspect.getdoc(op) or "").partition("\n")[0]
    return first.replace("``", "`").replace("|", "\\|")


def onnx_page() -> str:
    """The text of ``docs/onnx.md``, with the score of ONNX's test suite updated."""
    written = ONNX.read_text(encoding="utf-8")
    return written.partition(_SUITE)[0] + _SUITE + _score()


def _score() -> str:
    """The number of passing tests by category and kind, and the reasons of the failures."""
    tests, failures = suite_tests(), expected_failures()
    text = _TESTS.format(
        onnx=onnx.__version__,
        passed=len(tests) - len(failures),
        count=len(tests),
        categories="\n".join(_counts(tests, failures, lambda test: test.category)),
        kinds="\n".join(
            _counts(tests, failures, lambda test: f"{test.kind}: {KINDS[test.kind]}")
        ),
    )
    return text + "".join(f"| `{n}` | {why} |\n" for n, why in failures.items())


def _counts(
    tests: Mapping[str, SuiteTest],
    failures: Container[str],
    key: Callable[[SuiteTest], str],
) -> Iterator[str]:
    total = Counter(map(key, tests.values()))
    passed = Counter(key(test) for name, test in tests.items() if name not in failures)
    for name, count in total.items():
        yield f"| {name} | {passed[name]} | {count} |"


if __name__ == "__main__":
    OPERATORS.write_text(operators_page(), encoding="utf-8")
    ONNX.write_text(onnx_page(), encoding="utf-8")
    package_map.PAGE.write_text(package_map.page_with_map(), encoding="utf-8")

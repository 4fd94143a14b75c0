"""Every primitive has a golden file and a rejection."""

import ast
from pathlib import Path

import pytest

from relax_mlir.tvm.tir.schedule import InstructionKind, Schedule

_HERE = Path(__file__).parent
_NEVER_REFUSED = {"annotate", "enter_postproc"}  # they take whatever there is


def _methods(kinds):
    return sorted({kind.method for kind in kinds})


def _called(node):
    """The methods called in Python code."""
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    return {c.func.attr for c in calls if isinstance(c.func, ast.Attribute)}


def _steps(*, of_refusals):
    """The calls in the steps of all golden files, or in the rejected ones."""
    found = set()
    for file in (_HERE / "golden").glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            is_step = isinstance(node, ast.FunctionDef) and node.name != "before"
            if is_step and (node.name != "steps") == of_refusals:
                found |= _called(node)
    return found


def _refused_in_tests():
    """The calls in ``pytest.raises`` blocks or in tables of rejections."""
    found = set()
    for file in _HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_table = (
                isinstance(node, ast.Assign)
                and "refused" in ast.unparse(node.targets[0]).lower()
            )
            is_raise = isinstance(node, ast.With) and "raises" in _called(node)
            if is_table or is_raise:
                found |= _called(node)
    return found


_KINDS = [InstructionKind.get(name) for name in InstructionKind.names()]
_GOLDEN = _steps(of_refusals=False)
_REFUSED = _steps(of_refusals=True) | _refused_in_tests()


def test_every_instruction_is_a_method():
    assert [m for m in _methods(_KINDS) if not hasattr(Schedule, m)] == []


@pytest.mark.parametrize("method", [*_methods(_KINDS), "tile"])
def test_every_primitive_has_a_golden(method):
    assert method in _GOLDEN


@pytest.mark.parametrize(
    "method", [m for m in _methods(_KINDS) if m not in _NEVER_REFUSED]
)
def test_every_primitive_refuses_something(method):
    assert method in _REFUSED

"""Constant evaluation of bodies, against Python's arithmetic."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.schedules.constant_scalars import constant_value
from tests.analysis.index_programs import used_values


def numbers(lines: str, *names: str) -> list[float | None]:
    uses = "\n".join(
        f'"test.use"({name}) : ({type_}) -> ()' for name, type_ in _typed(names)
    )
    text = f"func.func @f(%x: f64, %i: i64) {{\n{lines}\n{uses}\nreturn }}"
    with used_values(text) as found:
        return [constant_value(value) for value in found]


def _typed(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, "i64" if name.startswith("%i") else "f64") for name in names]


_values = st.floats(0.125, 64.0, width=32)


@settings(max_examples=12)
@given(_values, _values)
def test_computed_numbers(a: float, b: float) -> None:
    found = numbers(
        f"""%a = arith.constant {a:.17e} : f64
        %b32 = arith.constant {b:.17e} : f32
        %b = arith.extf %b32 : f32 to f64
        %q = arith.divf %a, %b : f64
        %p = arith.mulf %q, %a : f64
        %s = math.sqrt %p : f64""",
        *("%a", "%b", "%q", "%p", "%s"),
    )
    assert found == [a, b, a / b, a / b * a, math.sqrt(a / b * a)]


def test_unknown_values() -> None:
    lines = """%a = arith.constant -2.0 : f64
      %z = arith.constant 0.0 : f64
      %q = arith.divf %a, %z : f64
      %s = math.sqrt %a : f64
      %m = arith.mulf %a, %x : f64
      %n = arith.mulf %x, %a : f64
      %e = math.exp %a : f64
      %d = arith.subf %a, %z : f64
      %i1 = arith.constant 3 : i64"""
    names = ("%x", "%q", "%s", "%m", "%n", "%e", "%d", "%i", "%i1")
    assert numbers(lines, *names) == [None] * len(names)
    assert numbers(lines, "%a", "%z") == [-2.0, 0.0]


@pytest.mark.parametrize("operation", ["arith.truncf", "arith.negf"])
def test_operations_that_round_or_negate_are_not_computed(operation: str) -> None:
    if operation == "arith.negf":
        line = "%r = arith.negf %a : f64"
        assert numbers(f"%a = arith.constant 2.0 : f64\n{line}", "%r") == [None]
        return
    lines = """%a = arith.constant 2.0 : f64
      %t = arith.truncf %a : f64 to f32
      %r = arith.extf %t : f32 to f64"""
    assert numbers(lines, "%r") == [None]

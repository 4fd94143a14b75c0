"""Combiners of reductions, against all numbers of small types."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import pytest
from mlir import ir

from relax_mlir.ir.traversal import operations_named
from relax_mlir.schedules.combiner import Combiner, combiner_of

_BYTES = range(256)
_SIGNED = range(-128, 128)
_FLOATS = (-math.inf, -2.5, 0.0, 1.0, math.inf)
# By operation: its function, its element type, and the kind of the vector reduction.
_OPERATIONS: dict[str, tuple[Callable[..., float], Sequence[float], str]] = {
    "addf": (operator.add, _FLOATS[1:], "add"),
    "mulf": (operator.mul, _FLOATS, "mul"),
    "maximumf": (max, _FLOATS, "maximumf"),
    "minimumf": (min, _FLOATS, "minimumf"),
    "addi": (lambda a, b: (a + b) % 256, _BYTES, "add"),
    "muli": (lambda a, b: (a * b) % 256, _BYTES, "mul"),
    "maxsi": (max, _SIGNED, "maxsi"),
    "minsi": (min, _SIGNED, "minsi"),
    "maxui": (max, _BYTES, "maxui"),
    "minui": (min, _BYTES, "minui"),
    "ori": (operator.or_, _BYTES, "or"),
    "andi": (operator.and_, _BYTES, "and"),
}


@contextmanager
def combined(
    lines: str, type_: str = "i8", arguments: str = ""
) -> Iterator[tuple[Combiner | None, ir.Value]]:
    """The combiner of a body that combines the argument ``%s`` and a new value to ``%r``."""
    text = f"""func.func @f(%s: {type_}, %x: {type_}{arguments}) {{
      {lines}
      "test.use"(%r) : ({type_}) -> ()
      return }}"""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        (use,) = operations_named(module.operation, "test.use")
        (result,) = use.operation.operands
        argument = use.operation.block.arguments[0]
        with ir.InsertionPoint(use):
            yield combiner_of(argument, result), result


@pytest.mark.parametrize("name", _OPERATIONS)
@pytest.mark.parametrize("order", ["%s, %x", "%x, %s"])
def test_identities_change_no_number(name: str, order: str) -> None:
    combine, numbers, kind = _OPERATIONS[name]
    type_ = "f32" if name.endswith("f") else "i8"
    with combined(f"%r = arith.{name} {order} : {type_}", type_) as (found, result):
        assert found is not None
        assert (found.name, found.kind) == (f"arith.{name}", kind)
        assert type_ == "f32" or -128 <= found.identity < 128
        identity = found.identity
        if numbers is _BYTES:
            identity = int(identity) % 256
        assert [combine(identity, n) for n in numbers] == list(numbers)

        again = found.combine(result, result).owner
        assert (again.name, list(again.operands)) == (found.name, [result, result])
        ir.Operation.parse(f"%0 = arith.constant {_written(found)} : {type_}")


def _written(found: Combiner) -> str:
    identity = found.identity
    if math.isinf(identity):
        return "0x7F800000" if identity > 0 else "0xFF800000"
    return str(identity)


@pytest.mark.parametrize("type_", ["f32", "i8"])
def test_lanes_are_one_reduction(type_: str) -> None:
    name = "addf" if type_ == "f32" else "addi"
    context = ir.Context()
    context.allow_unregistered_dialects = True
    text = f"""func.func @f(%v: vector<4x{type_}>) {{
      "test.use"(%v) : (vector<4x{type_}>) -> ()
      return }}"""
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        (use,) = operations_named(module.operation, "test.use")
        with ir.InsertionPoint(use):
            lanes = Combiner(f"arith.{name}", "add", 0).lanes_of(
                use.operation.operands[0]
            )
        assert module.operation.verify()
        assert str(lanes.type) == type_
        text = str(lanes.owner)
        assert text.startswith("%0 = vector.reduction <add>, %arg0")
        assert ("fastmath<reassoc>" in text) is (type_ == "f32")


_TRUTH = """
  %c0 = arith.constant {zero} : i8
  %b = arith.cmpi {predicate}, %s, %c0 : i8
  %y = arith.cmpi ne, %x, %c0 : i8
  %o = arith.{name} {order} : i1
  %r = arith.extui %o : i1 to i8
"""


def truths(
    name: str, predicate: str = "ne", zero: int = 0, order: str = "%b, %y"
) -> str:
    return _TRUTH.format(name=name, predicate=predicate, zero=zero, order=order)


@pytest.mark.parametrize("name", ["ori", "andi", "maxui", "minui"])
def test_booleans_combine_as_bits(name: str) -> None:
    combine, _, kind = _OPERATIONS[name]
    with combined(truths(name, order="%y, %b")) as (found, _):
        assert found is not None
        assert found.kind == kind
        for a, b in product((0, 1), repeat=2):
            assert combine(a, b) == int(bool(combine(int(bool(a)), int(bool(b)))))
        assert [combine(int(found.identity), bit) for bit in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    "lines",
    [
        truths("addi"),  # 1 + 1 is 0 in one bit
        truths("maxsi"),
        truths("ori", predicate="eq"),
        truths("ori", zero=1),
        truths("ori", order="%y, %y"),
        truths("ori", order="%b, %b"),
        truths("ori") + "%more = arith.addi %s, %s : i8",
        # A byte compared with a value that is not a constant.
        """%b = arith.cmpi ne, %s, %x : i8
        %c = arith.addi %x, %x : i8
        %o = arith.ori %b, %b : i1
        %r = arith.extui %o : i1 to i8""",
        """%c = arith.addi %x, %x : i8
        %b = arith.cmpi ne, %s, %c : i8
        %t = arith.constant true
        %o = arith.ori %b, %t : i1
        %r = arith.extui %o : i1 to i8""",
        """%z = arith.constant 0 : i8
        %b = arith.addi %s, %z : i8
        %t = arith.constant true
        %o = arith.ori %t, %t : i1
        %r = arith.extui %o : i1 to i8""",
    ],
)
def test_other_boolean_bodies_have_no_combiner(lines: str) -> None:
    with combined(lines) as (found, _):
        assert found is None


@pytest.mark.parametrize(
    "lines",
    [
        "%r = arith.subi %s, %x : i8",
        "%r = arith.addi %x, %x : i8",
        "%r = arith.addi %s, %s : i8",
        "%r = arith.addi %s, %x : i8\n %more = arith.addi %s, %x : i8",
        "%t = arith.addi %s, %x : i8\n %r = arith.addi %t, %x : i8",
    ],
)
def test_other_bodies_have_no_combiner(lines: str) -> None:
    with combined(lines) as (found, _):
        assert found is None
    with combined("", arguments=", %r: i8") as (found, _):
        assert found is None

"""Explicit regions (``T.reads``, ``T.writes``): printed, parsed, and matched with bodies."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_named
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.stmt.explicit_regions import (
    ExplicitRegions,
    axis_name,
    explicit_regions_attr,
    in_explicit_order,
    overriding_regions,
    region_text,
    restore_explicit_regions,
    set_explicit_regions,
)
from relax_mlir.tvm.script import from_source
from tests.objects.prim.terms import binary, points, value_of

A, B, C = (Buffer((8, 6), "float32", name) for name in "ABC")
LONG = Buffer((prim.const(8, "int64"),), "float32", "long")
V, W, N = Var("v"), Var("w"), Var("n")
_NAMES = {id(V): axis_name(0), id(W): axis_name(1)}
_KINDS = [prim.Add, prim.Sub, prim.Mul, prim.Min, prim.Max]
_numbers = st.integers(-4, 9).map(prim.const)
_terms: st.SearchStrategy[PrimExpr] = st.recursive(
    st.sampled_from([V, W, N]) | _numbers,
    lambda inner: (
        binary(_KINDS, inner, inner)
        | binary([prim.FloorDiv, prim.FloorMod], inner, st.sampled_from([2, 3]))
    ),
    max_leaves=5,
)


def block(**options: Any) -> statements.Block:
    """A block that reads ``A`` and ``B``, and writes ``C``."""
    axes = [IterVar(Range(0, 6), var, IterVar.DataPar) for var in (V, W)]
    value = BufferLoad(A, [V, W]) + BufferLoad(B, [W, V])
    body = statements.BufferStore(C, value, [V, W + 1])
    return statements.Block(axes, None, None, "b", body, **options)


def runs(*pairs: tuple[Any, Any]) -> list[Range]:
    return [Range.from_min_extent(*pair) for pair in pairs]


def texts(regions: Sequence[BufferRegion]) -> list[str]:
    return [str(region) for region in regions]


def said(block: statements.Block, **listed: Any) -> tuple[list[str], list[str]]:
    """The regions of a block after some were stated explicitly."""
    set_explicit_regions(block, listed, {"n": N}, {"C": C, "long": LONG})
    return texts(block.reads), texts(block.writes)


@settings(max_examples=100)
@given(_terms, _terms)
def test_boxes_parse_back(first: PrimExpr, extent: PrimExpr) -> None:
    text = region_text(runs((first, extent), (0, 1)), _NAMES)
    made = block()
    set_explicit_regions(made, {"reads": [("r0", text)]}, {"n": N}, {})
    (read,) = made.reads
    assert read.buffer is A
    for values in points({V: (0, 2), W: (-1, 3), N: (1, 4)}):
        assert value_of(read.region[0].min, values) == value_of(first, values)
        assert value_of(read.region[0].extent, values) == value_of(extent, values)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (V + W * 2, "(axis0 + (axis1 * 2))"),
        (N - 3, "(n - 3)"),
        (N // 2 % 3, "((n // 2) % 3)"),
        (prim.Min(V, prim.Max(N, 0)), "min(axis0, max(n, 0))"),
        (prim.const(-3), "-3"),
        (prim.Cast("int64", V), "axis0"),
    ],
)
def test_expressions_are_printed_in_infix_form(term: PrimExpr, expected: str) -> None:
    assert region_text(runs((term, 1)), _NAMES) == [[expected, "1"]]


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (prim.Div(V, 2), "expected arithmetic on integers"),
        (BufferLoad(LONG, [V]), "expected arithmetic on integers"),
        (Var("a b"), "`a b`: expected a name"),
    ],
)
def test_other_expressions_have_no_text(term: PrimExpr, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        region_text(runs((term, 1)), _NAMES)


def test_explicit_regions_replace_derived_ones() -> None:
    derived = (["A[v, w]", "B[w, v]"], ["C[v, w + 1]"])
    box = [["axis0 * 2", "n"], ["0", "6"]]

    assert (texts(block().reads), texts(block().writes)) == derived
    assert said(block()) == derived
    assert said(block(), reads=[("r1", None), ("r0", box)]) == (
        ["B[w, v]", "A[v * 2:v * 2 + n, 0:6]"],
        derived[1],
    )
    assert said(block(), writes=[("w0", box)]) == (
        derived[0],
        ["C[v * 2:v * 2 + n, 0:6]"],
    )
    assert said(block(), reads=[("w0", None)])[0] == ["C[v, w + 1]"]
    assert said(block(), reads=[("=C", box)])[0] == ["C[v * 2:v * 2 + n, 0:6]"]
    assert said(block(), reads=[])[0] == []


def test_numbers_have_the_type_of_the_size() -> None:
    made = block()
    said(made, reads=[("=long", [["0", "axis0"]])])
    (read,) = made.reads

    assert (read.region[0].min.dtype, read.region[0].extent.dtype) == ("int64", "int32")


@pytest.mark.parametrize(
    "listed",
    [
        [("r2", None)],  # there are two
        [("w1", None)],
        [("=D", [["0", "1"], ["0", "1"]])],  # unknown here
        [("r0", [["m", "1"], ["0", "1"]])],
        [("r0", [["axis2", "1"], ["0", "1"]])],
    ],
)
def test_unknown_names_are_ignored(listed: list[Any]) -> None:
    assert said(block(), reads=listed, writes=[("w0", None)]) == (
        ["A[v, w]", "B[w, v]"],
        ["C[v, w + 1]"],
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "0 +", "x y", "1 // 0", "1.5", "'x'", "None", "[1]", "axis0.b", "lambda: 0"),
        *("f(1, 2)", "max(1)", "max(1, 2, 3)", "x.max(1, 2)", "axis0 ** 2", "axis0 @ n"),
        *("not axis0", "~n", "+n", "0 if n else 1", "\0", "(" * 300, "-" * 5000 + "1"),
    ],
)  # fmt: skip
def test_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected arithmetic on integers"):
        said(block(), reads=[("r0", [[text, "1"], ["0", "1"]])])


@pytest.mark.parametrize("place", ["", "r", "rx", "r-1", "q0", "0"])
def test_regions_of_other_values_than_buffers_are_refused(place: str) -> None:
    with pytest.raises(ValueError, match=f"`{place}`: expected a buffer"):
        said(block(), reads=[(place, None)])
    with pytest.raises(ValueError, match=f"`{place}`: expected a buffer"):
        in_explicit_order(
            {"reads": [(place, None)], "counts": [1, 1]}, "reads", "a", "b"
        )


@pytest.mark.parametrize("listed", [3, [3], [("r0", 3)], [("r0", [3, 4])]])
def test_other_forms_than_regions_are_refused(listed: Any) -> None:
    with pytest.raises(ValueError, match="expected buffers and boxes"):
        said(block(), reads=listed)


def test_explicit_regions_of_another_body_are_dropped() -> None:
    made = block()

    assert said(made, reads=[("r0", None)], body="00000000")[0] == [
        "A[v, w]",
        "B[w, v]",
    ]
    assert not made.has_explicit_regions


def test_regions_equal_to_derived_ones_are_not_stored() -> None:
    made, other, order = block(), block(), block()
    set_explicit_regions(
        made,
        {"reads": [("r0", [["axis0", "1"], ["axis1", "1"]]), ("r1", None)]},
        {},
        {},
    )
    set_explicit_regions(
        other,
        {"reads": [("r0", [["axis0", "2"], ["axis1", "1"]]), ("r1", None)]},
        {},
        {},
    )
    set_explicit_regions(order, {"reads": [("r1", None), ("r0", None)]}, {}, {})

    assert overriding_regions(block()) is None
    assert made.has_explicit_regions
    assert overriding_regions(made) is None
    assert overriding_regions(other) == (other.reads, other.writes)
    assert overriding_regions(order) == (order.reads, order.writes)
    equal = block()
    box = [["axis1 + axis0 - axis1", "1"], ["axis1", "1"]]
    set_explicit_regions(equal, {"reads": [("r0", box), ("r1", None)]}, {}, {})
    assert overriding_regions(equal) is None


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({}, "ab"),
        ({"writes": [("w0", None)], "counts": [2, 1]}, "ab"),
        ({"reads": [("r1", None), ("r0", None)], "counts": [2, 1]}, "ba"),
        ({"reads": [("r1", None), ("=D", None)], "counts": [2, 1]}, "b"),
        ({"reads": [("w0", None), ("r0", None)], "counts": [2, 1]}, "ca"),
        ({"reads": [("r1", None)], "counts": [1, 1]}, "ab"),
        ({"reads": [("r1", None)], "counts": [2, 2]}, "ab"),
        ({"reads": [("r2", None), ("r0", None)], "counts": [2, 1]}, "ab"),
        ({"reads": [("w1", None), ("r0", None)], "counts": [2, 1]}, "ab"),
    ],
)
def test_orders_of_buffers(listed: dict[str, Any], expected: str) -> None:
    assert in_explicit_order(listed, "reads", ["a", "b"], ["c"]) == list(expected)
    assert in_explicit_order(listed, "writes", ["a", "b"], ["c"]) == ["c"]


def test_orders_of_writes() -> None:
    listed = {"writes": [("w1", None), ("r0", None), ("w0", None)], "counts": [1, 2]}

    assert in_explicit_order(listed, "writes", ["a"], ["b", "c"]) == ["c", "a", "b"]
    assert in_explicit_order(listed, "reads", ["a"], ["b", "c"]) == ["a"]


_SCRIPT = """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("x"):
            v = T.axis.spatial(8, i)
            T.reads({reads})
            T.writes({writes})
            c[v] = a[v] + b[v]
"""


@pytest.mark.parametrize(
    ("reads", "writes", "expected"),
    [
        ("a[v], b[v]", "c[v]", {}),
        (
            "c[0:v], b[v], a[0:8]",
            "c[v]",
            {"reads": (("w0", (("0", "axis0"),)), ("r1", None), ("r0", (("0", "8"),)))},
        ),
        (
            "a[v], b[v]",
            "c[v], a[v]",
            {"writes": (("w0", None), ("r0", (("axis0", "1"),)))},
        ),
        ("b[v]", "c[v]", {"reads": (("r1", None),)}),
    ],
)
def test_regions_of_scripts_are_kept(
    reads: str, writes: str, expected: dict[str, Any]
) -> None:
    module = IRModule({"main": from_source(_SCRIPT.format(reads=reads, writes=writes))})
    (found,) = operations_named(module.mlir.operation, "tir.block")
    kept = explicit_regions_attr(found.operation)

    if expected:
        assert kept.pop("counts") == (2, 1)
        assert len(kept.pop("body")) == 8
    assert kept == expected


def test_stored_regions_are_those_of_parsed_blocks() -> None:
    made, other = block(), block()
    axes = [IterVar(Range(0, 6), Var(name), IterVar.DataPar) for name in "xy"]
    x, y = (axis.var for axis in axes)
    seen: dict[Any, Buffer] = {"memref": C}  # a value of the IR
    regions = [
        BufferRegion(A, runs((x * 2, y), (0, 6))),
        BufferRegion(B, runs((y, 1), (x, 1))),
    ]
    memrefs: dict[int, Any] = {id(A): "memref"}
    operations: list[Any] = ["made", "unknown"]  # of which one was read
    kept = [
        ExplicitRegions(op, 0, axes, {"reads": regions}, memrefs) for op in operations
    ]
    blocks: dict[Any, statements.Block] = {"made": made, "other": other}
    restore_explicit_regions(kept, blocks, seen)

    assert texts(made.reads) == ["C[v * 2:v * 2 + w, 0:6]", "B[w, v]"]
    assert texts(made.writes) == texts(other.writes)
    assert not other.has_explicit_regions

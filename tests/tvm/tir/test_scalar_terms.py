"""Scalar expressions that fold or are rejected, and the first difference of two PrimFuncs."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from tvm_ffi.access_path import AccessPath

from relax_mlir.errors import RelaxError
from relax_mlir.objects.compare.structural_equal import first_mismatch, structural_equal
from relax_mlir.objects.prim.pointers import PointerType
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.tvm import tir
from relax_mlir.tvm.ir import Op
from relax_mlir.tvm.script import tir as T  # noqa: N812  what scripts call it

ROOT = AccessPath.root()
i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
x = tir.Var("x", "float32")


@pytest.mark.parametrize(
    "make",
    [
        lambda: x << 1,
        lambda: x & x,
        lambda: ~x,
        lambda: i << 32,
        lambda: i >> -1,
        lambda: tir.truncmod(tir.const(7), 0),
        lambda: tir.const(7) // 0,
        lambda: tir.all(i, tir.const(True)),
        lambda: tir.if_then_else(i, 1, 2),
        lambda: tir.power(i, j),
        lambda: tir.StringImm("text").astype("int32"),
        lambda: tir.Ramp(0, 1, tir.vscale()),
        lambda: tir.Broadcast(0, tir.vscale() * 2 + 1),
    ],
)
def test_what_has_no_meaning_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(RelaxError, match=r"expected|division"):
        make()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("uint8", "int32", "uint32"),
        ("int16", "uint16", "uint16"),
        ("bool", "int8", "int8"),
        ("uint64", "float16", "float16"),
    ],
)
def test_operands_come_to_one_type(a: str, b: str, expected: str) -> None:
    for made in (
        operator.add(tir.Var("a", a), tir.Var("b", b)),
        operator.mul(tir.Var("b", b), tir.Var("a", a)),
    ):
        assert made.dtype == expected


def test_terms_fold_by_their_units() -> None:
    assert tir.truncmod(i, 1).value == 0  # pyright: ignore[reportAttributeAccessIssue]
    assert tir.const(np.float64(0.1)).dtype == "float64"
    assert tir.isnan(tir.Var("v", "float16x4")).dtype == "boolx4"
    assert tir.Ramp(0, 1, tir.const(6, "int64")).lanes.dtype == "int32"


def test_a_predicate_tells_of_every_lane() -> None:
    b = Buffer((12,), "float32", "b")
    places = tir.Ramp(0, 1, 4)

    with pytest.raises(RelaxError, match=r"8 lanes, but .* 4 lanes"):
        tir.BufferLoad(b, [places], tir.Broadcast(tir.const(True), 8))
    with pytest.raises(RelaxError, match="boolean values, but got int32"):
        tir.BufferStore(b, tir.Broadcast(1.0, 4), [places], tir.Broadcast(1, 4))


def test_a_pointer_knows_what_it_points_to() -> None:
    kind = PointerType("int8", "shared")

    pointer = tir.Var("p", kind)

    assert pointer.dtype == "handle"
    assert pointer.type_annotation == kind  # pyright: ignore[reportAttributeAccessIssue]


def test_intrinsics_are_operators() -> None:
    call = tir.call_extern("int32", "f", i)

    assert call.op.same_as(Op.get("tir.call_extern"))
    with pytest.raises(AttributeError, match=r"tir\.call_extren"):
        Op.get("tir.call_extren")


def test_a_pointer_to_a_buffer_is_a_value() -> None:
    @T.prim_func
    def program(a: T.handle, b: T.Buffer((4,), "float32")):  # pyright: ignore[reportInvalidTypeForm]
        A = T.match_buffer(a, (4,))  # noqa: N806
        T.call_extern("int32", "f", a, A.data, b.data)

    assert program.body.value.args[1] is program.params[0]
    assert "def program(a: T.handle, b: T.Buffer(" in program.script()
    assert "A = T.match_buffer(a, (4,))" in program.script()


def test_where_terms_differ() -> None:
    lhs, rhs = (
        tir.SeqStmt([tir.Evaluate(i), tir.Evaluate(i * 2 + last)]) for last in (5, 7)
    )

    paths = first_mismatch(lhs, rhs)

    assert paths is not None
    expected = ROOT.attr("seq").array_item(1).attr("value").attr("b").attr("value")
    assert paths[0] == paths[1] == expected


def test_where_a_list_ends() -> None:
    longer = tir.PrimFunc([i, j], tir.Evaluate(i))
    shorter = tir.PrimFunc([i], tir.Evaluate(i))

    assert first_mismatch(longer, shorter) == (
        ROOT.attr("params").array_item(1),
        ROOT.attr("params").array_item_missing(1),
    )
    assert first_mismatch(longer, longer) is None


def test_a_variable_differs_where_it_stands_for_another() -> None:
    twice = tir.PrimFunc([i, j], tir.Evaluate(i + i))
    both = tir.PrimFunc([i, j], tir.Evaluate(i + j))

    expected = ROOT.attr("body").attr("value").attr("b")

    assert first_mismatch(twice, both) == (expected, expected)
    assert first_mismatch(both, twice) == (expected, expected)


def test_variables_of_terms_are_numbered_where_they_are_bound() -> None:
    assert structural_equal(tir.Let(i, 3, i - j), tir.Let(x, 3.0, x - 1.0)) is False
    k = tir.Var("k", "int32")
    assert structural_equal(tir.Let(i, 3, i - j), tir.Let(k, 3, k - j))


def test_indices_move_between_layouts() -> None:
    blocked = tir.bijective_layout("NHWC", "NCHW4c")
    assert blocked is not None

    assert list(map(int, blocked.forward_shape((2, 5, 7, 12)))) == [2, 3, 5, 7, 4]
    assert list(map(int, blocked.backward_shape((2, 3, 5, 7, 4)))) == [2, 5, 7, 12]
    assert list(map(int, blocked.forward_index([1, 4, 6, 9]))) == [1, 2, 4, 6, 1]
    assert list(map(int, blocked.backward_index([1, 2, 4, 6, 1]))) == [1, 4, 6, 9]
    assert str(blocked.forward_index([i, 0, 0, j])[1]) == "j // 4"
    assert tir.bijective_layout("NHWC", "NHW") is None


def test_a_layout_knows_its_axes() -> None:
    layout = tir.layout("NC8cW", "int64")

    assert (len(layout), layout[-1], "c" in layout, "H" in layout) == (
        4,
        "W",
        True,
        False,
    )
    assert [layout.factor_of(axis) for axis in "CcN"] == [8, 8, -1]
    assert layout.axes[2].dom.extent == 8
    assert {axis.var.dtype for axis in layout.axes} == {"int64"}
    with pytest.raises(TypeError, match="expected integers, got float32"):
        tir.layout("NC", "float32")


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ([1, 2], [1, 3], (ROOT.array_item(1), ROOT.array_item(1))),
        ([1], [1, 3], (ROOT.array_item_missing(1), ROOT.array_item(1))),
        ({"a": 1}, {"a": 2}, (ROOT.map_item("a"), ROOT.map_item("a"))),
        (
            {"a": [1]},
            {"a": [1], "b": [2]},
            (ROOT.map_item_missing("b"), ROOT.map_item("b")),
        ),
    ],
)
def test_where_collections_differ(
    lhs: object, rhs: object, expected: tuple[AccessPath, AccessPath]
) -> None:
    assert first_mismatch(lhs, rhs) == expected
    assert first_mismatch(rhs, lhs) == expected[::-1]


def test_numbers_that_fold_wrap_as_their_type_does() -> None:
    assert (tir.const(1, "int32") << 31).value == -(1 << 31)
    assert (tir.const(200, "uint8") << 1).value == 144
    assert (tir.const(True) + tir.const(True)).value == 0

"""Op pattern kinds of tensor programs, by the accesses of their blocks."""

import itertools

import pytest

from relax_mlir.analysis.op_pattern import (
    OpPatternKind,
    ends_elementwise,
    op_pattern_of,
    stores_piecewise,
)
from tests.analysis.block_programs import (
    ALLOCATION,
    MATMUL,
    NUMBERS,
    PLAIN,
    SUM,
    TIMES,
    WHOLE,
    block,
    copy,
    load,
    parsed,
    program,
    reduction,
    store,
)


def test_kinds_are_in_the_order_of_fusion() -> None:
    names = "ELEMENTWISE BROADCAST INJECTIVE REDUCTION OUT_FUSABLE OPAQUE"
    assert {kind.name: kind.value for kind in OpPatternKind} == {
        name: value for value, name in enumerate(names.split())
    }


@pytest.mark.parametrize(
    ("indices", "kind"),
    [
        ("ijk", OpPatternKind.ELEMENTWISE),
        ("ij0", OpPatternKind.BROADCAST),
        ("00k", OpPatternKind.BROADCAST),
        ("000", OpPatternKind.BROADCAST),
        ("0i0", OpPatternKind.BROADCAST),
        ("ij1", OpPatternKind.INJECTIVE),
        ("jik", OpPatternKind.INJECTIVE),
        ("iik", OpPatternKind.INJECTIVE),
        ("kji", OpPatternKind.INJECTIVE),
        ("j0i", OpPatternKind.INJECTIVE),
    ],
)
def test_blocks_without_reductions_by_access_maps(
    indices: str, kind: OpPatternKind
) -> None:
    assert op_pattern_of(program(copy("x", "o", indices))) == kind


@pytest.mark.parametrize(
    ("arithmetic", "kind"),
    [
        ("%s = arith.addi %i, %c1 : index", OpPatternKind.INJECTIVE),
        ("%s = arith.muli %i, %c1 : index", OpPatternKind.ELEMENTWISE),
        ("%s = arith.remui %i, %c1 : index", OpPatternKind.INJECTIVE),
        ("%s = arith.addi %i, %j : index", OpPatternKind.INJECTIVE),
    ],
)
def test_reads_at_computed_indices(arithmetic: str, kind: OpPatternKind) -> None:
    body = NUMBERS + arithmetic + "\n" + load("x", "s", "j", "k")
    assert (
        op_pattern_of(program(block(body + store("xv", "o", *"ijk"), "SSS", WHOLE)))
        == kind
    )


def test_the_highest_kind_of_all_reads_counts() -> None:
    body = NUMBERS + load("x", *"ijk") + load("y", "j", "i", "k")
    body += "%s = arith.addf %xv, %yv : f32\n" + store("s", "o", *"ijk")
    assert op_pattern_of(program(block(body, "SSS", WHOLE))) == OpPatternKind.INJECTIVE


def test_chains_have_the_highest_kind() -> None:
    plain, spread, moved = "ijk", "0jk", "jik"
    for first, second in itertools.product((plain, spread, moved), repeat=2):
        function = program(ALLOCATION, copy("x", "t", first), copy("t", "o", second))
        kinds = [
            op_pattern_of(program(copy("x", "o", reads))) for reads in (first, second)
        ]
        assert op_pattern_of(function) == max(kinds)


def test_a_value_of_an_index_is_injective() -> None:
    cast = (
        "%n = arith.index_cast %i : index to i32\n%f = arith.sitofp %n : i32 to f32\n"
    )
    place = program(block(cast + store("f", "o", *"ijk"), "SSS", WHOLE))
    offset = "%n = arith.addi %i, %c0 : index\n"
    body = NUMBERS + offset + load("x", "n", "j", "k") + store("xv", "o", *"ijk")

    assert op_pattern_of(place) == OpPatternKind.INJECTIVE
    assert (
        op_pattern_of(program(block(body, "SSS", WHOLE))) == OpPatternKind.ELEMENTWISE
    )


def test_stores_at_other_indices_than_the_axes_are_injective() -> None:
    function = program(copy("x", "o", to="jik"))
    assert op_pattern_of(function) == OpPatternKind.INJECTIVE
    assert (
        op_pattern_of(program(copy("x", "o"), copy("y", "o")))
        == OpPatternKind.INJECTIVE
    )
    moved = program(ALLOCATION, copy("x", "t", to="jik"), copy("t", "o"))
    assert op_pattern_of(moved) == OpPatternKind.INJECTIVE


def test_conditional_or_non_affine_stores_are_opaque() -> None:
    product = NUMBERS + "%s = arith.muli %i, %j : index\n" + load("x", *"ijk")
    twice = load("x", *"ijk") + 2 * store("xv", "o", *"ijk")
    scattered = product + store("xv", "o", "s", "j", "k")
    assert (
        op_pattern_of(program(block(scattered, "SSS", WHOLE))) == OpPatternKind.OPAQUE
    )
    assert op_pattern_of(program(block(twice, "SSS", WHOLE))) == OpPatternKind.OPAQUE


def test_other_statements_and_several_results_are_opaque() -> None:
    loop = """%a = arith.constant 0 : index
      %b = arith.constant 1 : index
      scf.for %n = %a to %b step %b { }"""
    assert op_pattern_of(program(loop, copy("x", "o"))) == OpPatternKind.OPAQUE
    assert op_pattern_of(program("%a = arith.constant 0 : index", copy("x", "o"))) == (
        OpPatternKind.ELEMENTWISE
    )
    assert op_pattern_of(program(copy("x", "o"), outputs=2)) == OpPatternKind.OPAQUE
    assert op_pattern_of(program()) == OpPatternKind.OPAQUE


# Reductions.


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (SUM, OpPatternKind.REDUCTION),
        (reduction(PLAIN, load("x", "c0", "j", "l")), OpPatternKind.REDUCTION),
        (MATMUL, OpPatternKind.OUT_FUSABLE),
        (
            reduction(TIMES, load("x", *"ijl") + load("x", *"jil", to="y")),
            OpPatternKind.REDUCTION,
        ),
        (
            reduction(
                PLAIN,
                "%w = arith.addi %k, %l : index\n" + load("x", "i", "j", "w"),
            ),
            OpPatternKind.OUT_FUSABLE,
        ),
        (
            reduction(
                PLAIN,
                "%w = arith.remui %l, %c1 : index\n" + load("x", "i", "j", "w"),
            ),
            OpPatternKind.OUT_FUSABLE,
        ),
        (
            reduction(
                "%v = scf.if %c -> f32 { scf.yield %xv : f32 } else { scf.yield %xv : f32 }",
                "%c = arith.cmpi slt, %i, %c1 : index\n" + load("x", *"ijl"),
            ),
            OpPatternKind.OUT_FUSABLE,
        ),
    ],
)
def test_reductions(statement: str, kind: OpPatternKind) -> None:
    assert op_pattern_of(program(statement)) == kind


def test_reductions_with_elementwise_blocks_around_them() -> None:
    before = copy("x", "t")
    scaled = reduction(PLAIN, load("t", *"ijl", to="x"))
    after = reduction(PLAIN, load("x", *"ijl"), out="t")

    assert (
        op_pattern_of(program(ALLOCATION, before, scaled)) == OpPatternKind.OUT_FUSABLE
    )
    assert (
        op_pattern_of(program(ALLOCATION, after, copy("t", "o")))
        == OpPatternKind.REDUCTION
    )
    assert (
        op_pattern_of(program(ALLOCATION, after, copy("t", "o", "ij0")))
        == OpPatternKind.REDUCTION
    )
    assert (
        op_pattern_of(program(ALLOCATION, after, copy("t", "o", "jik")))
        == OpPatternKind.OPAQUE
    )
    assert (
        op_pattern_of(program(ALLOCATION, after, copy("x", "o")))
        == OpPatternKind.OPAQUE
    )
    again = copy("t", "y") + copy("x", "o")
    assert op_pattern_of(program(ALLOCATION, after, again)) == OpPatternKind.OPAQUE
    assert op_pattern_of(program(SUM, SUM)) == OpPatternKind.OPAQUE
    unplain = "%c = arith.cmpi slt, %i, %c1 : index\nscf.if %c {" + store(
        "xv", "o", *"ijk"
    )
    body = NUMBERS + load("x", *"ijk") + unplain + "}"
    assert (
        op_pattern_of(program(block(body, "SSSR", (4, 5, 6, 6))))
        == OpPatternKind.OPAQUE
    )


# Elementwise statements after reductions, and piecewise stores.


def test_programs_that_end_elementwise_after_reductions() -> None:
    hidden = reduction(PLAIN, load("x", *"ijl"), out="t")
    last = copy("t", "o")

    assert ends_elementwise(program(ALLOCATION, hidden, last))
    assert not ends_elementwise(program(ALLOCATION, hidden, last, outputs=2))
    assert not ends_elementwise(program(ALLOCATION, last, hidden))
    assert not ends_elementwise(program(ALLOCATION, copy("x", "t"), last))
    assert not ends_elementwise(program(ALLOCATION, hidden, copy("t", "o", to="jik")))
    assert not ends_elementwise(program(ALLOCATION, hidden, copy("t", "y")))
    assert not ends_elementwise(program(ALLOCATION, hidden, last, last))
    assert not ends_elementwise(program())
    loop = """%a = arith.constant 0 : index
      %b = arith.constant 1 : index
      scf.for %n = %a to %b step %b { }"""
    assert not ends_elementwise(program(ALLOCATION, hidden, loop, last))


def test_results_are_the_last_buffer_of_the_arguments() -> None:
    function = parsed(f"""
      func.func @f(%x: memref<4x5x6xf32>, %o: memref<4x5x6xf32>,
          %n: index {{tir.symbol = "n"}})
          attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
        {ALLOCATION} {reduction(PLAIN, load("x", *"ijl"), out="t")} {copy("t", "o")}
        return
      }}""")
    assert ends_elementwise(function)


def test_piecewise_stores() -> None:
    assert stores_piecewise(program(copy("x", "o", to="jik")))
    assert stores_piecewise(program(copy("x", "o"), copy("y", "o")))
    assert not stores_piecewise(program(copy("x", "o")))
    assert not stores_piecewise(program(SUM, copy("x", "o", to="jik")))
    twice = load("x", *"ijk") + 2 * store("xv", "o", *"ijk")
    assert not stores_piecewise(program(block(twice, "SSS", WHOLE)))
    mixed = program(copy("y", "o", to="jik"), block(twice, "SSS", WHOLE))
    assert not stores_piecewise(mixed)

"""Op pattern kinds of tensor programs, by the accesses of their blocks."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import pytest
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.op_pattern import (
    OpPatternKind,
    contraction_of,
    contraction_operations,
    contraction_sizes,
    ends_elementwise,
    op_pattern_of,
    stores_piecewise,
)
from relax_mlir.ir.context import new_context

_AXES = "ijkl"
_TYPES = {"x": "4x5x6xf32", "y": "4x5x6xf32", "z": "4x5x6xf32", "o": "4x5x6xf32"}


def block(body: str, kinds: str, extents: Sequence[int], *, start: str = "") -> str:
    """A block with an axis per letter, called %i, %j, ..."""
    axes = ", ".join(f"%{_AXES[n]}: index" for n in range(len(kinds)))
    begin = f"{{\n^bb0({axes}):\n{start}\ngpu.yield\n}}" if start else "{}"
    return f"""
    "tir.block"() ({begin}, {{
    ^bb0({axes}):
      {body}
      gpu.yield
    }}) {{kinds = "{kinds}", name = "b", operandSegmentSizes = array<i32: 0, 0>,
        static_extents = array<i64: {", ".join(map(str, extents))}>}} : () -> ()
    """


_MODULES: list[ir.Module] = []  # functions live no longer than their modules


@cache
def _context() -> ir.Context:
    return new_context()


def parsed(text: str) -> func.FuncOp:
    """The one function of a module."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        assert isinstance(function, func.FuncOp)
        _MODULES.append(module)
    return function


def program(
    *statements: str, outputs: int = 1, buffers: str = "x, y, o", element: str = "f32"
) -> func.FuncOp:
    names = [name.strip() for name in buffers.split(",")]
    arguments = ", ".join(f"%{n}: memref<4x5x6x{element}>" for n in names)
    text = "\n".join(statements).replace("f32", element)
    return parsed(f"""
      func.func @f({arguments})
          attributes {{tir.prim_func, tir.num_outputs = {outputs} : i64}} {{
        {text}
        return
      }}""")


def load(buffer: str, *indices: str, to: str = "") -> str:
    where = ", ".join(f"%{index}" for index in indices)
    return f"%{to or buffer}v = memref.load %{buffer}[{where}] : memref<4x5x6xf32>\n"


def store(value: str, buffer: str, *indices: str) -> str:
    where = ", ".join(f"%{index}" for index in indices)
    return f"memref.store %{value}, %{buffer}[{where}] : memref<4x5x6xf32>\n"


NUMBERS = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
ALLOCATION = """%t = "tir.alloc_buffer"() {shape = #relax.shape<["4", "5", "6"]>}
    : () -> memref<4x5x6xf32>
"""
WHOLE = (4, 5, 6)


def copy(source: str, target: str, indices: str = "ijk", to: str = "ijk") -> str:
    """A block without reduction axes: ``target[to] = source[indices]``; 0 is a constant."""
    read = [{"0": "c0", "1": "c1"}.get(index, index) for index in indices]
    body = NUMBERS + load(source, *read) + store(f"{source}v", target, *to)
    return block(body, "SSS", WHOLE)


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

_ZERO = "%zero = arith.constant 0.0 : f32\n" + store("zero", "o", *"ijk")


def reduction(
    value: str,
    reads: str,
    *,
    kinds: str = "SSSR",
    extents: Sequence[int] = (4, 5, 6, 6),
    out: str = "o",
    at: str = "ijk",
) -> str:
    """A block that sums ``value`` of its loads."""
    body = f"{NUMBERS}{reads}{value}\n" + load(out, *at, to="acc")
    body += "%s = arith.addf %accv, %v : f32\n" + store("s", out, *at)
    start = "%zero = arith.constant 0.0 : f32\n" + store("zero", out, *at)
    return block(body, kinds, extents, start=start)


_PLAIN = "%v = arith.negf %xv : f32"
_TIMES = "%v = arith.mulf %xv, %yv : f32"
_SUM = reduction(_PLAIN, load("x", *"ijl"))
_MATMUL = reduction(_TIMES, load("x", *"ijl") + load("y", *"ilk"))


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (_SUM, OpPatternKind.REDUCTION),
        (reduction(_PLAIN, load("x", "c0", "j", "l")), OpPatternKind.REDUCTION),
        (_MATMUL, OpPatternKind.OUT_FUSABLE),
        (
            reduction(_TIMES, load("x", *"ijl") + load("x", *"jil", to="y")),
            OpPatternKind.REDUCTION,
        ),
        (
            reduction(
                _PLAIN,
                "%w = arith.addi %k, %l : index\n" + load("x", "i", "j", "w"),
            ),
            OpPatternKind.OUT_FUSABLE,
        ),
        (
            reduction(
                _PLAIN,
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
    scaled = reduction(_PLAIN, load("t", *"ijl", to="x"))
    after = reduction(_PLAIN, load("x", *"ijl"), out="t")

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
    assert op_pattern_of(program(_SUM, _SUM)) == OpPatternKind.OPAQUE
    unplain = "%c = arith.cmpi slt, %i, %c1 : index\nscf.if %c {" + store(
        "xv", "o", *"ijk"
    )
    body = NUMBERS + load("x", *"ijk") + unplain + "}"
    assert (
        op_pattern_of(program(block(body, "SSSR", (4, 5, 6, 6))))
        == OpPatternKind.OPAQUE
    )


# Contractions.


def test_contraction_sizes_by_the_roles_of_axes() -> None:
    extents = {"i": 4, "j": 5, "k": 3, "l": 2}
    for first, second in [("ijl", "ilk"), ("ilj", "kli"), ("jli", "lki")]:
        reads = load("x", *first) + load("y", *second)
        function = program(reduction(_TIMES, reads, extents=tuple(extents.values())))

        assert contraction_sizes(function) == (4, 5, 3, 2, "f32")
        assert contraction_operations(function) == 2 * math.prod(extents.values())


def test_axes_of_windows_and_of_one_operand() -> None:
    window = "%w = arith.addi %j, %l : index\n"
    reads = window + load("x", "i", "w", "c0") + load("y", "l", "k", "c0")
    function = program(reduction(_TIMES, reads, extents=(4, 3, 6, 2)))

    assert contraction_sizes(function) == (1, 12, 6, 2, "f32")
    divided = "%w = arith.remui %j, %c1 : index\n"
    reads = divided + load("x", "i", "w", "l") + load("y", "l", "k", "c0")
    assert contraction_sizes(
        program(reduction(_TIMES, reads, extents=(4, 3, 6, 2)))
    ) == (
        *(1, 4, 18, 2),
        "f32",
    )


def test_empty_contractions_are_contractions() -> None:
    reads = load("x", *"ijl") + load("y", *"ilk")
    function = program(reduction(_TIMES, reads, extents=(4, 5, 6, 0)))

    assert contraction_sizes(function) == (4, 5, 6, 0, "f32")


def test_other_reductions_are_no_contractions() -> None:
    for statement in (_SUM, copy("x", "o")):
        function = program(statement)
        assert contraction_sizes(function) is None
        assert contraction_of(function) is None
        assert contraction_operations(function) == 0


@pytest.mark.parametrize("more", ["", _MATMUL])
def test_contractions_of_dynamic_sizes_are_left_out(more: str) -> None:
    function = parsed(f"""
      func.func @f(%x: memref<4x5x6xf32>, %y: memref<4x5x6xf32>, %o: memref<4x5x6xf32>,
          %n: index {{tir.symbol = "n"}})
          attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
        {
        _MATMUL.replace('"tir.block"()', '"tir.block"(%n)')
        .replace("array<i32: 0, 0>", "array<i32: 1, 0>")
        .replace("array<i64: 4, 5, 6, 6>", "array<i64: 4, 5, 6, -9223372036854775808>")
        .replace(": () -> ()", ": (index) -> ()")
    }
        {more}
        return
      }}""")

    assert op_pattern_of(function) == (
        OpPatternKind.OPAQUE if more else OpPatternKind.OUT_FUSABLE
    )
    assert contraction_sizes(function) is None
    assert contraction_operations(function) == 0


def test_contractions_with_branches_or_more_reads_are_left_out() -> None:
    branch = "%v = scf.if %c -> f32 { scf.yield %p : f32 } else { scf.yield %p : f32 }"
    condition = "%c = arith.cmpi slt, %i, %c1 : index\n"
    reads = load("x", *"ijl") + load("y", *"ilk")
    empty = "scf.if %c { }\n"
    guarded = reduction(_TIMES, condition + reads + empty)
    third = reduction(_TIMES, reads + load("x", *"ijk", to="more"))
    chosen = reduction("%p = arith.mulf %xv, %yv : f32\n" + branch, condition + reads)

    for statement in (guarded, third, chosen):
        assert contraction_of(program(statement)) is None
    assert contraction_operations(program(guarded)) == 2 * 4 * 5 * 6 * 6
    assert contraction_operations(program(_MATMUL, _MATMUL)) == 4 * 4 * 5 * 6 * 6
    assert contraction_of(program(_MATMUL, _MATMUL)) is None
    found = contraction_of(program(_MATMUL))
    assert found is not None
    assert [read.operands[0] for read in found[1]] == list(found[1][0].operands)[
        :1
    ] + list(found[1][1].operands)[:1]


@pytest.mark.parametrize(
    ("value", "is_contraction"),
    [
        (_TIMES, True),
        ("%xw = arith.negf %xv : f32\n%v = arith.mulf %xw, %yv : f32", True),
        ("%two = arith.constant 2.0 : f32\n%v = arith.mulf %xv, %two : f32", False),
        ("%v = arith.mulf %xv, %xv : f32", False),
        ("%xw = arith.addf %xv, %yv : f32\n%v = arith.mulf %xw, %yv : f32", False),
        ("%v = arith.divf %xv, %yv : f32", False),
    ],
)
def test_contractions_multiply_two_buffers(value: str, is_contraction: bool) -> None:
    function = program(reduction(value, load("x", *"ijl") + load("y", *"ilk")))

    assert (contraction_operations(function) > 0) is is_contraction
    assert (op_pattern_of(function) == OpPatternKind.OUT_FUSABLE) is is_contraction


def test_accumulators_may_be_on_either_side_and_integers() -> None:
    swapped = _MATMUL.replace("addf %accv, %v", "addf %v, %accv")
    integers = (
        _MATMUL.replace("mulf", "muli").replace("addf", "addi").replace("0.0", "0")
    )

    assert op_pattern_of(program(swapped)) == OpPatternKind.OUT_FUSABLE
    assert contraction_sizes(program(integers, element="i32")) == (4, 5, 6, 6, "i32")
    greatest = _MATMUL.replace("arith.addf", "arith.maximumf")
    assert op_pattern_of(program(greatest)) == OpPatternKind.REDUCTION


# Elementwise statements after reductions, and piecewise stores.


def test_programs_that_end_elementwise_after_reductions() -> None:
    hidden = reduction(_PLAIN, load("x", *"ijl"), out="t")
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
        {ALLOCATION} {reduction(_PLAIN, load("x", *"ijl"), out="t")} {copy("t", "o")}
        return
      }}""")
    assert ends_elementwise(function)


def test_piecewise_stores() -> None:
    assert stores_piecewise(program(copy("x", "o", to="jik")))
    assert stores_piecewise(program(copy("x", "o"), copy("y", "o")))
    assert not stores_piecewise(program(copy("x", "o")))
    assert not stores_piecewise(program(_SUM, copy("x", "o", to="jik")))
    twice = load("x", *"ijk") + 2 * store("xv", "o", *"ijk")
    assert not stores_piecewise(program(block(twice, "SSS", WHOLE)))
    mixed = program(copy("y", "o", to="jik"), block(twice, "SSS", WHOLE))
    assert not stores_piecewise(mixed)

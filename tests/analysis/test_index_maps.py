"""Index forms against the values of the index arithmetic."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.analysis.index_maps import (
    SIZE_ARITHMETIC,
    OffsetIndex,
    TiledIndex,
    affine_form,
    buffer_sizes,
    constant_of,
    determine_axes,
    index_form,
    is_size_arithmetic,
    offset_index,
    selected_divisor,
    size_expressions,
)
from relax_mlir.dialects import shapes
from relax_mlir.ir.context import new_context
from relax_mlir.ir.traversal import operations_named
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.symbols import parse
from tests.analysis.index_programs import (
    ARITHMETIC,
    compute,
    program,
    used_values,
    values_at,
)
from tests.symbolic.expressions import Tree, points

_AXES = ("i", "j", "k")
_POINTS = list(points(dict.fromkeys(_AXES, (0, 3))))
_LINEAR = ("arith.addi", "arith.subi", "arith.muli")

trees: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(_AXES) | st.integers(0, 5),
    lambda inner: st.tuples(st.sampled_from([*_LINEAR, "arith.divui"]), inner, inner),
    max_leaves=6,
)


@contextmanager
def values(listed: list[Tree]) -> Iterator[tuple[list[ir.Value], dict[ir.Value, int]]]:
    """The values of trees, and the numbers of their axes."""
    with used_values(program([*_AXES, *listed], [*_AXES, "n"])) as found:
        axes = {value: number for number, value in enumerate(found[:3])}
        yield found[3:], axes


def at(form: AffineForm[int], point: dict[str, int]) -> int:
    return form.constant + sum(
        factor * point[_AXES[axis]] for axis, factor in form.coefficients.items()
    )


def is_linear(tree: Tree) -> bool:
    """Whether it is affine syntactically: no quotient, one operand of each product a constant."""
    return _degree(tree) is not None


def _degree(tree: Tree) -> bool | None:
    """Whether a form depends on axes; None if it is not affine."""
    if not isinstance(tree, tuple):
        return isinstance(tree, str)
    name, *operands = tree
    sides = [_degree(operand) for operand in operands]
    if None in sides or name == "arith.divui":
        return None
    if name != "arith.muli":
        return any(sides) and not _is_constant(tree)
    return None if all(sides) else any(sides) and not _is_constant(tree)


def _is_constant(tree: Tree) -> bool:
    return len({compute(tree, point) for point in _POINTS}) == 1


@settings(max_examples=25)
@given(st.lists(trees, min_size=4, max_size=4))
def test_affine_forms_have_the_same_values(listed: list[Tree]) -> None:
    with values(listed) as (found, axes):
        for tree, value in zip(listed, found, strict=True):
            form = affine_form(value, axes)
            assert (form is not None) is is_linear(tree), tree
            if form is not None:
                assert all(form.coefficients.values())
                for point in _POINTS:
                    assert at(form, point) == compute(tree, point), (tree, point)


def test_other_values_are_no_affine_forms() -> None:
    with values(["n", ("arith.addi", "n", "i"), ("arith.minsi", "i", "j")]) as (
        v,
        axes,
    ):
        assert [affine_form(value, axes) for value in v] == [None, None, None]


def test_tiled_indices() -> None:
    listed: list[Tree] = [
        ("arith.divui", "j", 4),
        ("arith.remui", "j", 4),
        ("arith.remui", "j", 1),
        ("arith.divui", "j", 0),
        ("arith.divui", "j", "i"),
        ("arith.remui", ("arith.addi", "j", 1), 4),
        ("arith.remui", "n", 4),
        ("arith.addi", "i", 2),
    ]
    with values(listed) as (found, axes):
        assert [index_form(value, axes) for value in found] == [
            TiledIndex(1, 4, is_inner=False),
            TiledIndex(1, 4, is_inner=True),
            TiledIndex(1, 1, is_inner=True),
            *(None, None, None, None),
            AffineForm({0: 1}, 2),
        ]
        (argument,) = (value for value in axes if axes[value] == 0)
        assert index_form(argument, axes) == AffineForm({0: 1})


def test_tiled_indices_have_an_axis_but_no_coefficient() -> None:
    part = TiledIndex(2, 4, is_inner=True)
    assert part.coefficients == {2: 0}
    assert part.constant == 0
    assert part.single_variable is None


def test_affine_forms_offset_by_a_size() -> None:
    listed: list[Tree] = [
        "n",
        ("arith.addi", ("arith.addi", "i", 3), "n"),
        ("arith.addi", "n", ("arith.muli", "j", 2)),
        ("arith.addi", "n", "n"),
        ("arith.addi", "i", "j"),
        ("arith.subi", "i", "n"),
        ("arith.addi", ("arith.muli", "i", "j"), "n"),
        "i",
    ]
    with values(listed) as (found, axes):
        size = found[0]
        assert [offset_index(value, axes, [size]) for value in found] == [
            OffsetIndex(AffineForm({}), size),
            OffsetIndex(AffineForm({0: 1}, 3), size),
            OffsetIndex(AffineForm({1: 2}), size),
            *(None,) * 5,
        ]
        shifted = OffsetIndex(AffineForm({0: 1}, 3), size)
        assert (shifted.coefficients, shifted.constant) == ({0: 1}, 3)
        assert shifted.single_variable is None


quotients = st.tuples(
    st.sampled_from(["arith.divui", "arith.remui"]),
    st.sampled_from(_AXES),
    st.integers(1, 4),
)
index_trees = st.one_of(trees, quotients, st.sampled_from(_AXES))


@settings(max_examples=60)
@given(
    st.lists(index_trees, min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=3, max_size=3),
)
def test_indices_that_determine_axes_differ(
    listed: list[Tree], sizes: list[int]
) -> None:
    limits = {axis: (0, size - 1) for axis, size in zip(_AXES, sizes, strict=True)}
    with values(listed) as (found, axes):
        extents = dict(zip(axes, sizes, strict=True))
        if not determine_axes(found, extents):
            return
    elements = [values_at(tree, list(points(limits))) for tree in listed]
    known = [column for column in elements if column is not None]
    assert len({*zip(*known, strict=True)}) == math.prod(sizes), listed


@pytest.mark.parametrize(
    ("listed", "sizes", "expected"),
    [
        (["i", "j", "k"], (5, 5, 5), True),
        (["i", "k"], (5, 1, 5), True),
        (["i", "k"], (5, 2, 5), False),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "k"], (5, 4, 2), True),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "k"], (-1, 4, -1), True),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "k"], (5, 5, 2), False),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "k"], (5, -1, 2), False),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "j"], (5, 9, 1), True),
        ([("arith.addi", ("arith.muli", "i", 4), "j"), "j"], (-1, 0, 1), True),
        ([("arith.addi", "i", "j"), ("arith.addi", "j", "k"), "k"], (5, 5, 5), True),
        ([("arith.divui", "i", 3), ("arith.remui", "i", 3), "j"], (9, 5, 1), True),
        ([("arith.divui", "i", 3), ("arith.remui", "i", 4), "j"], (9, 5, 1), False),
        ([("arith.divui", "i", 3), ("arith.remui", "j", 3), "j"], (9, 5, 1), False),
        ([("arith.remui", "i", 3), "j"], (9, 5, 1), False),
        ([("arith.minsi", "i", 3)], (2, 1, 1), False),
        ([], (1, 1, 1), True),
        ([], (1, 0, 1), False),
    ],
)
def test_indices_that_determine_axes(
    listed: list[Tree], sizes: tuple[int, ...], expected: bool
) -> None:
    with values(listed) as (found, axes):
        assert determine_axes(found, dict(zip(axes, sizes, strict=True))) is expected


@pytest.mark.parametrize(
    ("predicate", "zero", "one", "is_divisor"),
    [("eq", 0, 1, True), ("ne", 0, 1, False), ("eq", 1, 1, False), ("eq", 0, 2, False)],
)
def test_selects_of_nonzero_divisors(
    predicate: str, zero: int, one: int, is_divisor: bool
) -> None:
    text = f"""func.func @f(%n: index, %m: index) {{
      %zero = arith.constant {zero} : index
      %one = arith.constant {one} : index
      %is = arith.cmpi {predicate}, %n, %zero : index
      %d = arith.select %is, %one, %n : index
      %other = arith.select %is, %one, %m : index
      %sum = arith.addi %n, %one : index
      "test.use"(%n, %d, %other, %sum) : (index, index, index, index) -> ()
      return }}"""
    with used_values(text) as (n, *found):
        divisor = n if is_divisor else None
        assert [selected_divisor(v) for v in found] == [divisor, None, None]
        assert selected_divisor(n) is None


def test_selects_by_other_conditions() -> None:
    text = """func.func @f(%n: index, %is: i1) {
      %one = arith.constant 1 : index
      %d = arith.select %is, %one, %n : index
      "test.use"(%d) : (index) -> ()
      return }"""
    with used_values(text) as (selected,):
        assert selected_divisor(selected) is None


def test_constants_are_integers() -> None:
    text = """func.func @f(%n: index) {
      %a = arith.constant 7 : index
      %b = arith.constant 1.0 : f32
      %c = arith.addi %a, %a : index
      "test.use"(%a, %b, %c, %n) : (index, f32, index, index) -> ()
      return }"""
    with used_values(text) as found:
        assert [constant_of(value) for value in found] == [7, None, None, None]


@pytest.mark.parametrize(
    "name", [name for name in SIZE_ARITHMETIC if "ext" not in name]
)
def test_arithmetic_of_sizes_is_that_of_numbers(name: str) -> None:
    if name.startswith(("arith.index_cast", "arith.trunci")):
        assert SIZE_ARITHMETIC[name](parse("n")) == parse("n")
        return
    a, b = parse("a"), parse("b")
    size = SIZE_ARITHMETIC[name](a, b)
    for x, y in itertools.product(range(6), range(1, 5)):
        number = shapes.evaluate(size, {"a": x, "b": y})
        assert number == ARITHMETIC[name](x, y), (x, y)


def test_every_size_operation_has_its_arithmetic() -> None:
    casts = {"index_cast", "index_castui", "trunci", "extsi", "extui"}
    assert set(SIZE_ARITHMETIC) == {*ARITHMETIC, *(f"arith.{c}" for c in casts)}
    assert SIZE_ARITHMETIC["arith.extsi"](3) == SIZE_ARITHMETIC["arith.extui"](3) == 3


_SIZES = """
func.func @f(%x: memref<?x3x?x?xf32> {tir.shape = #relax.shape<["s0", "3", "2*s0", "s1*s1"]>},
             %p: memref<4xf32>,
             %n: index {tir.symbol = "s0"}, %m: index {tir.symbol = "s1"}) {
  %c2 = arith.constant 2 : index
  %d = arith.muli %n, %c2 : index
  %e = arith.muli %c2, %n : index
  %z = memref.load %p[%c2] : memref<4xf32>
  %late = arith.muli %m, %m : index
  %t = arith.fptosi %z : f32 to i32
  %hidden = arith.index_cast %t : i32 to index
  %more = arith.addi %hidden, %n : index
  %b = memref.alloc(%late, %n) : memref<?x5x?xf32>
  %empty = memref.alloc(%n) : memref<0x?xf32>
  %a = memref.alloca(%d) : memref<?xf32>
  %s = memref.cast %b : memref<?x5x?xf32> to memref<?x?x7xf32>
  return
}
"""


@contextmanager
def sizes_program() -> Iterator[ir.OpView]:
    context = new_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(_SIZES)
        yield next(iter(module.body.operations))


def test_sizes_of_computed_values() -> None:
    with sizes_program() as function:
        found = size_expressions(function)  # pyright: ignore[reportArgumentType]
        texts = [str(dim) for dim in found.values()]

        assert texts == ["s0", "s1", "2", "2*s0", "2*s0", "s1*s1"]


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("start", ["arith.addi", "arith.subi"])
def test_operations_on_negative_numbers(name: str, start: str) -> None:
    text = f"""func.func @f(%n: index {{tir.symbol = "n"}}) {{
      %two = arith.constant 2 : index
      %three = arith.constant 3 : index
      %a = {start} %n, %three : index
      %r = {name} %a, %two : index
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        block = function.regions[0].blocks[0]
        *_, result = (o.results[0] for o in list(block.operations)[:-1])
        size = size_expressions(function).get(result)  # pyright: ignore[reportArgumentType]

    is_unsigned, is_negative = name.endswith("ui"), start == "arith.subi"
    rounds_to_0 = name in ("arith.divsi", "arith.remsi")
    assert (size is None) == (is_negative and (is_unsigned or rounds_to_0))
    if size is None:
        return
    for n in range(8):
        number = ARITHMETIC[name](ARITHMETIC[start](n, 3), 2)
        assert shapes.evaluate(size, {"n": n}) == number, n


def test_programs_without_sizes() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f() { return }")
        (function,) = module.body.operations
        assert size_expressions(function) == {}  # pyright: ignore[reportArgumentType]


def test_sizes_of_buffers() -> None:
    with sizes_program() as function:
        block = function.regions[0].blocks[0]
        x, p, n, _ = block.arguments
        (_, doubled, _, _, late, *_) = (
            op.results[0] for op in block.operations if len(op.operation.results)
        )
        allocated, empty = operations_named(function, "memref.alloc")
        (local,) = operations_named(function, "memref.alloca")
        (cast,) = operations_named(function, "memref.cast")

        # Values computed after the first other operation are not available at the top.
        assert buffer_sizes(x) == [n, 3, doubled, None]
        assert buffer_sizes(p) == [4]
        assert buffer_sizes(allocated.results[0]) == [late, 5, n]
        assert buffer_sizes(empty.results[0]) == [0, n]
        assert buffer_sizes(local.results[0]) == [doubled]
        assert buffer_sizes(cast.results[0]) == [None, None, 7]


def test_arithmetic_of_sizes_is_on_indices_and_constants() -> None:
    with sizes_program() as function:
        found = [
            is_size_arithmetic(op) for op in function.regions[0].blocks[0].operations
        ]
        assert found == [
            *(True, True, True),  # a constant and two products
            False,  # a load
            True,
            False,  # a conversion to i32
            *(True, True),
            *(False,) * 5,
        ]

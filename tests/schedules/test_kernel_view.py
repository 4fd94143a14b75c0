"""Kernel statements against the elements that their points touch."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.analysis.index_maps import OffsetIndex, TiledIndex
from relax_mlir.ir.context import new_context
from relax_mlir.ir.traversal import operations_named, own_operations
from relax_mlir.schedules.builder import op
from relax_mlir.schedules.kernel_view import (
    Access,
    Statement,
    collapse_axes,
    point_count,
    without_size_arithmetic,
)
from relax_mlir.symbolic.affine_forms import AffineForm
from tests.schedules.kernels import buffers, element_of, kernel_in, number, offset_of

_forms = st.builds(
    lambda factors, more: AffineForm({a: f for a, f in enumerate(factors) if f}, more),
    st.tuples(*[st.sampled_from([0, 0, 1, 2])] * 3),
    st.integers(0, 1),
)


@settings(max_examples=25)
@given(
    st.lists(_forms, min_size=2, max_size=2),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(0, 2)] * 3),
)
def test_strides_and_indices(
    forms: list[AffineForm[int]], shape: tuple[int, ...], point: tuple[int, ...]
) -> None:
    with buffers(f"memref<{shape[0]}x{shape[1]}xf32>", "index") as (x, n):
        access = Access(x, tuple(forms))
        here = offset_of(access, point)

        for axis in range(3):
            there = [p + (a == axis) for a, p in enumerate(point)]
            assert access.stride_of(axis) == offset_of(access, there) - here
        assert access.axes == {
            axis
            for axis in range(3)
            for there in [[p + (a == axis) for a, p in enumerate(point)]]
            if any(element_of(f, there, {}) != element_of(f, point, {}) for f in forms)
        }
        places = [element_of(form, point, {}) for form in forms]
        assert [number(v, {}) for v in access.indices(point)] == places
        moved = Access(x, (OffsetIndex(forms[0], n), forms[1]))
        assert [number(v, {n: 5}) for v in moved.indices(point)] == [
            places[0] + 5,
            places[1],
        ]
        assert moved.axes == access.axes


def test_dynamic_strides() -> None:
    with buffers("memref<3x5x4xf32>") as (x,):
        parts = Access(
            x, (TiledIndex(1, 4, False), AffineForm({0: 1}), TiledIndex(1, 4, True))
        )
        assert [parts.stride_of(axis) for axis in (0, 1, 2)] == [4, None, 0]
        assert parts.axes == {0, 1}
        for point in product(range(5), range(12)):
            places = [element_of(form, point, {}) for form in parts.forms]
            assert [number(v, {}) for v in parts.indices(point)] == places
        # Rows of dynamic length.
        open_ = op("memref.cast", ir.Type.parse("memref<3x?x?xf32>"), x)
        forms = (AffineForm({0: 1}), AffineForm({1: 1}), AffineForm({2: 1}))
        assert [Access(open_, forms).stride_of(a) for a in range(4)] == [
            *(None, None, 1, 0)
        ]


def test_axes_that_alone_are_an_index() -> None:
    with buffers("memref<1x3x4x5xf32>") as (x,):
        forms = (
            AffineForm({0: 1}),
            AffineForm({1: 1}),
            AffineForm({2: 1}, 1),
            AffineForm({3: 2}),
        )
        assert Access(x, forms).indexed_axes == [1, None, None]
        open_ = op("memref.cast", ir.Type.parse("memref<?x3x4x5xf32>"), x)
        assert Access(open_, forms).indexed_axes == [0, 1, None, None]


_AXES = 3
_WHOLE = [(0, 1, 2), (0, 1), (1, 2), (2, 0), (0, 2, 1), (0,), (1, 1), ()]


@settings(max_examples=60)
@given(
    st.tuples(*[st.integers(1, 3)] * _AXES),
    st.lists(
        st.sampled_from(_WHOLE) | st.lists(_forms, min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["SSS", "SSR", "SRR", "RSS"]),
)
def test_collapsed_axes_touch_the_same_elements(
    extents: tuple[int, ...], indices: list[Sequence[AffineForm[int] | int]], kinds: str
) -> None:
    forms = [
        [AffineForm({f: 1}) if isinstance(f, int) else f for f in listed]
        for listed in indices
    ]
    shapes = [
        [extents[f] if isinstance(f, int) else 3 for f in listed] for listed in indices
    ]
    with buffers(*(_type(shape) for shape in shapes)) as values:
        accesses = [
            Access(value, tuple(listed))
            for value, listed in zip(values, forms, strict=True)
        ]
        given_ = statement(kinds, extents, accesses)
        found = collapse_axes(given_)

        assert found.kinds == kinds
        assert _walk(found) == _walk(given_)
        whole = all(isinstance(f, int) for listed in indices for f in listed)
        if whole and kinds == "SSS" and all(len(set(i)) == len(i) for i in indices):
            for axis in (0, 1):
                pair = {axis, axis + 1}
                is_one = all(
                    not pair & {*listed} or f"{axis}{axis + 1}" in _text(listed)
                    for listed in indices
                )
                assert (found.extents[axis] == 1) is (is_one or extents[axis] == 1)


def _type(shape: Sequence[int]) -> str:
    return f"memref<{''.join(f'{size}x' for size in shape)}f32>"


def _text(listed: Sequence[AffineForm[int] | int]) -> str:
    return "".join(map(str, listed))


def statement(
    kinds: str, extents: Sequence[int | ir.Value], accesses: Sequence[Access]
) -> Statement:
    """One that copies, whose operation is the terminator of the function around."""
    *inputs, output = accesses
    function = ir.InsertionPoint.current.block.owner
    return Statement(function, kinds, tuple(extents), tuple(inputs), (output,))


def _walk(one: Statement) -> list[tuple[int, ...]]:
    """The elements that each point touches, in order."""
    assert all(isinstance(extent, int) for extent in one.extents)
    steps = product(*(range(extent) for extent in one.extents))
    return [
        tuple(offset_of(access, point) for access in one.accesses) for point in steps
    ]


def test_dynamic_sizes_collapse_at_row_ends() -> None:
    text = """
    func.func @f(%x: memref<?x?xf32> {tir.shape = #relax.shape<["n", "m"]>},
                 %n: index {tir.symbol = "n"}, %m: index {tir.symbol = "m"}) {
      return
    }"""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        block = function.regions[0].blocks[0]
        x, n, m = block.arguments
        with ir.InsertionPoint(list(block.operations)[-1]):
            access = Access(x, (AffineForm({0: 1}), AffineForm({1: 1})))
            one = collapse_axes(statement("SS", (n, m), [access]))
            assert one.extents[0] == 1
            assert number(one.extents[1], {n: 5, m: 7}) == 35
            other = collapse_axes(statement("SS", (n, n), [access]))
            assert other.extents == (n, n)
            hidden = op("memref.cast", ir.Type.parse("memref<?x?xf32>"), x)
            unknown = collapse_axes(
                statement("SS", (n, m), [Access(hidden, access.forms)])
            )
            assert unknown.extents == (n, m)


@pytest.mark.parametrize(
    ("extents", "count"), [((2, 3), 6), ((), 1), (("n", 3), 192), (("n", "n"), 4096)]
)
def test_point_counts(extents: tuple[int | str, ...], count: int) -> None:
    with buffers("index") as (n,):
        assert point_count([n if e == "n" else int(e) for e in extents]) == count


_KERNEL = """
func.func @f(%x: memref<6x9x4xf32>, %w: memref<8x6xf32>, %o: memref<4x6xf32>,
             %n: index) {
  %t = memref.alloc() : memref<4x6xf32>
  %part = memref.subview %x[1, %n, 2][4, 6, 1][1, 1, 1] {tir.kept = array<i64: 0, 1>}
    : memref<6x9x4xf32> to memref<4x6xf32, strided<[36, 4], offset: ?>>
  %shape = "test.shape"() {tir.shape_only} : () -> memref<4x6xf32>
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%shape : memref<4x6xf32>) outs(%t : memref<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %z = arith.constant START : f32
    linalg.yield %z : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>,
                     affine_map<(d0, d1, d2) -> (2 * d0 + 1, d2)>,
                     affine_map<(d0, d1, d2) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%part, %w : memref<4x6xf32, strided<[36, 4], offset: ?>>, memref<8x6xf32>)
    outs(%t : memref<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%t : memref<4x6xf32>) outs(%o : memref<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    BODY
    linalg.yield %a : f32
  }
  return
}
"""


def kernel(start: str = "0.0", body: str = "") -> str:
    return _KERNEL.replace("START", start).replace("BODY", body)


def test_kernels() -> None:
    with kernel_in(kernel()) as found:
        x, w, o, n = found.block.arguments
        (allocated,) = operations_named(found.function, "memref.alloc")
        t = allocated.results[0]
        total, copy = found.statements

        assert not found.has_loops
        assert found.temporaries == [t]
        assert found.written == {t, o}
        assert (total.kinds, total.extents) == ("SSR", (4, 6, 6))
        assert total.inputs == (
            Access(
                x,
                (
                    AffineForm({0: 1}, 1),
                    OffsetIndex(AffineForm({2: 1}), n),
                    AffineForm({}, 2),
                ),
            ),
            Access(w, (AffineForm({0: 2}, 1), AffineForm({2: 1}))),
        )
        assert total.outputs == (Access(t, (AffineForm({0: 1}), AffineForm({1: 1}))),)
        assert total.accesses == (*total.inputs, *total.outputs)
        assert total.is_reduction
        assert total.starts_from_zero
        assert [str(v.owner.name) for v in total.yielded] == ["arith.addf"]
        assert (copy.kinds, copy.extents, copy.start) == ("SS", (4, 6), None)
        assert not copy.is_reduction
        assert not copy.starts_from_zero
        assert not copy.depends_on_indices
        assert copy.loaded_buffers == set()
        # A point of the view is one of the buffer.
        for i, k in product(range(4), range(6)):
            forms = total.inputs[0].forms
            places = [element_of(f, (i, 0, k), {"%arg3": 3}) for f in forms]
            assert places == [i + 1, k + 3, 2]


def test_starts_of_reductions() -> None:
    with kernel_in(kernel("1.0")) as found:
        start = found.statements[0].start
        assert start is not None
        assert float(start.value) == 1.0  # pyright: ignore[reportAttributeAccessIssue]
        assert not found.statements[0].starts_from_zero


_LOOKING = {
    "%i = linalg.index 0 : index": 0,
    "%c = arith.constant 0 : index\n %l = memref.load %x[%c, %c, %c] : memref<6x9x4xf32>": 1,
    """%c = arith.constant 0 : index
    %y = arith.constant true
    scf.if %y {
      %l = memref.load %w[%c, %c] : memref<8x6xf32>
    }""": 1,
}


@pytest.mark.parametrize("body", _LOOKING)
def test_bodies_that_read_indices(body: str) -> None:
    with kernel_in(kernel(body=body)) as found:
        copy = found.statements[-1]
        assert copy.depends_on_indices
        assert len(copy.loaded_buffers) == _LOOKING[body]
        assert collapse_axes(copy) == copy
    with kernel_in(kernel(body="%m = arith.addf %a, %b : f32")) as found:
        copy = found.statements[-1]
        assert not copy.depends_on_indices
        assert collapse_axes(copy).extents == (1, 24)


_FILLS = """
func.func @f(%x: memref<4xf32>, %o: memref<4xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } ins(%x : memref<4xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    BODY
  }
  return
}
"""


def test_stored_constants() -> None:
    stores = {
        "%z = arith.constant 0.0 : f32\n linalg.yield %z : f32": True,
        "linalg.yield %a : f32": False,
        "%z = arith.addf %a, %a : f32\n linalg.yield %z : f32": False,
    }
    for body, is_constant in stores.items():
        # If the buffer is read, or may be, it is a statement like others.
        with kernel_in(_FILLS.replace("BODY", body)) as found:
            assert len(found.statements) == 1
            assert not found.has_loops
        no_input = (
            _FILLS.replace("BODY", body.replace("%a", "%b"))
            .replace("affine_map<(d0) -> (d0)>, affine", "affine")
            .replace("ins(%x : memref<4xf32>)", "")
            .replace("%a: f32, ", "")
        )
        with kernel_in(no_input) as found:
            # An initialization without a reduction is a loop that no rule matches.
            assert found.has_loops is is_constant
            assert len(found.statements) == (not is_constant)


def test_loops_and_other_operations() -> None:
    text = """func.func @f(%x: memref<4xf32>, %n: index) {
      %c1 = arith.constant 1 : index
      LOOP
      return
    }"""
    with kernel_in(text.replace("LOOP", "scf.for %i = %c1 to %n step %c1 {}")) as found:
        assert found.has_loops
        assert (found.statements, found.temporaries) == ([], [])
    with kernel_in(text.replace("LOOP", "")) as found:
        assert not found.has_loops


_SIZES = """
func.func @f(%x: memref<9x8xf32>, %o: memref<?x?xf32>, %n: index, %m: index) {
  %part = memref.subview %x[%n, 0][%m, %n][1, 1] {tir.kept = array<i64: 0, 1>}
    : memref<9x8xf32> to memref<?x?xf32, strided<[8, 1], offset: ?>>
  %row = memref.subview %x[2, 0][1, %n][1, 1] {tir.kept = array<i64: 1>}
    : memref<9x8xf32> to memref<?xf32, strided<[1], offset: 16>>
  %hidden = memref.cast %o : memref<?x?xf32> to memref<?x?xf32>
  linalg.generic {
    indexing_maps = [MAPS],
    iterator_types = ["parallel", "parallel"]
  } ins(%part, %row : memref<?x?xf32, strided<[8, 1], offset: ?>>,
                      memref<?xf32, strided<[1], offset: 16>>)
    outs(%hidden : memref<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    linalg.yield %a : f32
  }
  return
}
"""


def _maps(*results: str) -> str:
    return ", ".join(f"affine_map<(d0, d1) -> ({r})>" for r in results)


def test_sizes_of_axes() -> None:
    with kernel_in(_SIZES.replace("MAPS", _maps("d0, d1", "d1", "d0, d1"))) as found:
        x, _, n, m = found.block.arguments
        (one,) = found.statements
        assert one.extents == (m, n)
        assert one.inputs == (
            Access(x, (OffsetIndex(AffineForm({0: 1}), n), AffineForm({1: 1}))),
            Access(x, (AffineForm({}, 2), AffineForm({1: 1}))),
        )
    with kernel_in(
        _SIZES.replace("MAPS", _maps("2 * d0, d1 + 1", "d1", "d0, d1"))
    ) as found:
        (one,) = found.statements
        n = found.block.arguments[2]
        size = one.extents[0]
        assert one.extents[1] == n
        assert isinstance(size, ir.Value)
        assert size.owner.name == "memref.dim"
        assert number(size.owner.operands[1], {}) == 0


_PARTS = """
func.func @f(%x: memref<3x5x4xf32>, %o: memref<12x5xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0 floordiv 4, d1, d0 mod 4)>,
                     affine_map<(d0, d1) -> (FIRST, SECOND)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : memref<3x5x4xf32>) outs(%o : memref<12x5xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}
"""


def test_indices_are_forms() -> None:
    with kernel_in(_PARTS.replace("FIRST", "d0").replace("SECOND", "d1")) as found:
        (one,) = found.statements
        assert one.extents == (12, 5)
        assert one.inputs[0].forms == (
            TiledIndex(0, 4, is_inner=False),
            AffineForm({1: 1}),
            TiledIndex(0, 4, is_inner=True),
        )


def test_other_operations_than_on_sizes() -> None:
    text = """func.func @f(%x: memref<4xindex>, %n: index) {
      %c1 = arith.constant 1 : index
      %a = arith.addi %n, %c1 : index
      %v = memref.load %x[%c1] : memref<4xindex>
      %b = arith.addi %v, %a : index
      %c = arith.muli %b, %b : index
      %d = arith.muli %a, %a : index
      memref.store %c, %x[%c1] : memref<4xindex>
      return
    }"""
    with kernel_in(text) as found:
        listed = list(own_operations(found.block))
        beyond = without_size_arithmetic(listed)
        assert [listed.index(operation) for operation in beyond] == [2, 3, 4, 6, 7]

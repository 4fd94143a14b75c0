"""Index maps: shapes, inverses and padding."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.errors import ScheduleError
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import IndexMap, Schedule, TensorIntrin, Var
from tests.tvm.tir.schedule.apply import check_same_results
from tests.tvm.tir.schedule.programs import matmul_relu, scale_shift


def _numbers(terms):
    return [int(t) for t in terms]


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda i, j: (j, i), (3, 5), (5, 3)),
        (lambda i: (i // 4, i % 4), (14,), (4, 4)),
        (lambda i: ((i + 2) // 4, (i + 2) % 4), (14,), (4, 4)),
        (lambda i, j: (i * 5 + j,), (3, 5), (15,)),
        (lambda i, j: (i // 2, 0, j), (3, 5), (2, 1, 5)),
    ],
)
def test_shapes_are_mapped(function, shape, expected):
    assert _numbers(IndexMap.from_func(function).map_shape(shape)) == list(expected)


@pytest.mark.parametrize(
    ("function", "shape", "inverse"),
    [
        (lambda i, j: (j, i), (3, 5), lambda j, i: (i, j)),
        (lambda i: (i // 4, i % 4), (12,), lambda a, b: (a * 4 + b,)),
        (lambda i, j: (i * 5 + j,), (3, 5), lambda a: (a // 5, a % 5)),
        (
            lambda i, j: ((i * 4 + j) // 8, (i * 4 + j) % 8),
            (6, 4),
            lambda a, b: (a * 2 + b // 4, b % 4),
        ),
        (lambda u, i: (i,), (1, 7), lambda i: (0, i)),
    ],
)
def test_inverses_are_found(function, shape, inverse):
    found = IndexMap.from_func(function).inverse(shape)

    assert found.is_equivalent_to(IndexMap.from_func(inverse))


@pytest.mark.parametrize(
    ("function", "shape", "padding"),
    [
        (lambda i: (i // 4, i % 4), 14, "axis0 == 3 and 2 <= axis1"),
        (lambda i: ((i + 3) // 4, (i + 3) % 4), 9, "axis0 == 0 and axis1 < 3"),
        (lambda i: ((i + 3) // 8, (i + 3) % 8), 2, "axis1 < 3"),
        (lambda i: (i // 4, i % 4), 12, "T.bool(False)"),
        (lambda i: (i // 4, i % 4), Var("n", "int64"), "axis0 == n // 4 and n % 4"),
    ],
)
def test_padding_is_where_nothing_is_mapped_to(function, shape, padding):
    index_map = IndexMap.from_func(function)

    _, found = index_map.non_surjective_inverse([shape])

    assert str(found).startswith(padding)


@pytest.mark.parametrize(
    "function",
    [lambda i, j: (i, j // 2), lambda i, j: (i,), lambda i, j: (i + j, j)],
)
def test_maps_that_lose_indices_have_no_inverse(function):
    with pytest.raises(ValueError, match="a sum of iter splits of the initial ones"):
        IndexMap.from_func(function).inverse([4, 6])


def test_an_inverse_that_is_given_is_believed():
    index_map = IndexMap.from_func(lambda i: (i // 4, i % 4), None, lambda a, b: (b,))

    assert str(index_map.inverse([14])) == "lambda a, b: (b,)"


def test_padding_has_no_place_in_an_inverse():
    with pytest.raises(ValueError, match="not bijective"):
        IndexMap.from_func(lambda i: (i // 4, i % 4)).inverse([14])


_FACTORS = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3)


@settings(max_examples=25)
@given(factors=_FACTORS, order=st.permutations(range(3)), size=st.integers(1, 20))
def test_inverses_undo_maps(factors, order, size):
    def split(i):
        digits = []
        for factor in factors:
            digits.append(i % factor)
            i = i // factor
        listed = [*digits, i]
        return [listed[n] for n in order if n < len(listed)] + listed[3:]

    index_map = IndexMap.from_func(split)
    if len(index_map.final_indices) != len(factors) + 1:
        return
    back, _ = index_map.non_surjective_inverse([size])

    for i in range(size):
        assert _numbers(back.map_indices(index_map.map_indices([i]))) == [i]


def test_arrays_are_laid_out_anew():
    array = np.arange(10).reshape(5, 2)

    made = IndexMap.from_func(lambda i, j: (j, i // 2, i % 2)).map_ndarray(array)

    np.testing.assert_array_equal(
        made.numpy(), [[[0, 2], [4, 6], [8, 0]], [[1, 3], [5, 7], [9, 0]]]
    )


def test_functions_of_any_number_of_indices():
    index_map = IndexMap.from_func(lambda *i, last: (last, *i), ndim=3)

    assert str(index_map) == "lambda i_0, i_1, last: (last, i_0, i_1,)"
    assert IndexMap.from_text(str(index_map)).is_equivalent_to(index_map)


def test_separators_stand_between_indices():
    index_map, separators = IndexMap.from_func_with_separators(
        lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j)
    )

    assert separators == [1]
    assert len(index_map.final_indices) == 2
    with pytest.raises(ValueError, match="from_func_with_separators"):
        IndexMap.from_func(lambda i: (i, IndexMap.AXIS_SEPARATOR))


def test_texts_are_functions_of_indices_alone():
    with pytest.raises(ValueError, match="expected a function of indices"):
        IndexMap.from_text("lambda i: [x for x in (i,)]")


def test_a_layout_with_separators_sets_them():
    schedule = Schedule(scale_shift)

    schedule.transform_layout("B", "B", lambda i, j: (j, IndexMap.AXIS_SEPARATOR, i))

    (buffer,) = schedule.get(schedule.get_block("root")).alloc_buffers
    assert _numbers(buffer.shape) == [10, 12]
    assert buffer.axis_separators == (1,)


def test_a_buffer_that_is_an_argument_is_laid_out_too():
    schedule = Schedule(scale_shift)

    schedule.transform_layout("B", ("read", 0), lambda i, j: (j, i))

    program = schedule.mod["main"]
    buffer = program.buffer_map[program.params[0]]
    assert _numbers(buffer.shape) == [10, 12]
    assert _numbers(scale_shift.buffer_map[scale_shift.params[0]].shape) == [12, 10]
    schedule.mod.verify()


def test_what_a_caller_pads_is_assumed():
    schedule = Schedule(scale_shift)

    schedule.transform_layout(
        "B", "A", lambda i, j: (i, j // 4, j % 4), pad_value=lambda i, a, b: 7.0
    )

    text = schedule.mod["main"].script()
    assert "T.assume(not (v_axis1 == 2 and 2 <= v_axis2) or A[" in text


def test_padding_of_another_type_is_refused():
    with pytest.raises(ScheduleError, match="of type float32, but the padding is"):
        Schedule(scale_shift).transform_layout(
            "B", "B", lambda i, j: (i, j // 4, j % 4), pad_value=7
        )


def test_intrinsics_are_found_by_name():
    TensorIntrin.register("test.same", scale_shift, scale_shift, override=True)

    found = TensorIntrin.get("test.same")

    assert_structural_equal(found.desc, scale_shift)
    with pytest.raises(ValueError, match="registered already"):
        TensorIntrin.register("test.same", scale_shift, scale_shift)
    with pytest.raises(ValueError, match=r"no tensor intrinsic `test\.sane`"):
        TensorIntrin.get("test.sane")
    assert TensorIntrin.get("test.sane", allow_missing=True) is None


def test_intrinsics_do_what_they_describe():
    with pytest.raises(ValueError, match=r"description has 3 parameters, .* 2"):
        TensorIntrin(matmul_relu, scale_shift)


def test_refused_primitives_leave_variables_valid():
    schedule = Schedule(scale_shift)
    i, j = schedule.get_loops("B")
    _, inner = schedule.split(i, [None, 5])

    with pytest.raises(ScheduleError):
        schedule.blockize(inner)

    schedule.parallel(j)
    assert "T.parallel(10)" in schedule.mod["main"].script()


def test_padding_stands_in_a_block_of_its_own_where_a_block_writes_more():
    @T.prim_func
    def twice(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
        B = T.alloc_buffer((10,))
        for i in range(10):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                B[vi] = A[vi] * 2.0
                C[vi] = A[vi] + 1.0

    schedule = Schedule(twice)
    schedule.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=0.0)

    assert schedule.get(schedule.get_loops("B")[0]).extent == 10
    assert schedule.get(schedule.get_block("buffer_B_padding")).name_hint
    check_same_results(twice, schedule.mod["main"])


@T.prim_func
def _running(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((10,))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0)) + A[vi]
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi]


@T.prim_func
def _in_order(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((10,))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.opaque(10, i)
            B[vi] = A[vi] + 1.0
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi]


@pytest.mark.parametrize("before", [_running, _in_order], ids=["running", "in order"])
def test_padding_stands_beside_blocks_whose_points_are_in_order(before):
    schedule = Schedule(before)
    schedule.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=0.0)

    assert schedule.get(schedule.get_loops("B")[0]).extent == 10
    assert schedule.get(schedule.get_block("buffer_B_padding")).name_hint
    check_same_results(before, schedule.mod["main"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            prim.const(0, "int8"),
            r"elements of type float32, but the padding is .* int8",
        ),
        (
            lambda i, j, k: Buffer((1,), "float32", "X")[0],
            "expected only constants and the new",
        ),
    ],
)
def test_padding_that_does_not_fit_is_refused(value, message):
    schedule = Schedule(scale_shift)

    with pytest.raises(ScheduleError, match=message):
        schedule.transform_layout(
            "B", "B", lambda i, j: (i, j // 4, j % 4), pad_value=value
        )


_DECLARED = """
@T.prim_func
def main(X: T.Buffer((4, 2), "float32"), C: T.Buffer((4, 2), "float32"), D: T.Buffer((4, 2), "float32")):
    A = T.alloc_buffer((4, 2))
    for i, j in T.grid(4, 2):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = X[vi, vj]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:2])
            T.writes(C[vi, 0:2])
            for j in range(2):
                C[vi, j] = T.float32(1)
    for i, j in T.grid(4, 2):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize(
    "layout", [lambda i, j: (i * 2 + j,), lambda i, j: (j, i)], ids=["flat", "permuted"]
)
def test_declared_regions_of_another_layout_are_gone(layout):
    schedule = Schedule(from_source(_DECLARED))
    schedule.transform_layout("A", ("write", 0), layout)

    text = schedule.mod.script()
    assert "T.reads()" in text
    assert from_source(text).script() == text

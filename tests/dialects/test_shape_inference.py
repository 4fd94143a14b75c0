"""Shape inference against numpy or brute force, for static and symbolic sizes."""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim, symbol
from relax_mlir.symbolic import constraints

Values: TypeAlias = dict[str, int]
Sizes: TypeAlias = tuple[int, ...]

few = settings(derandomize=True, deadline=None, max_examples=60)
many = settings(derandomize=True, deadline=None, max_examples=200)

INT_MAX = 2**63 - 1
n, m, k = map(symbol, "nmk")
small_shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def named(shape: Sequence[int]) -> tuple[tuple[Dim, ...], Values]:
    """Replaces every size but 1 by a symbol; equal sizes by the same symbol."""
    env = {f"s{size}": size for size in shape}
    return tuple(size if size == 1 else symbol(f"s{size}") for size in shape), env


def evaluated(shape: Sequence[Dim], env: Values) -> Sizes:
    return tuple(shapes.evaluate(dim, env) for dim in shape)


def outcome(rule: Callable[..., Sequence[Dim]], *args: object) -> object:
    """The result of a function, or ValueError if it raises one."""
    try:
        return tuple(rule(*args))
    except ValueError:
        return ValueError


class TestBroadcast:
    @many
    @given(st.lists(small_shapes, max_size=3))
    def test_numbers_as_numpy(self, sizes: list[Sizes]) -> None:
        assert outcome(shapes.broadcast, *sizes) == outcome(np.broadcast_shapes, *sizes)

    @few
    @given(st.lists(small_shapes, max_size=3), st.integers(0, 3))
    def test_symbols_as_numbers(self, sizes: list[Sizes], kept: int) -> None:
        expected = outcome(np.broadcast_shapes, *sizes)
        symbolic = [s if i == kept else named(s)[0] for i, s in enumerate(sizes)]
        env = named([size for shape in sizes for size in shape])[1]
        if expected is not ValueError:
            assert evaluated(shapes.broadcast(*symbolic), env) == expected

    def test_a_number_constrains_a_symbol(self) -> None:
        assert shapes.broadcast((n, 1), (4, m)) == (4, m)
        assert shapes.broadcast((n,), (m,), (4,)) == (4,)
        assert shapes.broadcast((n,), (0,)) == (0,)

    def test_what_is_1_at_most_is_stretched(self) -> None:
        """Such as the last row of n, which does not exist for n = 0."""
        last = shapes.minimum(n, 1)
        with constraints.collect() as assumed:
            assert shapes.broadcast((n, 2), (last, 2)) == (n, 2)
            assert shapes.broadcast((last,), (n,)) == (n,)
            assert not assumed
            assert shapes.broadcast((m,), (last,)) == (m,)
        assert list(map(str, assumed)) == ["1 == min(n, 1)"]

    def test_errors_tell_both(self) -> None:
        with pytest.raises(ValueError, match=r"\[n, 2\] and \[m, 2\]: .*`n`, got `m`"):
            shapes.broadcast((n, 2), (m, 2))
        with pytest.raises(ValueError, match=r"\[2, 3\] and \[4\]: .*`3`, got `4`"):
            shapes.broadcast((2, 3), (4,))
        with pytest.raises(ValueError, match=r"expected `4`, got `2\*n \+ 3`"):
            shapes.broadcast((4,), (2 * n + 3,))

    @many
    @given(small_shapes, small_shapes)
    def test_into_one_is_what_does_not_stretch_it(self, a: Sizes, b: Sizes) -> None:
        fits = outcome(np.broadcast_shapes, a, b) == tuple(a)
        expected = tuple(a) if fits else ValueError

        assert outcome(shapes.broadcast_into, a, b) == expected

    def test_a_number_constrains_what_it_is_broadcast_into(self) -> None:
        assert shapes.broadcast_into((n, m), (4,), (1, 1)) == (n, 4)
        assert shapes.broadcast_into((n, 1), (m,)) == (n, 1)  # m is constrained to 1
        with pytest.raises(ValueError, match=r"\[m, n\] to \[n\]: expected rank 1"):
            shapes.broadcast_into((n,), (m, n))

    def test_unify(self) -> None:
        assert shapes.unify(n, 4) == shapes.unify(4, n) == 4
        assert shapes.unify(n, n) == n
        assert shapes.unify(shapes.floordiv(n, 2) + shapes.ceildiv(n, 2), n) == (
            shapes.floordiv(n, 2) + shapes.ceildiv(n, 2)
        )
        for a, b in [(2, 3), (n, m), (n + 2, 1)]:
            with pytest.raises(ValueError, match="sizes differ"):
                shapes.unify(a, b)


class TestAxes:
    @pytest.mark.parametrize(("axis", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
    def test_check_axis(self, axis: int, expected: int) -> None:
        assert shapes.check_axis(axis, 3) == expected

    @pytest.mark.parametrize(("axis", "rank"), [(3, 3), (-4, 3), (0, 0)])
    def test_check_axis_names_the_range(self, axis: int, rank: int) -> None:
        with pytest.raises(ValueError, match=f"got {axis}"):
            shapes.check_axis(axis, rank)

    def test_normalize_axes_keeps_order(self) -> None:
        assert shapes.normalize_axes([-1, 0], 3) == (2, 0)
        with pytest.raises(ValueError, match="axes repeat"):
            shapes.normalize_axes([-1, 2], 3)

    @few
    @given(small_shapes, st.data(), st.booleans())
    def test_reduced_as_numpy(
        self, sizes: Sizes, data: st.DataObject, keepdims: bool
    ) -> None:
        axes = data.draw(st.lists(st.integers(0, 3), unique=True, max_size=4))
        assume(all(axis < len(sizes) for axis in axes))
        expected = np.zeros(sizes).sum(axis=tuple(axes), keepdims=keepdims).shape
        symbolic, env = named(sizes)

        assert shapes.reduced(sizes, axes, keepdims) == expected
        assert evaluated(shapes.reduced(symbolic, axes, keepdims), env) == expected

    @few
    @given(small_shapes, st.randoms(use_true_random=False))
    def test_transposed_as_numpy(self, sizes: Sizes, random: Random) -> None:
        perm = random.sample(range(len(sizes)), len(sizes))
        assert (
            shapes.transposed(sizes, perm) == np.transpose(np.zeros(sizes), perm).shape
        )

    @pytest.mark.parametrize("perm", [(0,), (0, 0), (0, 2), (-1, 0)])
    def test_bad_permutations(self, perm: Sizes) -> None:
        with pytest.raises(ValueError, match="each of 0 to 1 once"):
            shapes.transposed((n, m), perm)

    @few
    @given(st.lists(small_shapes, min_size=1, max_size=3), st.integers(-5, 4))
    def test_concat_as_numpy(self, sizes: list[Sizes], axis: int) -> None:
        expected = outcome(lambda: np.concatenate([*map(np.zeros, sizes)], axis).shape)
        env = named([size for shape in sizes for size in shape])[1]

        assert outcome(shapes.concat, sizes, axis) == expected
        if expected is not ValueError:
            result = shapes.concat([named(shape)[0] for shape in sizes], axis)
            assert evaluated(result, env) == expected

    def test_concat_of_nothing(self) -> None:
        with pytest.raises(ValueError, match="cannot concatenate nothing"):
            shapes.concat([], 0)


class TestReshape:
    @many
    @given(small_shapes, st.lists(st.integers(-1, 6), max_size=4), st.booleans())
    def test_numbers_as_numpy(
        self, sizes: Sizes, target: list[int], allowzero: bool
    ) -> None:
        def by_numpy() -> Sizes:
            if not allowzero and len(sizes) < len(target) and 0 in target[len(sizes) :]:
                raise ValueError
            copied = [
                sizes[i] if size == 0 and not allowzero else size
                for i, size in enumerate(target)
            ]
            return np.reshape(np.zeros(sizes), copied).shape

        expected = outcome(by_numpy)

        assert outcome(shapes.reshape, sizes, target, allowzero) == expected

    @few
    @given(st.lists(st.integers(1, 6), max_size=3), st.data())
    def test_symbols_as_numbers(self, sizes: list[int], data: st.DataObject) -> None:
        """-1 is inferred from products of symbols."""
        factors: list[Dim] = [2, n, m + 1, *named(sizes)[0]]
        env = {**named(sizes)[1], "n": 3, "m": 4}
        order = data.draw(st.permutations(factors))
        cut = data.draw(st.integers(0, len(order)))
        target = [shapes.product(order[:cut]), -1]

        result = shapes.reshape(factors, target)

        assert result == (target[0], shapes.product(order[cut:]))
        array = np.zeros(evaluated(factors, env))
        assert np.reshape(array, evaluated(target, env)).shape == evaluated(result, env)

    def test_symbols(self) -> None:
        assert shapes.reshape((n, 4, m), (0, 2, -1)) == (n, 2, 2 * m)
        assert shapes.reshape((n * m, 6), (n, -1, 3)) == (n, 2 * m, 3)
        assert shapes.reshape((n, 12), (0, 0)) == (n, 12)
        assert shapes.reshape((n, 4), (2, 6)) == (2, 6)  # n is constrained to 3
        assert shapes.reshape((n, 4), (-1,)) == (4 * n,)

    @pytest.mark.parametrize(
        ("shape", "target", "message"),
        [
            ((n, 3), (-1, 2), r"\[n, 3\] to \[-1, 2\]: .*multiple of `2`.*got `3\*n`"),
            ((2, 3), (4,), "expected 6 elements, got 4"),
            ((2 * n,), (2, n + 1), "elements"),
            ((4,), (-1, -1), "one -1 at most, got 2"),
            ((4,), (-2, 2), "sizes of -1 or more"),
            ((0, 4), (0, -1), "ambiguous"),
            ((4,), (4, 0), "cannot copy size 1: expected a rank over 1, got 1"),
        ],
    )
    def test_errors(
        self, shape: Sequence[Dim], target: Sequence[Dim], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            shapes.reshape(shape, target)


class TestMatmul:
    @many
    @given(small_shapes, small_shapes, st.integers(0, 3))
    def test_numbers_as_numpy(self, a: Sizes, b: Sizes, inner: int) -> None:
        a = (*a[:-1], inner)
        b = (*b[:-2], inner, *b[-1:]) if len(b) > 1 else b
        expected = outcome(lambda: np.matmul(np.zeros(a), np.zeros(b)).shape)

        assert outcome(shapes.matmul, a, b) == expected
        if expected is not ValueError:
            result = shapes.matmul(named(a)[0], named(b)[0])
            assert evaluated(result, named([*a, *b])[1]) == expected

    def test_symbols(self) -> None:
        assert shapes.matmul((k, n, 4), (4, m)) == (k, n, m)
        assert shapes.matmul((n,), (n,)) == ()
        assert shapes.matmul((n, m), (8, 3)) == (n, 3)  # m is constrained to 8
        with pytest.raises(
            ValueError, match=r"\[2, n\] and \[m, 2\]: inner .*`n`, got `m`"
        ):
            shapes.matmul((2, n), (m, 2))
        with pytest.raises(ValueError, match="scalar"):
            shapes.matmul((), (2,))


bounds_of_slices = st.integers(-9, 9) | st.sampled_from(
    [INT_MAX, -INT_MAX - 1, 2**31 - 1]
)
steps = st.integers(-4, 4).filter(bool)


class TestSlices:
    @many
    @given(st.integers(0, 8), bounds_of_slices, bounds_of_slices, steps)
    def test_numbers_as_python(
        self, size: int, start: int, stop: int, step: int
    ) -> None:
        expected = range(size)[start:stop:step]
        begin = shapes.slice_begin(size, start, step)

        assert shapes.slice_size(size, start, stop, step) == len(expected)
        assert not expected or begin == expected[0]

    @many
    @given(st.integers(0, 12), bounds_of_slices, bounds_of_slices, steps)
    def test_symbols_as_numbers(
        self, size: int, start: int, stop: int, step: int
    ) -> None:
        length = shapes.slice_size(n, start, stop, step)
        begin = shapes.slice_begin(n, start, step)

        for value in {size, 0, 1, 9}:
            expected = shapes.slice_size(value, start, stop, step)
            assert shapes.evaluate(length, {"n": value}) == expected
            first = shapes.slice_begin(value, start, step)
            assert shapes.evaluate(begin, {"n": value}) == first

    @pytest.mark.parametrize(
        ("start", "stop", "step", "expected"),
        [
            (0, INT_MAX, 1, n),
            (-1, -INT_MAX, -1, n),
            (0, 5, 1, shapes.minimum(n, 5)),
            (1, INT_MAX, 1, shapes.maximum(n - 1, 0)),
            (0, -1, 1, shapes.maximum(n - 1, 0)),
            (-3, INT_MAX, 1, shapes.minimum(n, 3)),
            (0, INT_MAX, 2, shapes.ceildiv(n, 2)),
            (0, m, 1, shapes.minimum(n, m)),
            (n - 1, n, 1, shapes.minimum(n, 1)),
            (n - 2, n - 1, 1, shapes.maximum(n - 1, 0) - shapes.maximum(n - 2, 0)),
            (5, 2, 1, 0),
        ],
    )
    def test_lengths(self, start: Dim, stop: Dim, step: int, expected: Dim) -> None:
        assert shapes.slice_size(n, start, stop, step) == expected

    def test_parts_make_the_whole(self) -> None:
        parts = [shapes.slice_size(n, 0, 3, 1), shapes.slice_size(n, 3, INT_MAX, 1)]
        assert shapes.concat([(part,) for part in parts], 0) == (n,)

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="any number but 0, got 0"):
            shapes.slice_size(n, 0, 1, 0)

    @pytest.mark.parametrize("step", [1, 2, -1])
    def test_a_bound_may_count_from_either_end(self, step: int) -> None:
        bounds = (m - 3, INT_MAX) if step > 0 else (m - 3, -INT_MAX)
        length = shapes.slice_size(n, *bounds, step)
        begin = shapes.slice_begin(n, bounds[0], step)

        for size in range(6):
            for start in range(-3, 5):
                env, stop = {"n": size, "m": start + 3}, None
                expected = range(size)[start:stop:step]
                assert shapes.evaluate(length, env) == len(expected)
                assert not expected or shapes.evaluate(begin, env) == expected[0]

    @few
    @given(st.integers(0, 20), st.integers(1, 6))
    def test_split_as_chunks(self, size: int, parts: int) -> None:
        chunk = math.ceil(size / parts)
        expected = [*[chunk] * (parts - 1), size - chunk * (parts - 1)]
        if expected[-1] < 0:
            with pytest.raises(ValueError, match="nothing is left"):
                shapes.split_sizes(size, parts)
            return
        assert list(shapes.split_sizes(size, parts)) == expected
        assert list(evaluated(shapes.split_sizes(n, parts), {"n": size})) == expected

    def test_split(self) -> None:
        assert shapes.split_sizes(6 * n, 3) == (2 * n, 2 * n, 2 * n)
        assert shapes.split_sizes(n + 4, (n, 4)) == (n, 4)
        assert shapes.split_sizes(n, (2, 4)) == (2, 4)  # n is constrained to 6
        with pytest.raises(ValueError, match="add up: expected `7`, got `6`"):
            shapes.split_sizes(7, (2, 4))
        with pytest.raises(ValueError, match=r"negative: got \[9, -2\]"):
            shapes.split_sizes(7, (9, -2))
        with pytest.raises(ValueError, match="expected 1 or more, got 0"):
            shapes.split_sizes(7, 0)

    @few
    @given(small_shapes, st.data())
    def test_pad_as_numpy(self, sizes: Sizes, data: st.DataObject) -> None:
        count = 2 * len(sizes)
        pads = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        widths = list(zip(pads[: len(sizes)], pads[len(sizes) :], strict=True))
        expected = np.pad(np.zeros(sizes), widths).shape if sizes else ()
        symbolic, env = named(sizes)

        assert shapes.pad_shape(sizes, pads) == expected
        assert evaluated(shapes.pad_shape(symbolic, pads), env) == expected

    def test_pad(self) -> None:
        assert shapes.pad_shape((n, 4), (1, 0, m, -2)) == (n + m + 1, 2)
        with pytest.raises(ValueError, match="expected 4, got 2"):
            shapes.pad_shape((n, 4), (1, 1))
        with pytest.raises(ValueError, match="remove too much"):
            shapes.pad_shape((2,), (-1, -2))


def count_windows(size: int, window: range, stride: int, begin: int, end: int) -> int:
    """The number of windows that fit the padded input, by enumeration."""
    starts = range(0, begin + size + end, stride)
    return sum(start + window[-1] < begin + size + end for start in starts)


windows = st.fixed_dictionaries(
    {
        "kernel": st.integers(1, 5),
        "stride": st.integers(1, 4),
        "dilation": st.integers(1, 3),
    }
)
pads = st.integers(0, 3)


class TestWindows:
    @many
    @given(st.integers(0, 20), windows, pads, pads)
    def test_conv_output_counts_windows(
        self, size: int, window: dict[str, int], begin: int, end: int
    ) -> None:
        reach = range(0, window["kernel"] * window["dilation"], window["dilation"])
        expected = count_windows(size, reach, window["stride"], begin, end)
        if expected == 0:
            with pytest.raises(ValueError, match="window does not fit"):
                shapes.conv_output(size, **window, pad_begin=begin, pad_end=end)
            return
        result = shapes.conv_output(n, **window, pad_begin=begin, pad_end=end)

        assert (
            shapes.conv_output(size, **window, pad_begin=begin, pad_end=end) == expected
        )
        assert shapes.evaluate(result, {"n": size}) == expected

    @many
    @given(st.integers(0, 20), windows, pads, pads)
    def test_pool_output_with_ceil_mode_lets_windows_overhang(
        self, size: int, window: dict[str, int], begin: int, end: int
    ) -> None:
        stride = window["stride"]
        reach = (window["kernel"] - 1) * window["dilation"] + 1
        assume(reach <= begin + size + end)
        starts = range(0, begin + size, stride)  # and not in the padding at the end
        covered = begin + size + end - reach + stride
        expected = sum(start < covered for start in starts)
        args = {**window, "pad_begin": begin, "pad_end": end}
        result = shapes.pool_output(n, **args, ceil_mode=True)

        assert shapes.pool_output(size, **args, ceil_mode=True) == expected
        assert shapes.evaluate(result, {"n": size}) == expected
        assert shapes.pool_output(n, **args, ceil_mode=False) == shapes.conv_output(
            n, **args
        )

    @many
    @given(st.integers(1, 12), windows, st.tuples(pads, pads), st.integers(0, 3))
    def test_conv_transpose_output_is_undone_by_conv_output(
        self, size: int, window: dict[str, int], pads: tuple[int, int], extra: int
    ) -> None:
        extra %= window["stride"]
        last = (size - 1) * window["stride"] + (window["kernel"] - 1) * window[
            "dilation"
        ]
        expected = last + 1 + extra - sum(pads)
        assume(expected >= 0)
        result = shapes.conv_transpose_output(
            n, **window, pads=pads, output_padding=extra
        )
        back = shapes.conv_output(result, **window, pad_begin=pads[0], pad_end=pads[1])

        assert back == n
        assert shapes.evaluate(result, {"n": size}) == expected

    @many
    @given(st.integers(1, 20), windows)
    def test_auto_pad_keeps_the_size_over_the_stride(
        self, size: int, window: dict[str, int]
    ) -> None:
        upper = shapes.auto_pad(size, **window, mode="SAME_UPPER")
        begin, end = upper
        total = shapes.evaluate(begin + end, {})
        wanted = math.ceil(size / window["stride"])

        assert (
            shapes.conv_output(size, **window, pad_begin=begin, pad_end=end) == wanted
        )
        assert shapes.is_known_le(begin, end)
        assert shapes.is_known_le(end, begin + 1)
        if total:  # the least that does
            reach = range(0, window["kernel"] * window["dilation"], window["dilation"])
            assert count_windows(size, reach, window["stride"], 0, total - 1) < wanted
        assert shapes.auto_pad(size, **window, mode="SAME_LOWER") == (end, begin)
        symbolic = shapes.auto_pad(n, **window, mode="SAME_UPPER")
        assert evaluated(symbolic, {"n": size}) == upper

    def test_symbols(self) -> None:
        assert shapes.conv_output(n, 3, 1, 1, 1, 1) == n
        assert shapes.conv_output(n, 3, 2, 1, 1, 1) == shapes.ceildiv(n, 2)
        assert shapes.pool_output(n, 2, 2, 1, 0, 0, False) == shapes.floordiv(n, 2)
        assert shapes.pool_output(n, 2, 2, 1, 0, 0, True) == shapes.ceildiv(n, 2)
        assert shapes.auto_pad(n, 4, 1, 1, "SAME_UPPER") == (1, 2)
        assert shapes.auto_pad(n, 4, 3, 1, "VALID") == (0, 0)
        assert shapes.conv_transpose_output(n, 4, 2, 1, (1, 1), 0) == 2 * n

    def test_same_padding_of_symbols_keeps_the_size_over_the_stride(self) -> None:
        for kernel, stride in [(3, 2), (7, 4), (5, 3)]:
            begin, end = shapes.auto_pad(n, kernel, stride, 1, "SAME_LOWER")
            result = shapes.conv_output(n, kernel, stride, 1, begin, end)
            assert result == shapes.ceildiv(n, stride)

    def test_strides_in_a_row_join(self) -> None:
        dim: Dim = n
        for _ in range(5):
            dim = shapes.conv_output(dim, 3, 2, 1, 1, 1)
        assert str(dim) == "ceildiv(n, 32)"

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="expected 5 elements, got 4"):
            shapes.conv_output(4, 3, 1, 2, 0, 0)
        with pytest.raises(ValueError, match="expected 1 or more, got 0 and 1"):
            shapes.conv_output(n, 3, 0, 1, 0, 0)
        with pytest.raises(ValueError, match="pads remove too much"):
            shapes.conv_transpose_output(1, 2, 1, 1, (2, 2), 0)
        with pytest.raises(ValueError, match="got 'NOTSET'"):
            shapes.auto_pad(n, 3, 2, 1, "NOTSET")  # pyright: ignore[reportArgumentType]

"""Symbolic slice sizes and bounds against Python's slices."""

from itertools import product

import pytest

from relax_mlir.dialects.slice_shapes import slice_begin, slice_size
from relax_mlir.symbolic.symbols import evaluate, parse

_STEPS = (-3, -2, -1, 1, 2, 3)
_STOPS = ("0", "2", "-2", "n-1", "n-3", "m", "-m")
_STARTS = (*_STOPS, "-1", "-3", "n", "n-2", "n+1", "-n", "m-2", "-m-1", "n//2")
_POINTS = [
    {"n": n, "m": m} for n, m in [(0, 0), (0, 2), (1, 3), (2, 1), (4, 3), (5, 0)]
]
_INT32, _INT64 = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize("start", _STARTS)
def test_symbolic_bounds(start: str) -> None:
    for stop, step in product(_STOPS, (-2, -1, 1, 3)):
        length = slice_size(parse("n"), parse(start), parse(stop), step)
        begin = slice_begin(parse("n"), parse(start), step)
        for values in _POINTS:
            n, *ends = (evaluate(parse(b), values) for b in ("n", start, stop))
            expected = range(n)[ends[0] : ends[1] : step]
            assert evaluate(length, values) == len(expected), (stop, step, values)
            first = evaluate(begin, values)
            assert first == expected[0] if expected else -1 <= first <= n


def test_static_bounds() -> None:
    for size, start, stop, step in product(
        range(4), range(-5, 6), range(-5, 6), _STEPS
    ):
        expected = range(size)[start:stop:step]
        assert slice_size(size, start, stop, step) == len(expected)
        if expected:
            assert slice_begin(size, start, step) == expected[0]


@pytest.mark.parametrize("step", [-2, 1])
@pytest.mark.parametrize("far", [_INT32, _INT32 + 1, _INT64, -_INT32, -_INT64 - 1])
def test_far_bounds_are_past_any_end(far: int, step: int) -> None:
    for near, n in product((0, 2, -1), range(5)):
        expected = range(n)[near:far:step]
        assert evaluate(slice_size(parse("n"), near, far, step), {"n": n}) == len(
            expected
        )
        expected = range(n)[far:near:step]
        assert evaluate(slice_size(parse("n"), far, near, step), {"n": n}) == len(
            expected
        )
        begin = evaluate(slice_begin(parse("n"), far, step), {"n": n})
        assert begin == expected[0] if expected else -1 <= begin <= n


@pytest.mark.parametrize(
    ("start", "stop", "step", "length", "begin"),
    [
        (0, _INT32, 1, "n", "0"),
        (_INT32 - 1, _INT64, 1, "max(n - 2147483646, 0)", "min(n, 2147483646)"),
        (_INT32, _INT64, 1, "0", "n"),
        (0, -_INT32, 1, "0", "0"),
        (-_INT32, _INT64, 1, "n", "0"),
        (1 - _INT32, _INT64, 1, "min(n, 2147483646)", "max(n - 2147483646, 0)"),
        (_INT64, -_INT32, -1, "n", "n - 1"),
        (-_INT32, _INT64, -1, "0", "min(n, 0) - 1"),
        (-1, -_INT64, -1, "n", "n - 1"),
        (0, 5, 1, "min(n, 5)", "0"),
        (-3, _INT64, 1, "min(n, 3)", "max(n - 3, 0)"),
        (0, _INT64, 2, "ceildiv(n, 2)", "0"),
        (_INT64, -_INT64, -2, "ceildiv(n, 2)", "n - 1"),
        (0, "m", 1, "min(m, n)", "0"),
        ("n - 1", "n", 1, "min(n, 1)", "max(n, 1) - 1"),
        ("n - 2", "n", 1, "min(n, 2)", "max(n, 2) - 2"),
        ("m", _INT64, 1, "max(m, n) - m", "min(m, n)"),
    ],
)
def test_size_and_begin_are_simplified(
    start: int | str, stop: int | str, step: int, length: str, begin: str
) -> None:
    first, end = (parse(b) if isinstance(b, str) else b for b in (start, stop))

    assert slice_size(parse("n"), first, end, step) == parse(length)
    assert slice_begin(parse("n"), first, step) == parse(begin)


def test_zero_step_raises() -> None:
    for function in (lambda: slice_size(4, 0, 2, 0), lambda: slice_begin(4, 0, 0)):
        with pytest.raises(ValueError, match="any number but 0"):
            function()

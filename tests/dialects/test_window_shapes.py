"""Window shape arithmetic against enumeration of all windows."""

from itertools import product

import pytest

from relax_mlir.dialects.window_shapes import (
    AutoPad,
    auto_pad,
    conv_output,
    conv_transpose_output,
    pool_output,
)
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.symbols import evaluate, parse

_WINDOWS = list(
    product(range(1, 4), range(1, 4), range(1, 4))
)  # kernel, stride, dilation
_PADS = [(0, 0), (0, 1), (2, 0), (1, 2), (3, 3)]
N = parse("n")


def starts(size: int, window: tuple[int, int, int], pads: tuple[int, int]) -> list[int]:
    """Starts of the windows that fit the padded input."""
    kernel, stride, dilation = window
    padded = size + sum(pads)
    places = range(0, padded, stride)
    return [s for s in places if s + (kernel - 1) * dilation < padded]


@pytest.mark.parametrize("window", _WINDOWS)
def test_conv_output(window: tuple[int, int, int]) -> None:
    for pads in _PADS:
        symbolic = conv_output(N, *window, *pads)
        assert pool_output(N, *window, *pads, False) == symbolic
        for size in range(8):
            expected = len(starts(size, window, pads))
            if expected:
                assert conv_output(size, *window, *pads) == expected
                assert evaluate(symbolic, {"n": size}) == expected
            else:
                with pytest.raises(ValueError, match="window does not fit"):
                    conv_output(size, *window, *pads)


@pytest.mark.parametrize("window", _WINDOWS)
def test_pool_output_with_ceil_mode(window: tuple[int, int, int]) -> None:
    kernel, stride, dilation = window
    for pads in _PADS:
        symbolic = pool_output(N, *window, *pads, True)
        for size in range(8):
            fitting = starts(size, window, pads)
            if not fitting:
                with pytest.raises(ValueError, match="window does not fit"):
                    pool_output(size, *window, *pads, True)
                continue
            last = fitting[-1]
            is_covered = last + (kernel - 1) * dilation + 1 == size + sum(pads)
            # One more, which begins in the input or in the low padding; none that begins in
            # the high padding.
            more = [] if is_covered else [last + stride]
            expected = sum(start < size + pads[0] for start in [*fitting, *more])
            assert pool_output(size, *window, *pads, True) == expected
            assert evaluate(symbolic, {"n": size}) == expected


@pytest.mark.parametrize("window", _WINDOWS)
def test_conv_transpose_output_inverts_conv_output(
    window: tuple[int, int, int],
) -> None:
    kernel, stride, dilation = window
    for pads, extra in product(_PADS, range(2)):
        for size in range(1, 6):
            whole = (size - 1) * stride + (kernel - 1) * dilation + 1
            expected = whole + extra - sum(pads)
            if expected < 0:
                with pytest.raises(ValueError, match="pads remove too much"):
                    conv_transpose_output(size, *window, pads, extra)
                continue
            assert conv_transpose_output(size, *window, pads, extra) == expected
            symbolic = conv_transpose_output(N, *window, pads, extra)
            assert evaluate(symbolic, {"n": size}) == expected
            if not extra:
                assert len(starts(expected, window, pads)) == size


@pytest.mark.parametrize("window", _WINDOWS)
def test_auto_pad_is_minimal(
    window: tuple[int, int, int],
) -> None:
    upper = auto_pad(N, *window, "SAME_UPPER")
    lower = auto_pad(N, *window, "SAME_LOWER")
    assert auto_pad(N, *window, "VALID") == (0, 0)
    for size in range(1, 9):
        wanted = -(-size // window[1])
        total = next(
            t for t in range(30) if len(starts(size, window, (0, t))) >= wanted
        )
        expected = (total // 2, total - total // 2)
        assert auto_pad(size, *window, "SAME_UPPER") == expected
        assert auto_pad(size, *window, "SAME_LOWER") == expected[::-1]
        assert tuple(evaluate(pad, {"n": size}) for pad in upper) == expected
        assert tuple(evaluate(pad, {"n": size}) for pad in lower) == expected[::-1]


@pytest.mark.parametrize(
    ("kernel", "pads", "least"), [(3, (0, 0), 3), (3, (1, 0), 2), (5, (2, 3), None)]
)
def test_window_constrains_the_size(
    kernel: int, pads: tuple[int, int], least: int | None
) -> None:
    expected = [] if least is None else [f"n >= {least}"]
    for function in (
        lambda: conv_output(N, kernel, 2, 1, *pads),
        lambda: pool_output(N, kernel, 2, 1, *pads, True),
    ):
        with constraints.collect() as found:
            function()
        assert [str(constraint) for constraint in found] == expected


def test_conv_transpose_pads_constrain_the_size() -> None:
    with constraints.collect() as found:
        conv_transpose_output(N, 3, 2, 1, (2, 2), 0)
        conv_transpose_output(N, 3, 2, 1, (1, 0), 0)
    assert [str(constraint) for constraint in found] == ["2*n >= 3"]


@pytest.mark.parametrize(("stride", "dilation"), [(0, 1), (1, 0), (-1, 1), (1, -1)])
def test_strides_and_dilations_are_positive(stride: int, dilation: int) -> None:
    for function in (
        lambda: conv_output(9, 2, stride, dilation, 0, 0),
        lambda: pool_output(9, 2, stride, dilation, 0, 0, True),
        lambda: conv_transpose_output(9, 2, stride, dilation, (0, 0), 0),
        lambda: auto_pad(9, 2, stride, dilation, "VALID"),
    ):
        with pytest.raises(ValueError, match=f"1 or more, got {stride} and {dilation}"):
            function()


def test_unknown_auto_pad_raises() -> None:
    unknown: AutoPad = "SAME"  # pyright: ignore[reportAssignmentType]
    with pytest.raises(ValueError, match=r"bad auto_pad: .*got 'SAME'"):
        auto_pad(9, 2, 1, 1, unknown)

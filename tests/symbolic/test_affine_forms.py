"""Affine forms against their values at all points of small domains."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax_mlir.symbolic.affine_forms import AffineForm

_VARIABLES: Sequence[str] = ("a", "b", "c")
_DOMAIN: list[dict[str, int]] = [
    dict(zip(_VARIABLES, values, strict=True))
    for values in itertools.product(range(-1, 3), repeat=3)
]

_coefficients = st.dictionaries(st.sampled_from(_VARIABLES), st.integers(-3, 3))
forms = st.builds(
    lambda listed, constant: AffineForm(
        {v: n for v, n in listed.items() if n}, constant
    ),
    _coefficients,
    st.integers(-3, 3),
)

ranges = st.tuples(st.integers(-2, 1), st.integers(0, 3)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


def at(form: AffineForm[str], point: Mapping[str, int]) -> int:
    return form.constant + sum(n * point[v] for v, n in form.coefficients.items())


def points_of(spans: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(span + 1) for span in spans))


def are_distinct(coefficients: Sequence[int], spans: Sequence[int], rest: int) -> bool:
    """Whether no two points have sums that differ by ``rest`` or less."""
    sums = sorted(
        sum(n * x for n, x in zip(coefficients, point, strict=True))
        for point in points_of(spans)
    )
    return all(b - a > rest for a, b in itertools.pairwise(sums))


@given(forms, forms, st.integers(-3, 3))
def test_sums_and_multiples(
    form: AffineForm[str], other: AffineForm[str], factor: int
) -> None:
    total, moved = form.plus(other, factor), form.shifted(factor)
    for point in _DOMAIN:
        assert at(total, point) == at(form, point) + factor * at(other, point)
        assert at(form.plus(other), point) == at(form, point) + at(other, point)
        assert at(form.scaled(factor), point) == factor * at(form, point)
        assert at(moved, point) == at(form, point) + factor
    for made in (total, form.scaled(factor)):
        assert all(made.coefficients.values())


@given(forms, forms)
def test_products_have_a_constant_factor(
    form: AffineForm[str], other: AffineForm[str]
) -> None:
    product = form.times(other)

    assert (product is None) is bool(form.coefficients and other.coefficients)
    if product is not None:
        for point in _DOMAIN:
            assert at(product, point) == at(form, point) * at(other, point)


@given(forms, st.fixed_dictionaries(dict.fromkeys(_VARIABLES, forms)))
def test_substitution(form: AffineForm[str], of: dict[str, AffineForm[str]]) -> None:
    result = form.substituted(of.__getitem__)
    for point in _DOMAIN:
        inner = {variable: at(of[variable], point) for variable in _VARIABLES}
        assert at(result, point) == at(form, inner)


@given(forms, st.fixed_dictionaries(dict.fromkeys(_VARIABLES, ranges)))
def test_ranges(form: AffineForm[str], of: dict[str, tuple[int, int]]) -> None:
    spans = [range(low, high + 1) for low, high in of.values()]
    points = [dict(zip(of, p, strict=True)) for p in itertools.product(*spans)]
    made = [at(form, point) for point in points]
    assert form.range_over(of.__getitem__) == (min(made), max(made))


def test_ranges_without_bounds() -> None:
    form = AffineForm({"a": 2, "b": -3}, 1)
    half = {"a": (1, None), "b": (None, 4)}
    assert form.range_over(half.__getitem__) == (-9, None)
    assert form.range_over(lambda v: (None, 0)) == (None, None)


def test_restriction_keeps_the_constant() -> None:
    form = AffineForm({"a": 2, "b": -1, "c": 3}, 5)
    assert form.restricted("ac".__contains__) == AffineForm({"a": 2, "c": 3}, 5)


@pytest.mark.parametrize(
    ("form", "variable"),
    [
        (AffineForm({"a": 1}), "a"),
        (AffineForm({"a": 1}, 1), None),
        (AffineForm({"a": 2}), None),
        (AffineForm({"a": 1, "b": 1}), None),
        (AffineForm[str]({}), None),
    ],
)
def test_single_variable(form: AffineForm[str], variable: str | None) -> None:
    assert form.single_variable == variable


@pytest.mark.parametrize(
    "coefficients", [*itertools.product((-4, -2, 1, 2, 3), repeat=2)]
)
def test_forms_that_determine_two_variables(coefficients: tuple[int, int]) -> None:
    form = AffineForm(dict(zip("ab", coefficients, strict=True)))
    for spans in itertools.product(range(4), repeat=2):
        of = dict(zip("ab", spans, strict=True))
        for rest in range(3):
            found = form.determines_variables(of.__getitem__, rest)
            exact = are_distinct(coefficients, spans, rest)
            assert exact or not found, (coefficients, spans, rest)
            if not found and exact:
                # Conservative where variables have one value, or digits are interleaved.
                assert 0 in spans or not _are_nested(coefficients, spans, rest)


def _are_nested(coefficients: Sequence[int], spans: Sequence[int], rest: int) -> bool:
    reach = rest
    for n, span in sorted(
        (abs(n), s) for n, s in zip(coefficients, spans, strict=True)
    ):
        if n <= reach:
            return False
        reach += n * span
    return True


@pytest.mark.parametrize(
    ("spans", "determined", "with_every_span"),
    [
        ((3, 2, 1), True, True),
        ((3, 2, None), True, False),
        ((3, None, 1), False, False),
        ((None, 2, 1), False, False),
        ((4, 2, 1), False, False),
        ((3, 3, 1), False, False),
    ],
)
def test_unknown_spans(
    spans: tuple[int | None, ...], determined: bool, with_every_span: bool
) -> None:
    form = AffineForm({"c": -12, "a": 1, "b": 4})
    of = dict(zip("abc", spans, strict=True))
    assert form.determines_variables(of.__getitem__) is determined
    every = form.determines_variables(of.__getitem__, needs_every_span=True)
    assert every is with_every_span


def test_an_unknown_rest() -> None:
    form = AffineForm({"a": 100})
    assert not form.determines_variables(lambda v: 1, None)
    assert form.determines_variables(lambda v: 1, 99)
    assert AffineForm[str]({}).determines_variables(lambda v: 1, None)


def test_the_value_of_a_constant_determines_no_variable() -> None:
    def unknown(variable: str) -> None:
        raise AssertionError(variable)

    constant = AffineForm[str]({}, 3)
    assert constant.determines_variables(unknown, 7, needs_every_span=True)

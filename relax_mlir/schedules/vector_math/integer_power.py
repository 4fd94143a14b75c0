"""Integer powers of integers, by repeated squaring."""

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.schedules.vector_math.lanes import (
    Lanes,
    any_lane,
    constant_lanes,
    on_lanes,
    select,
)

__all__ = ["ipowi", "power_by_squaring"]


@on_lanes
def ipowi(base: Lanes, exponent: Lanes) -> Lanes:
    """base**exponent of integers of one type, modulo 2 to the power of its width.

    Exact where the result fits. A negative exponent gives 1 / base**-exponent rounded
    towards zero: +-1 for bases +-1, else 0; for base 0 as well, as tir's x / 0 is 0
    (numpy raises an error). 0**0 is 1. The exponent is signed.

    A constant exponent is unrolled to about log2(exponent) multiplications; others take a
    loop until no lane has exponent bits left.

    Source: D. E. Knuth, The Art of Computer Programming, volume 2, section 4.6.3.
    """
    known = constant_lanes(exponent.value)
    if known is not None and known >= 0:
        return power_by_squaring(base, int(known))
    is_negative = exponent < 0
    power = _power(base, select(is_negative, exponent.like(0), exponent))
    unit = select((exponent & 1).equal(1), base, base.like(1))
    reciprocal = select(base.equal(1) | base.equal(-1), unit, 0)
    return select(is_negative, reciprocal, power)


def power_by_squaring(base: Lanes, exponent: int) -> Lanes:
    """base**exponent for a constant exponent >= 0, by repeated squaring."""
    if exponent == 0:
        return base.like(1)
    result = base
    for bit in f"{exponent:b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * base
    return result


def _power(base: Lanes, exponent: Lanes) -> Lanes:
    """base**exponent for exponents >= 0, by repeated squaring in a loop."""

    def has_bits(_: Lanes, __: Lanes, rest: Lanes) -> Lanes:
        return rest > 0

    def square(result: Lanes, factor: Lanes, rest: Lanes) -> Sequence[Lanes]:
        result = select((rest & 1).equal(1), result * factor, result)
        return result, factor * factor, rest >> 1

    return _while_any(has_bits, square, (base.like(1), base, exponent))[0]


def _while_any(
    condition: Callable[..., Lanes],
    step: Callable[..., Sequence[Lanes]],
    start: Sequence[Lanes],
) -> list[Lanes]:
    """``scf.while``: repeats ``step`` while ``condition`` holds in any lane."""
    types = [lanes.value.type for lanes in start]
    loop = ir.Operation.create(
        "scf.while", results=types, operands=[s.value for s in start], regions=2
    )
    location = ir.Location.current
    before, after = (
        ir.Block.create_at_start(region, types, [location] * len(types))
        for region in loop.regions
    )
    with ir.InsertionPoint(before):
        goes_on = any_lane(condition(*map(Lanes, before.arguments)))
        ir.Operation.create("scf.condition", operands=[goes_on, *before.arguments])
    with ir.InsertionPoint(after):
        values = [lanes.value for lanes in step(*map(Lanes, after.arguments))]
        ir.Operation.create("scf.yield", operands=values)
    return [Lanes(result) for result in loop.results]

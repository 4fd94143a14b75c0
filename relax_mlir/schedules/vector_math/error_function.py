"""The error function of f32 lanes."""

from relax_mlir.schedules.vector_math.exponential import exp2_normal
from relax_mlir.schedules.vector_math.lanes import Lanes, fma, horner, on_lanes, select

__all__ = ["erf"]

# erf(x) = x + x*p(x*x) for |x| <= 0.92, relative error 2**-30.
_SMALL = (
    0.128379166,
    -0.376126289,
    0.112836257,
    -0.0268557332,
    0.00519241532,
    -0.000804993906,
    7.99736954e-05,
)
# log2(1 - erf(x)) for 0.92 <= x <= 4, error 2**-29 relative to erf(x).
_LARGE = (
    -0.000282325724,
    -1.62689197,
    -0.919259667,
    -0.149941742,
    0.032066837,
    -0.00439051213,
    0.000282690249,
)


@on_lanes
def erf(x: Lanes) -> Lanes:
    """The error function."""
    a = abs(x).at_most(4.0)
    small = fma(a, horner(a * a, _SMALL), a)
    large = 1.0 - exp2_normal(horner(a, _LARGE))
    return select(a < 0.92, small, large).flip(x.sign())

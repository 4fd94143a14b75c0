"""The error function of f32 lanes."""

from relax_mlir.schedules.vector_math.exponential import ROUND, exp2_fraction
from relax_mlir.schedules.vector_math.lanes import Lanes, fma, horner, on_lanes, select

__all__ = ["erf"]


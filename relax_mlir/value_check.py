"""Compare what a module computes before and after every pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir import reference
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.errors import UnsupportedError, VerificationError
from relax_mlir.module import IRModule
from relax_mlir.pipeline import Instrument, Step

__all__ = [
    "ValueCheck",
    "difference",
    "first_values",
    "random_array",
    "random_inputs",
]

Run = Callable[..., tuple[np.ndarray, ...]]


@dataclass
class ValueCheck(Instrument):
    """Runs the module after every pass and names the first that changes its results.

    Args:
        run: runs a module from any level.
        inputs: what to run it on.
        expected: what the module computed before the first pass.
        tolerance: largest difference, relative to the scale of an output; a pass may
            change the order of a sum.
    """

    run: Run
    inputs: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]
    tolerance: float = 1e-4
    checked: list[str] = field(default_factory=list)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Run and compare.

        Raises:
            VerificationError: an output differs.
        """
        actual = self.run(module, *self.inputs)
        for number, (ours, theirs) in enumerate(
            zip(actual, self.expected, strict=True)
        ):
            error = difference(ours, theirs)
            if error > self.tolerance:
                raise VerificationError(
                    f"{step}: changes output {number}: expected a difference of at most "
                    f"{self.tolerance:g} of its scale, got {error:.3g}"
                )
        self.checked.append(step.name)


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the scale of ``expected``; infinite for other shapes."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.size == 0:
        return 0.0
    ours, theirs = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(1e-30, float(np.abs(theirs[finite]).max()))
    return float(np.abs(ours[finite] - theirs[finite]).max()) / scale


def first_values(
    module: IRModule, run: Run, inputs: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """What the module computes by its definition; compiled where it has none."""
    try:
        return reference.run(module, *inputs)
    except UnsupportedError:
        return run(module, *inputs)


def random_inputs(
    module: IRModule, *, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> list[np.ndarray]:
    """Inputs that fit ``main``: normal floats, small integers.

    Args:
        sizes: of symbolic dimensions; 3, 4, 5, ... in order of appearance by default.
    """
    rng = np.random.default_rng(seed)
    known = dict(sizes or {})
    return [
        _draw(rng, parameter.type, known)
        for parameter in module.function("main").arguments
    ]


def _draw(
    rng: np.random.Generator, type_: ir.RankedTensorType, known: dict[str, int]
) -> np.ndarray:
    for dim in tensors.shape_of(type_):
        for name in () if isinstance(dim, int) else shapes.symbols_of(dim):
            known.setdefault(name, 3 + len(known))
    shape = [shapes.evaluate(dim, known) for dim in tensors.shape_of(type_)]
    return random_array(rng, shape, tensors.dtype_of(type_))


def random_array(
    rng: np.random.Generator, shape: Sequence[int], dtype: DType
) -> np.ndarray:
    """Normal floats, or integers that are 0 or 1: indices of anything."""
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 2, shape).astype(dtype.numpy)

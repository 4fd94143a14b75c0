"""Compare what a module computes before and after every pass."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.errors import RelaxError, VerificationError
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.pipeline import Instrument, Step
from relax_mlir.runtime.elements import random_elements
from relax_mlir.size_constraints import constraints_of

__all__ = [
    "ValueCheck",
    "difference",
    "fitting_inputs",
    "random_array",
    "random_inputs",
]

_MOST = 1000  # that is tried for a size

Run = Callable[[IRModule], tuple[np.ndarray, ...]]


@dataclass
class ValueCheck(Instrument):
    """Runs the module after every pass and names the first that changes its results.

    Args:
        run: runs a module from any level on the same inputs, with as few other passes as
            there can be: what they do wrong would be blamed on the first.
        expected: what the module computed before the first pass.
        route: names of the passes that ``run`` takes a module through.
        tolerance: largest difference, relative to the scale of an output; a pass may
            change the order of a sum.
    """

    run: Run
    expected: Sequence[np.ndarray]
    route: Callable[[IRModule], Sequence[str]]
    tolerance: float = 1e-4
    checked: list[str] = field(default_factory=list)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Run and compare.

        Raises:
            VerificationError: an output differs.
        """
        actual = self.run(module)
        for number, (ours, theirs) in enumerate(
            zip(actual, self.expected, strict=True)
        ):
            error = difference(ours, theirs)
            if not error <= self.tolerance:  # also where it is no number
                raise VerificationError(
                    f"{step}: changes output {number}: expected a difference of at most "
                    f"{self.tolerance:g} of its scale, got {error:.3g}{self._others(module)}"
                )
        self.checked.append(step.name)

    def _others(self, module: IRModule) -> str:
        names = ", ".join(f"`{name}`" for name in self.route(module))
        return f". Or one of those is wrong that run it from there: {names}" * bool(
            names
        )


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the scale of ``expected``.

    Infinite for other shapes or types, and where only one of the two is finite.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.size == 0:
        return 0.0
    ours, theirs = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(1e-30, float(np.abs(theirs[finite]).max()))
    return float(np.abs(ours[finite] - theirs[finite]).max()) / scale


def fitting_inputs(module: IRModule) -> list[np.ndarray]:
    """Random inputs of small sizes that all operations of ``main`` accept.

    Raises:
        RelaxError: no such sizes were found.
    """
    bound = module.clone()
    with module.context, ir.Location.unknown():
        BindSizes().run(bound)
    return random_inputs(bound, sizes=_fitting_sizes(bound))


def _fitting_sizes(module: IRModule) -> dict[str, int]:
    checks = constraints_of(module)
    types = module.func_op("main").type.inputs
    dims = [d for t in types for d in tensors.shape_of(t)]
    names = list(dict.fromkeys(n for d in dims for n in shapes.symbols_of(d)))
    steps = [1, 0] if len(names) > 1 else [0]
    for first, step in itertools.product(range(3, _MOST), steps):
        sizes = {name: first + step * i for i, name in enumerate(names)}
        if all(c.substituted(sizes).is_certain for c in checks):
            return sizes
    listed = ", ".join(f"`{c}`" for c in checks)
    raise RelaxError(
        f"`main`: no sizes below {_MOST} were found that fit {listed}. Hint: give inputs."
    )


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
        for parameter in module.func_op("main").arguments
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
    return random_elements(rng, shape, dtype.name)

"""Differential verification: compares the outputs of a module after every pass."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.errors import RelaxError, VerificationError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.pipeline import Instrument, Step
from relax_mlir.runtime.elements import random_elements

__all__ = [
    "DifferentialCheck",
    "inputs_of_valid_sizes",
    "random_array",
    "random_inputs",
    "relative_difference",
]

_MAX_SIZE = 1000  # largest candidate for a symbolic size

Run = Callable[[IRModule], tuple[np.ndarray, ...]]


@dataclass
class DifferentialCheck(Instrument):
    """Differential verification of passes: reports the first that changes results.

    Args:
        run: executes a module of any level on fixed inputs, with as few lowering passes
            as possible, since their bugs would be attributed to the checked pass.
        expected: outputs of the module before the first pass.
        route: names of the lowering passes that ``run`` applies to a module.
        tolerance: largest difference relative to the scale of an output; a pass may
            reorder the terms of a sum.
        checked: names of the passes that have been verified.
    """

    run: Run
    expected: Sequence[np.ndarray]
    route: Callable[[IRModule], Sequence[str]]
    tolerance: float = 1e-4
    checked: list[str] = field(default_factory=list)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Execute the module and compare its outputs.

        Raises:
            VerificationError: an output differs.
        """
        actual = self.run(module)
        for number, (ours, theirs) in enumerate(
            zip(actual, self.expected, strict=True)
        ):
            error = relative_difference(ours, theirs)
            if not error <= self.tolerance:  # also fails for NaN
                raise VerificationError(
                    f"{step}: changes output {number}: expected a difference of at most "
                    f"{self.tolerance:g} of its scale, got {error:.3g}"
                    f"{self._other_suspects(module)}"
                )
        self.checked.append(step.name)

    def _other_suspects(self, module: IRModule) -> str:
        names = ", ".join(f"`{name}`" for name in self.route(module))
        return f". Or the fault is in a lowering pass of the check: {names}" * bool(
            names
        )


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest absolute difference, relative to the largest finite value of ``expected``.

    Infinite if shapes or element types differ, or if non-finite values do.
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


def inputs_of_valid_sizes(module: IRModule) -> list[np.ndarray]:
    """Random inputs of small sizes that satisfy the size constraints of ``main``.

    Raises:
        RelaxError: no sizes were found that satisfy them.
    """
    bound = module.clone()
    with module.context, ir.Location.unknown():
        BindSizes().run(bound)
    return random_inputs(bound, sizes=_valid_sizes(bound))


def _valid_sizes(module: IRModule) -> dict[str, int]:
    """Small values of the symbolic sizes that satisfy all size constraints."""
    constraints = constraints_of(module)
    types = module.func_op("main").type.inputs
    dims = [d for t in types for d in tensors.shape_of(t)]
    names = list(dict.fromkeys(n for d in dims for n in shapes.symbols_of(d)))
    steps = [1, 0] if len(names) > 1 else [0]
    for first, step in itertools.product(range(3, _MAX_SIZE), steps):
        sizes = {name: first + step * i for i, name in enumerate(names)}
        if all(c.substituted(sizes).is_certain for c in constraints):
            return sizes
    listed = ", ".join(f"`{c}`" for c in constraints)
    raise RelaxError(
        f"`main`: no sizes below {_MAX_SIZE} were found that satisfy {listed}. "
        "Hint: pass `inputs`."
    )


def random_inputs(
    module: IRModule, *, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> list[np.ndarray]:
    """Random inputs of ``main``: normally distributed floats, small integers.

    Args:
        sizes: values of symbolic sizes; 3, 4, 5, ... in order of appearance by default.
    """
    rng = np.random.default_rng(seed)
    known = dict(sizes or {})
    return [
        _random_input(rng, parameter.type, known)
        for parameter in module.func_op("main").arguments
    ]


def _random_input(
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
    """Normally distributed floats, or integers 0 and 1, which are valid as indices."""
    return random_elements(rng, shape, dtype.name)

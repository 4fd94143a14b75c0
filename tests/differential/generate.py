"""Draws random well-typed modules from the operators' own cases."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.dialects.dtypes import from_numpy
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.errors import RelaxError
from relax_mlir.symbolic import constraints
from relax_mlir.testing import case_module
from relax_mlir.tvm.relax.transform import LegalizeOps
from tests.differential.programs import PROGRAMS, Program
from tests.differential.recipes import (
    Group,
    Input,
    Recipe,
    Step,
    build,
    difference,
    operators,
    with_noise,
)

__all__ = ["generate", "recipe_of"]

_MOST_STEPS = 12
_MOST_ELEMENTS = 40_000  # of one value
_LARGEST = 1e4  # of what operators read and give
_NOISE = 1e-5  # relative to the scale of each result
_MOST_NOISE = 1e-3  # what that may grow to
_RECURRENT = {"relax.nn_rnn", "relax.nn_gru", "relax.nn_lstm"}
# Drawn as often as all others together: they make one value of parts of others.
_MOVEMENT = (
    *("relax.strided_slice", "relax.slice_scatter", "relax.concat", "relax.split"),
    *("relax.scatter_elements", "relax.scatter_nd", "relax.take", "relax.gather_nd"),
    *("relax.gather_elements", "relax.index_put", "relax.nn_pad", "relax.reshape"),
    *("relax.permute_dims", "relax.broadcast_to", "relax.where", "relax.tile"),
    *("relax.stack", "relax.flip", "relax.repeat", "relax.squeeze"),
)

# Results may share memory with an operand, in TVM too.
_VIEWS = {
    *("relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims"),
    *("relax.split", "relax.memory_view"),
}


def generate(rng: random.Random, wanted: str | None = None) -> Recipe:
    """A module that computes finite numbers.

    Args:
        wanted: an operation, or a program, that it begins with; drawn otherwise. A program
            that overwrites an operand comes once there is a result that it fits.
    """
    draft = _Draft(rng)
    count = rng.randint(2, _MOST_STEPS)
    for _ in range(20 * count):
        if len(draft.steps) == count:
            break
        name = _draw_operator(rng)
        if wanted is not None and wanted not in (step.name for step in draft.steps):
            overwrites = wanted in PROGRAMS and PROGRAMS[wanted].over
            name = wanted if not overwrites or rng.random() < 0.3 else name
        if name in PROGRAMS:
            draft.try_program(name)
        else:
            draft.try_step(operators()[name])
    return draft.finish()


def recipe_of(seed: int) -> tuple[Recipe, random.Random]:
    """The module of a seed, and what draws its settings.

    As many seeds as there are operators and programs give one with each.
    """
    rng = random.Random(seed)
    names = [*sorted(operators()), *PROGRAMS]
    return generate(rng, names[seed % len(names)]), rng


def _draw_operator(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(list(PROGRAMS))
    if rng.random() < 0.4:
        return rng.choice(_MOVEMENT)
    return rng.choice(list(operators()))


@cache
def _module_of(op: type[RelaxOperation], case: Case) -> IRModule:
    return case_module(op, case)


class _Draft:
    """A module under construction, with the values of everything in it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        # A value is an input, (0, number), or a result, (1, number).
        self.values: list[tuple[int, int]] = []
        self.arrays: dict[tuple[int, int], np.ndarray] = {}
        # The same with rounding errors, far larger than real ones.
        self.noisy: dict[tuple[int, int], np.ndarray] = {}
        self.reads: list[tuple[Any, ...]] = []
        self.makers: dict[tuple[int, int], str] = {}
        self.overwritten: set[tuple[int, int]] = set()
        self.result_count = 0

    def try_step(self, op: type[RelaxOperation]) -> None:
        """Add an operator with operands that are there, or new inputs, if it can be."""
        case = self.rng.choice(op.cases)
        seed = self.rng.getrandbits(32)
        drawn = case.random_inputs(seed)
        inputs, values = list(self.inputs), list(self.values)
        added: list[tuple[int, int]] = []
        operands = [
            tuple(self._operand(case, a, added) for a in given)
            if isinstance(given, list)
            else self._operand(case, given, added)
            for given in drawn
        ]
        results = self._results(op, case, operands)
        if results is None:
            return self._undo(inputs, values, added)
        self._add(op.OPERATION_NAME, case.attrs, operands, results)
        return None

    def _add(
        self,
        name: str,
        attrs: Mapping[str, Any],
        operands: Sequence[Any],
        results: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self.reads.append(tuple(operands))
        self.steps.append(Step(name, (), dict(attrs), len(results)))
        for exact, noisy in results:
            place = (1, self.result_count)
            self.result_count += 1
            self.values.append(place)
            self.arrays[place], self.noisy[place] = exact, noisy
            self.makers[place] = name

    def try_program(self, name: str) -> None:
        """Add a call of a program, if there are operands for it."""
        program = PROGRAMS[name]
        inputs, values = list(self.inputs), list(self.values)
        added: list[tuple[int, int]] = []
        operands: list[tuple[int, int]] = []
        sizes: dict[str, int] = {}
        for number in range(len(program.operands)):
            place = self._program_operand(program, number, sizes, operands, added)
            if place is None:
                return self._undo(inputs, values, added)
            operands.append(place)
            shape = self.arrays[place].shape
            sizes.update(zip(program.operands[number], shape, strict=True))
        exact, noisy = (
            program.compute(*(of[p] for p in operands))
            for of in (self.arrays, self.noisy)
        )
        pairs = self._with_noise(exact, noisy)
        if not all(_is_tame(e, n, is_edge=False) for e, n in pairs):
            return self._undo(inputs, values, added)
        self._add(name, {}, operands, pairs)
        overwritten = {operands[place] for place in program.over if place >= 0}
        self.overwritten |= overwritten
        self.values = [p for p in self.values if p not in overwritten]
        return None

    def _program_operand(
        self,
        program: Program,
        number: int,
        sizes: Mapping[str, int],
        others: Sequence[tuple[int, int]],
        added: list[tuple[int, int]],
    ) -> tuple[int, int] | None:
        named = program.operands[number]
        is_index = program.indices is not None and program.indices[0] == number
        is_overwritten = number in program.over
        fitting = [
            place
            for place in self.values
            if not is_index
            and place not in others
            and _is_matrix(self.arrays[place], named, sizes)
            and (not is_overwritten or self._may_be_overwritten(place))
        ]
        if fitting and (is_overwritten or self.rng.random() < 0.85):
            return fitting[-1] if self.rng.random() < 0.5 else self.rng.choice(fitting)
        if is_overwritten:
            return None
        shape = [sizes.get(s, self.rng.randint(1, 9)) for s in named]
        rng = np.random.default_rng(self.rng.getrandbits(32))
        if program.indices is not None and is_index:
            array = rng.integers(0, sizes[program.indices[1]], shape)
        else:
            array = rng.standard_normal(shape, np.float32)
        return self._new_input(array, added)

    def _may_be_overwritten(self, place: tuple[int, int]) -> bool:
        """Whether a value is the result of an operator, unread, and no view of another."""
        is_read = any(
            place == p or (isinstance(p[0], tuple) and place in p)
            for operands in self.reads
            for p in operands
        )
        return place[0] == 1 and not is_read and self.makers[place] not in _VIEWS

    def _operand(
        self, case: Case, drawn: np.ndarray, added: list[tuple[int, int]]
    ) -> tuple[int, int]:
        fitting = [p for p in self.values if self._fits(case, self.arrays[p], drawn)]
        if fitting and self.rng.random() < 0.85:
            # The newest most of all, so that operators follow each other.
            return fitting[-1] if self.rng.random() < 0.5 else self.rng.choice(fitting)
        return self._new_input(drawn, added)

    def _new_input(
        self, array: np.ndarray, added: list[tuple[int, int]]
    ) -> tuple[int, int]:
        place = (0, len(self.inputs))
        is_constant = self.rng.random() < 0.25 and array.size > 0
        self.inputs.append(Input(array, is_constant))
        self.values.append(place)
        self.arrays[place] = self.noisy[place] = array
        added.append(place)
        return place

    def _undo(
        self,
        inputs: list[Input],
        values: list[tuple[int, int]],
        added: Sequence[tuple[int, int]],
    ) -> None:
        """Take back the inputs that were added for a step."""
        self.inputs, self.values = inputs, values
        for place in added:
            del self.arrays[place], self.noisy[place]

    @staticmethod
    def _fits(case: Case, array: np.ndarray, drawn: np.ndarray) -> bool:
        if array.shape != drawn.shape or array.dtype != drawn.dtype:
            return False
        if not array.size or array.dtype == np.bool_:
            return True
        wide = array.astype(np.float64)
        if not np.isfinite(wide).all():
            return isinstance(case, EdgeCase)
        is_symmetric = case.low == -case.high
        if is_symmetric and from_numpy(array.dtype).is_float:
            return bool(np.abs(wide).max() <= _LARGEST)
        return bool(wide.min() >= case.low and wide.max() <= case.high)

    def _results(
        self, op: type[RelaxOperation], case: Case, operands: Sequence[Any]
    ) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """What the operator gives, exactly and with noise; None if it is not to be used."""
        places = [p for o in operands for p in (o if isinstance(o[0], tuple) else (o,))]
        module = _module_of(op, case)
        try:
            exact, noisy = (
                [np.asarray(r) for r in reference.run(module, *(of[p] for p in places))]
                for of in (self.arrays, self.noisy)
            )
        except RelaxError:
            return None
        pairs = self._with_noise(exact, noisy)
        is_edge = isinstance(case, EdgeCase)
        return pairs if all(_is_tame(e, n, is_edge) for e, n in pairs) else None

    def _with_noise(
        self, exact: Sequence[np.ndarray], noisy: Sequence[np.ndarray]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        seed = self.rng.getrandbits(32)
        noisy = [with_noise(r, _NOISE, np.random.default_rng(seed)) for r in noisy]
        return list(zip(exact, noisy, strict=True))

    def finish(self) -> Recipe:
        """The module: what nothing reads is returned."""
        numbers = {p: p[1] + (len(self.inputs) if p[0] else 0) for p in self.arrays}
        steps = [
            replace(
                step,
                operands=tuple(
                    tuple(numbers[p] for p in o)
                    if isinstance(o[0], tuple)
                    else numbers[o]
                    for o in reads
                ),
            )
            for step, reads in zip(self.steps, self.reads, strict=True)
        ]
        read = {v for s in steps for v in s.reads}
        results = [n for p, n in numbers.items() if p[0]]
        lost = {numbers[p] for p in self.overwritten}
        outputs = [
            v
            for v in results
            if v not in read or (v not in lost and self.rng.random() < 0.15)
        ]
        recipe = Recipe(tuple(self.inputs), tuple(steps), tuple(outputs))
        recipe = replace(recipe, groups=tuple(self._groups(recipe)))
        return self._with_symbols(recipe)

    def _groups(self, recipe: Recipe) -> list[Group]:
        groups: list[Group] = []
        number = 0
        while number < len(recipe.steps):
            last = min(number + self.rng.randint(0, 3), len(recipe.steps) - 1)
            kind = self.rng.choice(("", "", "", "call", "then", "else"))
            group = Group(kind, number, last)
            if kind and len(recipe.results_of(group)) == 1:
                groups += [] if _overwrites_argument(recipe, group) else [group]
            number = last + 1
        return groups

    def _with_symbols(self, recipe: Recipe) -> Recipe:
        """The same with open sizes, where the operators allow it."""
        sizes = sorted(
            {n for i in recipe.inputs if not i.is_constant for n in i.array.shape}
        )
        if not sizes or self.rng.random() < 0.6:
            return recipe
        chosen = self.rng.sample(sizes, min(len(sizes), self.rng.randint(1, 2)))
        inputs = [
            given
            if given.is_constant
            else replace(
                given,
                symbols={
                    axis: f"n{size}"
                    for axis, size in enumerate(given.array.shape)
                    if size in chosen and size > 1
                },
            )
            for given in recipe.inputs
        ]
        opened = replace(recipe, inputs=tuple(inputs))
        try:
            module = build(opened)
            with constraints.collect() as assumed:
                build(opened)
            if any(step.name in _RECURRENT for step in opened.steps):
                LegalizeOps()(module)  # hidden sizes must be numbers
        except (RelaxError, ValueError, TypeError):
            return recipe  # an attribute says the size, for instance
        drawn = {f"n{size}": size for size in chosen}
        # Some operators say that an open size is 1, for instance, and leave others alone.
        fits = all(check.substituted(drawn).is_certain for check in assumed)
        return opened if fits else recipe


def _overwrites_argument(recipe: Recipe, group: Group) -> bool:
    """Whether steps of a function would write over what it is called with."""
    begin = recipe.first_result(group.first)
    steps = recipe.steps[group.first : group.last + 1]
    return group.kind == "call" and any(v < begin for s in steps for v in s.overwrites)


def _is_matrix(
    array: np.ndarray, named: Sequence[str], sizes: Mapping[str, int]
) -> bool:
    """Whether an array can be an operand of these sizes, as far as they are known."""
    if array.dtype != np.float32 or array.ndim != len(named) or not array.size:
        return False
    if any(sizes.get(s, n) != n for s, n in zip(named, array.shape, strict=True)):
        return False
    return bool(np.isfinite(array).all() and np.abs(array).max() <= _LARGEST)


def _is_tame(exact: np.ndarray, noisy: np.ndarray, is_edge: bool) -> bool:
    """Whether a result is small, finite, and rounding errors change little of it."""
    if exact.size > _MOST_ELEMENTS or exact.shape != noisy.shape:
        return False
    if not from_numpy(exact.dtype).is_float:
        return np.array_equal(exact, noisy)
    if not is_edge and not np.isfinite(exact.astype(np.float64)).all():
        return False
    finite = np.abs(exact[np.isfinite(exact)].astype(np.float64))
    is_small = not finite.size or finite.max() <= _LARGEST
    return is_small and difference(noisy, exact) <= _MOST_NOISE

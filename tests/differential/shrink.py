"""Makes a failing module smaller, as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential.recipes import Definition, Input, Recipe, Step
from tests.helpers.fuzzing import shrink_greedily

__all__ = ["shrink"]


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool]) -> Recipe:
    """The smallest module that greedy removal finds, and that still fails."""
    return shrink_greedily(recipe, _smaller, lambda r: r.is_sound and fails(r))


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes with less in them, those that lack most first."""
    for output in recipe.outputs if len(recipe.outputs) > 1 else ():
        yield _without_dead(replace(recipe, outputs=(output,), groups=()))
    for number, step in enumerate(recipe.steps):
        begin = recipe.first_result(number)
        given = set(range(begin, begin + step.results))
        results = [v for v in step.reads if v >= len(recipe.inputs)]
        if results and given.intersection(recipe.outputs):
            kept = [v for v in recipe.outputs if v not in given]
            outputs = tuple(dict.fromkeys([*kept, *results]))
            yield _without_dead(replace(recipe, outputs=outputs, groups=()))
    if recipe.groups:
        yield replace(recipe, groups=())
    for number in reversed(range(len(recipe.steps))):
        yield _without_dead(_without_step(recipe, number))
    if any(i.symbols for i in recipe.inputs):
        plain = tuple(replace(i, symbols={}) for i in recipe.inputs)
        yield replace(recipe, inputs=plain)
    if any(i.is_constant for i in recipe.inputs):
        plain = tuple(replace(i, is_constant=False) for i in recipe.inputs)
        yield replace(recipe, inputs=plain)


def _without_step(recipe: Recipe, number: int) -> Recipe:
    """The same with the results of a step as inputs."""
    values = Definition(recipe).evaluate()
    begin = recipe.first_result(number)
    count = recipe.steps[number].results
    old = len(recipe.inputs)
    moved = {begin + i: old + i for i in range(count)}

    def renumbered(value: int) -> int:
        if value < old or value >= begin + count:
            return value
        return moved.get(value, value + count)

    added = tuple(Input(values[v]) for v in moved)
    steps = (*recipe.steps[:number], *recipe.steps[number + 1 :])
    return Recipe(
        (*recipe.inputs, *added),
        tuple(_with_operands(s, renumbered) for s in steps),
        tuple(map(renumbered, recipe.outputs)),
    )


def _without_dead(recipe: Recipe) -> Recipe:
    """The same without steps and inputs that no output depends on."""
    needed = set(recipe.outputs)
    kept: list[int] = []
    for number in reversed(range(len(recipe.steps))):
        begin = recipe.first_result(number)
        step = recipe.steps[number]
        if needed.intersection(range(begin, begin + step.results)):
            kept.insert(0, number)
            needed.update(step.reads)
    inputs = [n for n in range(len(recipe.inputs)) if n in needed]
    numbers = {old: new for new, old in enumerate(inputs)}
    place = len(inputs)
    for number in kept:
        begin = recipe.first_result(number)
        for i in range(recipe.steps[number].results):
            numbers[begin + i] = place
            place += 1
    return Recipe(
        tuple(recipe.inputs[n] for n in inputs),
        tuple(_with_operands(recipe.steps[n], numbers.__getitem__) for n in kept),
        tuple(numbers[v] for v in recipe.outputs),
    )


def _with_operands(step: Step, number: Callable[[int], int]) -> Step:
    operands = tuple(
        tuple(map(number, o)) if isinstance(o, tuple) else number(o)
        for o in step.operands
    )
    return replace(step, operands=operands)

"""Random modules as data: what is built, run, shrunk and kept as a test.

A recipe is a list of inputs and a list of applications of operators in order. Values are
numbered: the inputs, then the results of the steps. Groups of steps may stand in a
private function, or in a branch.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype, from_numpy
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.testing.cases import flat_results
from tests.differential.programs import PROGRAMS, write_call

__all__ = [
    "Definition",
    "Group",
    "Input",
    "Recipe",
    "Step",
    "build",
    "difference",
    "operators",
    "rounding",
    "with_noise",
]


@cache
def operators() -> dict[str, type[RelaxOperation]]:
    """All operators that have test cases, a definition and a tensor program, by name."""
    return {
        op.OPERATION_NAME: op
        for op in relax_ops()
        if op.cases and hasattr(op, "legalize") and hasattr(op, "reference")
    }


@dataclass(frozen=True)
class Input:
    """A parameter of ``main``, or a constant.

    Attributes:
        array: its value.
        is_constant: whether it is a constant of the module.
        symbols: names of open sizes by axis.
    """

    array: np.ndarray
    is_constant: bool = False
    symbols: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One operator.

    Attributes:
        name: of the operation, or of one of :data:`PROGRAMS`.
        operands: numbers of values; a tuple of them for an operand that is a tuple.
        attrs: attributes, as Python values.
        results: how many values it gives; a tuple's elements count.
    """

    name: str
    operands: tuple[int | tuple[int, ...], ...]
    attrs: Mapping[str, Any]
    results: int = 1

    @property
    def reads(self) -> list[int]:
        """The values that it reads."""
        return [v for o in self.operands for v in (o if isinstance(o, tuple) else (o,))]

    @property
    def overwrites(self) -> list[int]:
        """The values that it writes results over, which nothing else may read."""
        over = PROGRAMS[self.name].over if self.name in PROGRAMS else ()
        return [self.reads[place] for place in over if place >= 0]

    @property
    def tolerance(self) -> float:
        """The error that its results may have, relative to their scale."""
        return 0.0 if self.name in PROGRAMS else operators()[self.name].tolerance


@dataclass(frozen=True)
class Group:
    """Steps ``first`` to ``last`` that stand in a region of their own.

    Attributes:
        kind: ``call``, a private function; ``then`` or ``else``, a branch that is taken.
    """

    kind: str
    first: int
    last: int


@dataclass(frozen=True)
class Recipe:
    """A module, with what it is run on.

    Attributes:
        outputs: numbers of the values that ``main`` returns.
        groups: without overlap, in order; one value of each is read outside.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    groups: tuple[Group, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether steps write over nothing but results of steps that nothing else reads."""
        reads = Counter(v for s in self.steps for v in s.reads)
        return all(
            v >= len(self.inputs) and reads[v] == 1 and v not in self.outputs
            for s in self.steps
            for v in s.overwrites
        )

    def first_result(self, step: int) -> int:
        """The number of the first value that a step gives."""
        return len(self.inputs) + sum(s.results for s in self.steps[:step])

    def results_of(self, group: Group) -> list[int]:
        """The values that a group of steps gives and that are read outside of it."""
        begin = self.first_result(group.first)
        end = self.first_result(group.last + 1)
        outside = [
            v
            for n, s in enumerate(self.steps)
            if not group.first <= n <= group.last
            for v in s.reads
        ]
        return sorted({v for v in (*outside, *self.outputs) if begin <= v < end})

    def arrays(self) -> list[np.ndarray]:
        """What ``main`` is called with: its parameters, then conditions of branches."""
        given = [i.array for i in self.inputs if not i.is_constant]
        return given + [np.array(g.kind == "then") for g in self.groups if _is_if(g)]

    def to_json(self) -> str:
        """The recipe as text, which :meth:`from_json` reads."""
        return json.dumps(_encode(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The recipe that :meth:`to_json` wrote."""
        return _decode(json.loads(text))


def _is_if(group: Group) -> bool:
    return group.kind != "call"


# text

_CLASSES = {c.__name__: c for c in (Recipe, Input, Step, Group)}


def _encode(value: Any) -> Any:
    if isinstance(value, tuple(_CLASSES.values())):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {
            "class": type(value).__name__,
            **{k: _encode(v) for k, v in fields.items()},
        }
    if isinstance(value, np.ndarray):
        bits = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return {
            "array": bits.tobytes().hex(),
            "dtype": value.dtype.name,
            "shape": value.shape,
        }
    if isinstance(value, np.generic):
        return {"scalar": value.item(), "dtype": value.dtype.name}
    if isinstance(value, DType):
        return {"type": value.name}
    if isinstance(value, Mapping):
        return {"map": [[k, _encode(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    return [_encode(v) for v in value] if isinstance(value, list) else value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        fields = {k: _decode(v) for k, v in value.items() if k != "class"}
        return _CLASSES[value["class"]](**fields)
    if "array" in value:
        bits = np.frombuffer(bytes.fromhex(value["array"]), np.uint8)
        return bits.view(_numpy_type(value["dtype"])).reshape(value["shape"]).copy()
    if "scalar" in value:
        return _numpy_type(value["dtype"]).type(value["scalar"])
    if "type" in value:
        return dtype(value["type"])
    if "map" in value:
        return {k: _decode(v) for k, v in value["map"]}
    return tuple(_decode(v) for v in value["tuple"])


def _numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


# modules


def build(recipe: Recipe) -> IRModule:
    """The module of a recipe."""
    return _written(recipe, flat=False).module


def _written(recipe: Recipe, flat: bool) -> _Writer:
    module = IRModule.empty()
    with module.context, ir.Location.unknown():
        writer = _Writer(module, recipe, flat)
        writer.write()
    module.verify()
    return writer


class _Writer:
    """Writes the module of a recipe.

    Args:
        flat: with all steps in ``main``, sizes that are numbers, and no constants, as
            the operators' definitions take it.
    """

    def __init__(self, module: IRModule, recipe: Recipe, flat: bool) -> None:
        self.module, self.recipe, self.flat = module, recipe, flat
        self.groups = {} if flat else {g.first: g for g in recipe.groups}
        self.values: dict[int, ir.Value] = {}
        self.operations: dict[int, RelaxOperation] = {}  # of the steps

    def write(self) -> None:
        recipe = self.recipe
        given = [
            (n, i)
            for n, i in enumerate(recipe.inputs)
            if self.flat or not i.is_constant
        ]
        types = [self._type(i) for _, i in given]
        branches = [g for g in self.groups.values() if _is_if(g)]
        condition = tensors.tensor_type((), dtype("bool"))
        types += [condition] * len(branches)
        with ir.InsertionPoint(self.module.mlir.body):
            main = func.FuncOp("main", ir.FunctionType.get(types, []))
        block = main.add_entry_block()
        arguments = list(block.arguments)
        self.values.update((n, a) for (n, _), a in zip(given, arguments, strict=False))
        conditions = arguments[len(given) :]
        self.conditions = dict(
            zip([g.first for g in branches], conditions, strict=True)
        )
        with ir.InsertionPoint(block):
            if not self.flat:
                self._write_constants()
            self._write_steps(0, len(recipe.steps))
            results = [self.values[v] for v in recipe.outputs]
            func.ReturnOp(results)
        signature = ir.FunctionType.get(types, [r.type for r in results])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)

    def _type(self, given: Input) -> ir.Type:
        named = {} if self.flat else given.symbols
        shape = [
            shapes.symbol(named[axis]) if axis in named else size
            for axis, size in enumerate(given.array.shape)
        ]
        return tensors.tensor_type(tuple(shape), from_numpy(given.array.dtype))

    def _write_constants(self) -> None:
        for number, given in enumerate(self.recipe.inputs):
            if given.is_constant:
                self.values[number] = self._constant(f"c{number}", given.array)

    def _constant(self, key: str, array: np.ndarray) -> ir.Value:
        self.module.constants[key] = array
        type_ = tensors.tensor_type(array.shape, from_numpy(array.dtype))
        value = ir.Attribute.parse(f'#relax.const<"{key}">')
        made = ir.Operation.create("relax.constant", [type_], [], {"value": value})
        return made.results[0]

    def _write_steps(self, first: int, last: int) -> None:
        number = first
        while number < last:
            group = self.groups.pop(number, None)
            if group is None:
                self._write_step(number)
                number += 1
            else:
                self._write_group(group)
                number = group.last + 1

    def _write_step(self, number: int) -> None:
        step = self.recipe.steps[number]
        operands = [
            [self.values[v] for v in o] if isinstance(o, tuple) else self.values[o]
            for o in step.operands
        ]
        if step.name in PROGRAMS:
            made = write_call(self.module, step.name, operands)
        else:
            made = operators()[step.name](*operands, **step.attrs)
            self.operations[number] = made
        first = self.recipe.first_result(number)
        self.values.update(enumerate(flat_results(made), start=first))

    def _write_group(self, group: Group) -> None:
        shared = self._result_of(group)
        if _is_if(group):
            self.values[shared] = self._branch(group, shared)
        else:
            self.values[shared] = self._call(group, shared)

    def _result_of(self, group: Group) -> int:
        """The one value of a group that is read outside."""
        (found,) = self.recipe.results_of(group)
        return found

    def _call(self, group: Group, shared: int) -> ir.Value:
        steps = self.recipe.steps[group.first : group.last + 1]
        begin = self.recipe.first_result(group.first)
        read = list(dict.fromkeys(v for s in steps for v in s.reads if v < begin))
        outer = dict(self.values)
        types = [outer[v].type for v in read]
        name = f"f{group.first}"
        with ir.InsertionPoint(self.module.mlir.body):
            made = func.FuncOp(
                name, ir.FunctionType.get(types, []), visibility="private"
            )
        block = made.add_entry_block()
        self.values = dict(zip(read, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            self._write_steps(group.first, group.last + 1)
            result = self.values[shared]
            func.ReturnOp([result])
        signature = ir.FunctionType.get(types, [result.type])
        made.attributes["function_type"] = ir.TypeAttr.get(signature)
        self.values = outer
        packed = ir.Operation.create(
            "builtin.unrealized_conversion_cast",
            [ir.TupleType.get_tuple(types)],
            [outer[v] for v in read],
        ).results[0]
        callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
        return ir.Operation.create(
            "relax.call", [result.type], [packed], callee
        ).results[0]

    def _branch(self, group: Group, shared: int) -> ir.Value:
        outer = dict(self.values)
        # The type of the result is known once the steps are written, somewhere.
        taken = ir.Operation.create("scf.execute_region", regions=1)
        block = taken.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            self._write_steps(group.first, group.last + 1)
            result = self.values[shared]
            ir.Operation.create("gpu.yield", [], [result])
        self.values = outer
        type_ = result.type
        made = ir.Operation.create(
            "relax.if", [type_], [self.conditions[group.first]], regions=2
        )
        regions = list(made.regions)
        chosen, other = regions if group.kind == "then" else reversed(regions)
        block.append_to(chosen)
        taken.erase()
        with ir.InsertionPoint(other.blocks.append()):
            ir.Operation.create("gpu.yield", [], [self._zeros(shared, type_)])
        return made.results[0]

    def _zeros(self, shared: int, type_: ir.Type) -> ir.Value:
        """What the branch that is not taken gives."""
        shape = tensors.shape_of(ir.RankedTensorType(type_))
        zero = self._constant(
            f"zero{shared}",
            np.zeros((), tensors.dtype_of(ir.RankedTensorType(type_)).numpy),
        )
        return operators()["relax.broadcast_to"](zero, shape=tuple(shape)).results[0]


# values


class Definition:
    """What the operators of a recipe are defined to compute."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._writer = _written(recipe, flat=True)

    def evaluate(self, noise: float = 0.0, seed: int = 0) -> dict[int, np.ndarray]:
        """Every value.

        Args:
            noise: every float result is changed by as much: a multiple of the operator's
                tolerance, or of one rounding if that is more, relative to its scale.
            seed: of the noise.
        """
        rng = np.random.default_rng(seed)
        found = dict(enumerate(i.array for i in self.recipe.inputs))
        for number, step in enumerate(self.recipe.steps):
            operands = [
                [found[v] for v in o] if isinstance(o, tuple) else found[o]
                for o in step.operands
            ]
            results = self._compute(number, operands)
            least = 0.0
            if step.name in _OF_OPERANDS and isinstance(operands[0], np.ndarray):
                least = _scale(operands[0])
            results = _noisy(results, noise * step.tolerance, noise, rng, least)
            found.update(enumerate(results, start=self.recipe.first_result(number)))
        return found

    def _compute(self, number: int, operands: list[Any]) -> list[np.ndarray]:
        name = self.recipe.steps[number].name
        if name in PROGRAMS:
            return list(PROGRAMS[name].compute(*operands))
        results = reference.evaluate(self._writer.operations[number], operands, {})
        flat = [r if isinstance(r, (list, tuple)) else [r] for r in results]
        return [np.asarray(array) for part in flat for array in part]


# Their programs in TVM's form add 1 to what is nearly -1: errors are those of an operand.
_OF_OPERANDS = frozenset({"relax.nn_gelu", "relax.nn_gelu_tanh"})


def _noisy(
    arrays: Sequence[np.ndarray],
    error: float,
    noise: float,
    rng: np.random.Generator,
    least: float,
) -> list[np.ndarray]:
    sizes = [max(error, noise * rounding(array.dtype)) for array in arrays]
    return [
        with_noise(a, s, rng, least) if s else a
        for a, s in zip(arrays, sizes, strict=True)
    ]


def _scale(array: np.ndarray) -> float:
    """The largest finite magnitude."""
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def with_noise(
    array: np.ndarray, noise: float, rng: np.random.Generator, least: float = 0.0
) -> np.ndarray:
    """An array of floats with an error of up to ``noise`` of its scale; others as they are.

    Args:
        least: of the scale.
    """
    if not from_numpy(array.dtype).is_float or not array.size:
        return array
    wide = array.astype(np.float64)
    size = noise * max(_scale(array), least)
    noisy = wide + rng.uniform(-size, size, wide.shape)
    return np.asarray(noisy).astype(array.dtype)  # numpy adds scalars of rank 0


def rounding(type_: np.dtype[Any]) -> float:
    """The relative error of one rounding to a float type; 0 of others."""
    is_float = from_numpy(type_).is_float
    return float(ml_dtypes.finfo(type_).eps) / 2 if is_float else 0.0


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference relative to the scale; infinite where NaNs move."""
    lhs, rhs = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(rhs)
    if not np.array_equal(lhs[~finite], rhs[~finite], equal_nan=True):
        return np.inf
    if not np.isfinite(lhs[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(rhs[finite]).max()), 1e-30)
    return float(np.abs(lhs[finite] - rhs[finite]).max()) / scale

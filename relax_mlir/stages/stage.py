"""Stages of models: compiled for the values and types that they are called with.

See :mod:`relax_mlir.frontends.onnx.stages` for what becomes a stage. Its first call
compiles it for the sizes, and the values that have to be known, of that call. Where
another call brings other numbers, it is compiled once more with symbols in place of those
that differ; numbers that were equal in all calls so far become one symbol. So a stage that
is called with ever new sizes is compiled twice, and one whose operators need numbers, not
symbols, once for each of them.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import onnx
from mlir import ir
from onnx import helper

from relax_mlir.compilation import compile
from relax_mlir.dialects import tensors
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.stages import CONSTANT, RUN_STAGE, SIZED, STATIC
from relax_mlir.module import IRModule
from relax_mlir.relax.vm.devices import code_on
from relax_mlir.relax.vm.executable import Code, VMExecutable
from relax_mlir.relax.vm.stage_options import STAGE_OPTIONS, StageOptions
from relax_mlir.relax.vm.staged_model import StagedModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.ndarray import NDArray, as_numpy, cuda, empty, shared
from relax_mlir.runtime.registry import register_func
from relax_mlir.size_constraints import constraints_of
from relax_mlir.stages.recent import ByModel, Recent

__all__ = ["Stage", "is_tensor", "is_text", "run_stage", "type_proto"]

_MAX_KINDS = 64  # of types, and of places of numbers that are not positive
_MAX_GENERAL = 8  # ways in which the numbers of its calls may differ
_MAX_PROGRAMS = 1024  # that are kept, of all stages together
Profile: TypeAlias = tuple[int, ...]
"""The numbers of a call: sizes of its inputs, then values that have to be known."""


@register_func(RUN_STAGE, override=True)
def run_stage(model: NDArray, *args: NDArray) -> Any:
    """Run the stage whose model these bytes are.

    Raises:
        RelaxError: it cannot be compiled for these values and types.
    """
    return _stages.of(model)(args)


class Stage:
    """A stage, and what it was compiled to.

    Args:
        model: what it computes; the types of its inputs do not count.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.names = [value.name for value in self.model.graph.input]
        marks = {key: set[str]() for key in (STATIC, SIZED, CONSTANT)}
        for mark in self.model.metadata_props:
            marks[mark.key].add(mark.value)
        places = range(len(self.names))
        self.constant = [n for n in places if self.names[n] in marks[CONSTANT]]
        changing = [n for n in places if n not in self.constant]
        self.static = [n for n in changing if self.names[n] in marks[STATIC]]
        self.open = [n for n in changing if n not in self.static]
        self.sized = marks[SIZED]
        self._kinds: Recent[Hashable, _Kind] = Recent(_MAX_KINDS)

    def __call__(self, args: Sequence[Any]) -> Any:
        """Its result, or a list of them, for inputs in order.

        Raises:
            RelaxError: it cannot be compiled for these values and types.
        """
        code, given, profile = self._find(args)
        return code(given, profile)

    def native(self, args: Sequence[Any]) -> NativeCall | None:
        """Its code as a function of tensors; None if it calls back.

        Raises:
            RelaxError: it cannot be compiled for these values and types.
        """
        code, _, profile = self._find(args)
        if code.function is None:
            return None
        sizes = code.sizes(profile)
        return NativeCall(code.function, args, self.open, self.static, sizes)

    def _find(self, args: Sequence[Any]) -> tuple[_Code, list[Any], Profile]:
        """Code for inputs, those that it takes, and their numbers."""
        static = [as_numpy(args[n]) for n in self.static]
        given = [args[n] for n in self.open]
        options = STAGE_OPTIONS.get()
        key = (
            options,
            tuple(map(_type_key, given)),
            tuple(
                (v.shape, v.dtype.str, None if _is_integer(v) else v.tobytes())
                for v in static
            ),
        )
        kind = self._kinds.get_or_make(key, lambda: _Kind(self, args, options))
        profile = [size for a in given if is_tensor(a) for size in a.shape]
        for value in filter(_is_integer, static):
            profile += value.reshape(-1).tolist()
        return kind.code(tuple(profile)), given, tuple(profile)


@dataclass(frozen=True)
class NativeCall:
    """A stage as a function of tensors, for inputs of such types and sizes.

    Attributes:
        function: gives an array of tensors.
        args: inputs of the stage.
        taken: numbers of those that it takes; static: of those that it is compiled for.
        extra: what it takes after them.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    taken: Sequence[int]
    static: Sequence[int]
    extra: Sequence[NDArray]


@dataclass(frozen=True)
class _Code:
    """Compiled code.

    Attributes:
        call: takes arrays, gives one or a list of several.
        function: of tensors, which ``call`` calls; None if there is none.
        places: numbers of a profile that it takes in an array of their own.
    """

    call: Callable[..., Any]
    function: Callable[..., Any] | None
    places: Sequence[int]

    def __call__(self, args: Sequence[NDArray], profile: Profile) -> Any:
        """What it gives for arrays, and the numbers of the call."""
        return self.call(*args, *self.sizes(profile))

    def sizes(self, profile: Profile) -> list[NDArray]:
        """The array whose dimensions are numbers of a profile, if it takes one."""
        shape = (0, *(profile[n] for n in self.places))
        return [empty(shape, "uint8")] if self.places else []


def is_tensor(value: object) -> TypeGuard[NDArray]:
    """Whether a value is a tensor of numbers, not a sequence, a text, or nothing."""
    return isinstance(value, NDArray) and value.element_type.kind not in "OSU"


def is_text(value: object) -> bool:
    """Whether a value is a tensor of text."""
    return isinstance(value, NDArray) and not is_tensor(value)


def _type_key(value: object) -> tuple[np.dtype, int] | None:
    """What of a tensor has to be known to compile; None of what is none."""
    return (value.element_type, value.ndim) if is_tensor(value) else None


def _is_integer(array: np.ndarray) -> bool:
    """Whether the elements may be symbols."""
    return array.dtype.kind == "i" and array.itemsize in (4, 8)


_stages = ByModel(Stage)


# Programs of all kinds that are there, by the kind's key and what they are compiled for.
_programs: Recent[tuple[int, tuple[int | str, ...]], _Code] = Recent(_MAX_PROGRAMS)
_keys = itertools.count()


@dataclass(frozen=True)
class _Calls:
    """Calls whose numbers are positive in the same places, and otherwise equal.

    Attributes:
        seen: their numbers, of the first few.
        patterns: what was compiled for several of them.
    """

    seen: list[Profile] = field(default_factory=list)
    patterns: list[_Pattern] = field(default_factory=list)


class _Kind:
    """A stage for known types.

    Args:
        stage: the stage.
        args: of its first call.
        options: how it is compiled.
    """

    def __init__(
        self, stage: Stage, args: Sequence[Any], options: StageOptions
    ) -> None:
        self._options = options
        self._model = onnx.ModelProto()
        self._model.CopyFrom(stage.model)
        self._count = len(stage.open)
        given = dict(zip(stage.names, args, strict=True))
        for value in self._model.graph.input:
            value.type.CopyFrom(type_proto(given[value.name]))
        named = [stage.names[n] for n in (*stage.constant, *stage.static)]
        arrays = {name: as_numpy(given[name]) for name in named}
        self._open = [
            (stage.names[n], args[n].ndim) for n in stage.open if is_tensor(args[n])
        ]
        numbers = [
            stage.names[n] for n in stage.static if _is_integer(arrays[stage.names[n]])
        ]
        self._numbers = [(name, arrays[name].shape) for name in numbers]
        self._types = {name: arrays[name].dtype for name in numbers}
        self._fixed = {name: arrays[name] for name in named if name not in numbers}
        sized = [name in stage.sized for name, ndim in self._open for _ in range(ndim)]
        self._numbered = [place for place, is_sized in enumerate(sized) if is_sized]
        self._calls: Recent[Profile, _Calls] = Recent(_MAX_KINDS)
        self._key = number = next(_keys)
        ending = weakref.finalize(self, _programs.drop, lambda key: key[0] == number)
        ending.atexit = False
        self._lock = threading.Lock()

    def code(self, profile: Profile) -> _Code:
        """Code for the numbers of a call."""
        code = _programs.get((self._key, profile))
        if code is None:
            with self._lock:
                code = _programs.get((self._key, profile)) or self._find(profile)
                _programs.set((self._key, profile), code)
        return code

    def _find(self, profile: Profile) -> _Code:
        # Numbers that are not positive are never open: those that differ in them are apart.
        fixed = tuple(number if number < 1 else 1 for number in profile)
        calls = self._calls.get_or_make(fixed, _Calls)
        for pattern in calls.patterns:
            if pattern.fits(profile):
                return self._general(pattern)
        if len(calls.seen) <= _MAX_GENERAL:
            calls.seen.append(profile)
        if 1 < len(calls.seen) <= _MAX_GENERAL:
            pattern = _Pattern.of(calls.seen, self._numbered)
            try:
                code, assumed = self._compiled(pattern.entries)
            except RelaxError:
                pass  # some operator needs numbers
            else:
                pattern = replace(pattern, assumed=tuple(assumed))
                if pattern.fits(profile):
                    calls.patterns.append(pattern)
                    return _programs.set((self._key, pattern.entries), code)
        return self._compiled(profile)[0]

    def _general(self, pattern: _Pattern) -> _Code:
        """Code for all numbers of a pattern, for which it was compiled before."""
        code = _programs.get((self._key, pattern.entries))
        if code is None:
            code = self._compiled(pattern.entries)[0]
            _programs.set((self._key, pattern.entries), code)
        return code

    def _compiled(
        self, entries: Sequence[int | str]
    ) -> tuple[_Code, Sequence[Constraint]]:
        """Code for these numbers, and names of symbols; and what it assumes of them."""
        rest = iter(entries)
        sizes = {name: [next(rest) for _ in range(ndim)] for name, ndim in self._open}
        values: dict[str, Any] = dict(self._fixed)
        for name, shape in self._numbers:
            flat = [next(rest) for _ in range(int(np.prod(shape)))]
            is_known = all(isinstance(entry, int) for entry in flat)
            dtype = self._types[name] if is_known else object
            values[name] = np.array(flat, dtype).reshape(shape)
        module = import_onnx(self._model, shapes=sizes, values=values)
        shapes = _parameter_shapes(module)
        taken = [size for shape in shapes[: self._count] for size in shape]
        told = [size for shape in shapes[self._count :] for size in shape[1:]]
        symbols = [entry for entry in entries if isinstance(entry, str)]
        if taken != [str(s) for shape in sizes.values() for s in shape] or not set(
            told
        ) <= set(symbols):
            raise RelaxError("stage: a symbol turned out to be a number")
        places = [list(entries).index(name) for name in told]
        return _code(module, places, self._options), constraints_of(module)


def type_proto(value: object) -> onnx.TypeProto:
    """The type of a tensor; of what is none, a sequence of unknown elements."""
    if not is_tensor(value):
        sequence = onnx.TypeProto.Sequence(elem_type=onnx.TypeProto())
        return onnx.TypeProto(sequence_type=sequence)
    element = helper.np_dtype_to_tensor_dtype(value.element_type)
    return helper.make_tensor_type_proto(element, value.shape)


def _parameter_shapes(module: IRModule) -> list[list[str]]:
    """The sizes of what ``main`` takes, as text; none of what is no tensor."""
    (main,) = (f for f in module.func_ops() if f.name.value == "main")
    return [
        list(map(str, tensors.shape_of(value)))
        if isinstance(value.type, ir.RankedTensorType)
        else []
        for value in main.entry_block.arguments
    ]


def _code(module: IRModule, places: Sequence[int], options: StageOptions) -> _Code:
    """The module, compiled."""
    made = compile(module, **options.compilation)
    if isinstance(made, CudaExecutable):
        return _Code(Code.of(code_on(made, cuda(options.ordinal))), None, places)
    if not isinstance(made, Executable):
        whole = made.executable if isinstance(made, StagedModel) else made
        assert isinstance(whole, VMExecutable)
        whole = whole.on(cuda(options.ordinal)) if options.ordinal else whole
        return _Code(whole["main"], None, places)
    is_one = len(made.output_names) == 1

    def call(*args: Any) -> Any:  # Any: arrays
        results = [shared(array) for array in made(*args)]
        return results[0] if is_one else results

    return _Code(call, made["main"], places)


@dataclass(frozen=True)
class _Pattern:
    """What the numbers of several calls have in common.

    Attributes:
        entries: the number, where it was always the same; else the name of a symbol,
            which is the same for numbers that were equal in every call.
        assumed: what must hold of the symbols.
    """

    entries: tuple[int | str, ...]
    assumed: tuple[Constraint, ...] = ()

    @staticmethod
    def of(seen: Sequence[Profile], numbered: Collection[int] = ()) -> _Pattern:
        """The pattern of calls, in which numbers of places in ``numbered`` stay numbers."""
        columns = list(zip(*seen, strict=True))
        names: dict[tuple[int, ...], str] = {}
        entries: list[int | str] = []
        for place, column in enumerate(columns):
            if len(set(column)) == 1 or place in numbered:
                entries.append(column[-1])
            else:
                entries.append(names.setdefault(column, f"n{len(names)}"))
        return _Pattern(tuple(entries))

    def fits(self, profile: Profile) -> bool:
        """Whether a call has these numbers, or positive ones where symbols stand."""
        symbols: dict[str, Dim] = {}
        for entry, number in zip(self.entries, profile, strict=True):
            if isinstance(entry, int):
                if entry != number:
                    return False
            elif number < 1 or symbols.setdefault(entry, number) != number:
                return False
        return all(c.substituted(symbols).is_certain for c in self.assumed)

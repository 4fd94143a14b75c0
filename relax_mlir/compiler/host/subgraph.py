"""JIT-compiled subgraphs, with dynamic-shape specialisation.

:mod:`relax_mlir.frontends.onnx.stages` partitions models into subgraphs. The first call of
a subgraph compiles it for its sizes, and the values of its static inputs. A call with
other numbers compiles a generalisation, with symbolic sizes in place of the numbers that
differ; numbers that were equal in all calls so far become one symbol. So a subgraph with
ever new sizes is compiled twice, and one whose operators need static sizes once per
shape profile.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import onnx
from mlir import ir
from onnx import helper

from relax_mlir.compiler.compile import cache_entry
from relax_mlir.compiler.dispatch import compile_module
from relax_mlir.compiler.host.lru_cache import LRUCache, PerModelCache
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.dialects import tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.stages import CONSTANT, RUN_STAGE, SIZED, STATIC
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.host.devices import model_on_device
from relax_mlir.runtime.host.jit_model import JITModel
from relax_mlir.runtime.host.jit_options import JIT_OPTIONS, JITOptions
from relax_mlir.runtime.host.vm_executable import NativeFunction, VMExecutable
from relax_mlir.runtime.ndarray import NDArray, as_numpy, cuda, empty, shared
from relax_mlir.runtime.registry import register_func
from relax_mlir.support.log import INFO, log
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["JITSubgraph", "is_tensor", "is_text", "run_subgraph", "type_proto"]

_MAX_SPECIALIZATIONS = 64  # per subgraph, by type; and by the positions of zeros
_MAX_GENERALIZATIONS = 8  # attempts per specialisation
_MAX_PROGRAMS = 1024  # cached, of all subgraphs
ShapeProfile: TypeAlias = tuple[int, ...]
"""The numbers of a call: sizes of its inputs, then values of static integer inputs."""


@register_func(RUN_STAGE, override=True)
def run_subgraph(model: NDArray, *args: NDArray) -> Any:
    """Run the subgraph of a serialised model.

    Raises:
        RelaxError: the subgraph cannot be compiled for these values and types.
    """
    return _subgraphs.of(model)(args)


class JITSubgraph:
    """A subgraph and its specialisations.

    Args:
        model: the subgraph; the types of its inputs are ignored.

    Attributes:
        constant: indices of the inputs with the same value in all calls.
        static: indices of the inputs whose values have to be known at compile time.
        dynamic: indices of the other inputs.
        sized: names of inputs whose sizes have to be known at compile time.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.names = [value.name for value in self.model.graph.input]
        marks = {key: set[str]() for key in (STATIC, SIZED, CONSTANT)}
        for mark in self.model.metadata_props:
            marks[mark.key].add(mark.value)
        indices = range(len(self.names))
        self.constant = [n for n in indices if self.names[n] in marks[CONSTANT]]
        variable = [n for n in indices if n not in self.constant]
        self.static = [n for n in variable if self.names[n] in marks[STATIC]]
        self.dynamic = [n for n in variable if n not in self.static]
        self.sized = marks[SIZED]
        self._specializations: LRUCache[Hashable, _Specialization] = LRUCache(
            _MAX_SPECIALIZATIONS
        )

    def __call__(self, args: Sequence[Any]) -> Any:
        """Run the subgraph; returns its result, or a list of results.

        Raises:
            RelaxError: the subgraph cannot be compiled for these values and types.
        """
        code, dynamic, profile = self._specialized(args)
        return code(dynamic, profile)

    def native(self, args: Sequence[Any]) -> NativeCall | None:
        """The subgraph as a native function for given inputs; None if it calls back.

        Raises:
            RelaxError: the subgraph cannot be compiled for these values and types.
        """
        code, _, profile = self._specialized(args)
        if code.function is None:
            return None
        sizes = code.sizes(profile)
        return NativeCall(code.function, args, self.dynamic, self.static, sizes)

    def _specialized(
        self, args: Sequence[Any]
    ) -> tuple[_Code, list[Any], ShapeProfile]:
        """Code for given inputs, its dynamic arguments, and the shape profile."""
        static = [as_numpy(args[n]) for n in self.static]
        dynamic = [args[n] for n in self.dynamic]
        options = JIT_OPTIONS.get()
        key = (
            options,
            tuple(map(_type_key, dynamic)),
            tuple(
                (v.shape, v.dtype.str, None if _is_integer(v) else v.tobytes())
                for v in static
            ),
        )
        specialization = self._specializations.get_or_create(
            key, lambda: _Specialization(self, args, options)
        )
        profile = [size for a in dynamic if is_tensor(a) for size in a.shape]
        for value in filter(_is_integer, static):
            profile += value.reshape(-1).tolist()
        return specialization.code(tuple(profile)), dynamic, tuple(profile)


@dataclass(frozen=True)
class NativeCall:
    """A subgraph as a native function, for inputs of the same types and sizes.

    Attributes:
        function: returns an array of tensors.
        args: inputs of the subgraph.
        dynamic: indices of the inputs that are arguments; static: of those that it is
            specialised for.
        extra: further arguments.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    dynamic: Sequence[int]
    static: Sequence[int]
    extra: Sequence[NDArray]


@dataclass(frozen=True)
class _Code:
    """Compiled code of a subgraph.

    Attributes:
        call: from arrays to an array, or to a list of several.
        function: the native function behind ``call``; None if there is none.
        size_indices: indices of the numbers of a profile that are passed as sizes of an
            extra array argument, since no input has them.
    """

    call: Callable[..., Any]
    function: Callable[..., Any] | None
    size_indices: Sequence[int]

    def __call__(self, args: Sequence[NDArray], profile: ShapeProfile) -> Any:
        """Call the code with dynamic inputs, and the shape profile of the call."""
        return self.call(*args, *self.sizes(profile))

    def sizes(self, profile: ShapeProfile) -> list[NDArray]:
        """The empty array that carries sizes of a profile in its shape, if any."""
        shape = (0, *(profile[n] for n in self.size_indices))
        return [empty(shape, "uint8")] if self.size_indices else []


def is_tensor(value: object) -> TypeGuard[NDArray]:
    """Whether a value is a tensor of numbers, not a sequence, a string tensor, or None."""
    return isinstance(value, NDArray) and value.element_type.kind not in "OSU"


def is_text(value: object) -> bool:
    """Whether a value is a string tensor."""
    return isinstance(value, NDArray) and not is_tensor(value)


def _type_key(value: object) -> tuple[np.dtype, int] | None:
    """The element type and rank of a tensor; None for other values."""
    return (value.element_type, value.ndim) if is_tensor(value) else None


def _is_integer(array: np.ndarray) -> bool:
    """Whether the elements may be symbolic."""
    return array.dtype.kind == "i" and array.itemsize in (4, 8)


_subgraphs = PerModelCache(JITSubgraph)


# Code of all subgraphs, by the specialisation's key, and its numbers and symbols.
_programs: LRUCache[tuple[int, tuple[int | str, ...]], _Code] = LRUCache(_MAX_PROGRAMS)
_keys = itertools.count()


@dataclass(frozen=True)
class _Calls:
    """Calls whose profiles agree in the numbers that are not positive.

    Attributes:
        profiles: of the first few calls.
        patterns: generalisations that were compiled.
    """

    profiles: list[ShapeProfile] = field(default_factory=list)
    patterns: list[_ShapePattern] = field(default_factory=list)


class _Specialization:
    """A subgraph specialised for types, and for non-integer static values.

    Args:
        subgraph: the subgraph.
        args: of the first call.
        options: compile options.
    """

    def __init__(
        self, subgraph: JITSubgraph, args: Sequence[Any], options: JITOptions
    ) -> None:
        self._options = options
        self._model = onnx.ModelProto()
        self._model.CopyFrom(subgraph.model)
        self._count = len(subgraph.dynamic)
        values = dict(zip(subgraph.names, args, strict=True))
        for value in self._model.graph.input:
            value.type.CopyFrom(type_proto(values[value.name]))
        named = [subgraph.names[n] for n in (*subgraph.constant, *subgraph.static)]
        arrays = {name: as_numpy(values[name]) for name in named}
        self._dynamic = [
            (subgraph.names[n], args[n].ndim)
            for n in subgraph.dynamic
            if is_tensor(args[n])
        ]
        integers = [
            subgraph.names[n]
            for n in subgraph.static
            if _is_integer(arrays[subgraph.names[n]])
        ]
        self._integers = [(name, arrays[name].shape) for name in integers]
        self._types = {name: arrays[name].dtype for name in integers}
        self._fixed = {name: arrays[name] for name in named if name not in integers}
        sized = [
            name in subgraph.sized for name, ndim in self._dynamic for _ in range(ndim)
        ]
        self._static_sizes = [n for n, is_sized in enumerate(sized) if is_sized]
        self._calls: LRUCache[ShapeProfile, _Calls] = LRUCache(_MAX_SPECIALIZATIONS)
        self._key = number = next(_keys)
        finalizer = weakref.finalize(self, _programs.drop, lambda key: key[0] == number)
        finalizer.atexit = False
        self._lock = threading.Lock()

    def code(self, profile: ShapeProfile) -> _Code:
        """Code for a shape profile, compiled if missing."""
        code = _programs.get((self._key, profile))
        if code is not None:
            JIT_OPTIONS.get().counters.count_hit()
            return code
        with self._lock:
            code = _programs.get((self._key, profile)) or self._compile_for(profile)
            return _programs.set((self._key, profile), code)

    def _compile_for(self, profile: ShapeProfile) -> _Code:
        # Numbers that are not positive are never generalised.
        fixed = tuple(number if number < 1 else 1 for number in profile)
        calls = self._calls.get_or_create(fixed, _Calls)
        for pattern in calls.patterns:
            if pattern.matches(profile):
                return self._generalized(pattern)
        if len(calls.profiles) <= _MAX_GENERALIZATIONS:
            calls.profiles.append(profile)
        if 1 < len(calls.profiles) <= _MAX_GENERALIZATIONS:
            pattern = _ShapePattern.of(calls.profiles, self._static_sizes)
            try:
                code, constraints = self._compiled(pattern.entries)
            except RelaxError:
                pass  # an operator needs static sizes
            else:
                pattern = replace(pattern, constraints=tuple(constraints))
                if pattern.matches(profile):
                    calls.patterns.append(pattern)
                    return _programs.set((self._key, pattern.entries), code)
        return self._compiled(profile)[0]

    def _generalized(self, pattern: _ShapePattern) -> _Code:
        """Code of a generalisation, recompiled if it was evicted."""
        code = _programs.get((self._key, pattern.entries))
        if code is None:
            code = self._compiled(pattern.entries)[0]
            _programs.set((self._key, pattern.entries), code)
        return code

    def _compiled(
        self, entries: Sequence[int | str]
    ) -> tuple[_Code, Sequence[Constraint]]:
        """Compile for numbers and names of symbols; returns code and its constraints."""
        start = time.perf_counter()
        is_load = False
        try:
            code, constraints, is_load = self._built(entries)
            return code, constraints
        finally:
            compile_ms = 1e3 * (time.perf_counter() - start)
            counters = JIT_OPTIONS.get().counters
            counters.count_compilation(compile_ms, is_load=is_load)
            log(
                INFO,
                "jit",
                "%s a subgraph of %d nodes with the inputs %s in %.0f ms",
                "loaded" if is_load else "compiled",
                len(self._model.graph.node),
                ", ".join(name for name, _ in self._dynamic) or "none",
                compile_ms,
            )

    def _built(
        self, entries: Sequence[int | str]
    ) -> tuple[_Code, Sequence[Constraint], bool]:
        """Code and its constraints; and whether it was loaded from the cache."""
        rest = iter(entries)
        sizes = {
            name: [next(rest) for _ in range(ndim)] for name, ndim in self._dynamic
        }
        values: dict[str, Any] = dict(self._fixed)
        for name, shape in self._integers:
            flat = [next(rest) for _ in range(int(np.prod(shape)))]
            is_static = all(isinstance(entry, int) for entry in flat)
            dtype = self._types[name] if is_static else object
            values[name] = np.array(flat, dtype).reshape(shape)
        arguments = {"shapes": sizes, "values": values}
        options = _compile_options(self._options)
        entry = None
        if options.is_cacheable:
            entry = cache_entry(self._model.SerializeToString(), options, arguments)
        loaded = None if entry is None else entry.load(options.threads)
        if loaded is not None:
            signature = loaded.signature
            shapes = [list(parameter.dims) for parameter in signature.inputs]
            constraints = [Constraint.parse(text) for text in signature.constraints]
            indices = self._size_indices(entries, sizes, shapes)
            return _code_of(loaded, indices, self._options), constraints, True
        module = import_onnx(self._model, **arguments)
        indices = self._size_indices(entries, sizes, _parameter_shapes(module))
        compiled = compile_module(module, options)
        if entry is not None and isinstance(compiled, CompiledModel):
            entry.store(compiled)
        code = _code_of(compiled, indices, self._options)
        return code, constraints_of(module), False

    def _size_indices(
        self,
        entries: Sequence[int | str],
        sizes: Mapping[str, Sequence[int | str]],
        shapes: Sequence[Sequence[str]],
    ) -> list[int]:
        """Indices of the entries that are passed as sizes of an extra array.

        Args:
            sizes: of the dynamic inputs, as they were given to the importer.
            shapes: of the parameters that were made of them, and of the extra array.

        Raises:
            RelaxError: a symbolic size has become a number.
        """
        input_sizes = [size for shape in shapes[: self._count] for size in shape]
        extra_sizes = [size for shape in shapes[self._count :] for size in shape[1:]]
        symbols = [entry for entry in entries if isinstance(entry, str)]
        expected = [str(s) for shape in sizes.values() for s in shape]
        if input_sizes != expected or not set(extra_sizes) <= set(symbols):
            raise RelaxError("subgraph: import resolved a symbolic size to a number")
        return [list(entries).index(name) for name in extra_sizes]


def type_proto(value: object) -> onnx.TypeProto:
    """The ONNX type of a tensor; for other values, a sequence of unknown elements."""
    if not is_tensor(value):
        sequence = onnx.TypeProto.Sequence(elem_type=onnx.TypeProto())
        return onnx.TypeProto(sequence_type=sequence)
    element = helper.np_dtype_to_tensor_dtype(value.element_type)
    return helper.make_tensor_type_proto(element, value.shape)


def _parameter_shapes(module: IRModule) -> list[list[str]]:
    """The shapes of the parameters of ``main`` as text; empty for non-tensors."""
    (main,) = (f for f in module.func_ops() if f.name.value == "main")
    return [
        list(map(str, tensors.shape_of(value)))
        if isinstance(value.type, ir.RankedTensorType)
        else []
        for value in main.entry_block.arguments
    ]


def _code_of(
    compiled: Any,  # Any: what `compile_module` returns
    size_indices: Sequence[int],
    options: JITOptions,
) -> _Code:
    """The code of a compiled module."""
    if isinstance(compiled, CudaExecutable):
        function = NativeFunction.of(model_on_device(compiled, cuda(options.ordinal)))
        return _Code(function, None, size_indices)
    if not isinstance(compiled, Executable):
        is_model = isinstance(compiled, JITModel)
        executable = compiled.executable if is_model else compiled
        assert isinstance(executable, VMExecutable)
        if options.ordinal:
            executable = executable.on(cuda(options.ordinal))
        return _Code(executable["main"], None, size_indices)
    is_single = len(compiled.output_names) == 1

    def call(*args: Any) -> Any:  # Any: arrays
        results = [shared(array) for array in compiled(*args)]
        return results[0] if is_single else results

    return _Code(call, compiled["main"], size_indices)


def _compile_options(options: JITOptions) -> CompileOptions:
    """The options of a subgraph, as the compiler takes them."""
    inherited = options.inherited
    if not isinstance(inherited, CompileOptions):
        fields = json.loads(options.text) if options.text else {"target": "cpu"}
        inherited = CompileOptions.from_fields(fields)
    return replace(inherited, threads=options.threads)


@dataclass(frozen=True)
class _ShapePattern:
    """Generalisation of several shape profiles.

    Attributes:
        entries: a number that all profiles share, or else the name of a symbol; numbers
            that are equal in each profile have the same symbol.
        constraints: on the symbols.
    """

    entries: tuple[int | str, ...]
    constraints: tuple[Constraint, ...] = ()

    @staticmethod
    def of(
        profiles: Sequence[ShapeProfile], static: Collection[int] = ()
    ) -> _ShapePattern:
        """Generalise profiles; entries with indices in ``static`` stay numbers."""
        columns = list(zip(*profiles, strict=True))
        names: dict[tuple[int, ...], str] = {}
        entries: list[int | str] = []
        for index, column in enumerate(columns):
            if len(set(column)) == 1 or index in static:
                entries.append(column[-1])
            else:
                entries.append(names.setdefault(column, f"n{len(names)}"))
        return _ShapePattern(tuple(entries))

    def matches(self, profile: ShapeProfile) -> bool:
        """Whether a profile has these numbers, and consistent positive ones for symbols."""
        symbols: dict[str, Dim] = {}
        for entry, number in zip(self.entries, profile, strict=True):
            if isinstance(entry, int):
                if entry != number:
                    return False
            elif number < 1 or symbols.setdefault(entry, number) != number:
                return False
        return all(c.substituted(symbols).is_certain for c in self.constraints)

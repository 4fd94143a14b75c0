"""A compiled module: machine code, and the host program around it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from relax_mlir.errors import UnknownAttributeError, near_misses
from relax_mlir.objects.struct_info import (
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.vm.devices import check_device, code_on
from relax_mlir.relax.vm.host_interpreter import link
from relax_mlir.relax.vm.host_listing import listing
from relax_mlir.relax.vm.host_program import HostProgram
from relax_mlir.relax.vm.host_values import to_value
from relax_mlir.relax.vm.host_verifier import Callees, check_program
from relax_mlir.relax.vm.kernels import Kernel
from relax_mlir.relax.vm.stage_options import StageOptions
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.ndarray import Device, NDArray, shared
from relax_mlir.targets import kind_of

__all__ = ["Code", "HostCode", "VMExecutable", "VMFunction", "in_order", "nest_of"]


@dataclass(frozen=True)
class VMFunction:
    """A function that can be called.

    Attributes:
        params: what its parameters are called.
        call: takes values, and gives one.
        described: what it takes and gives.
    """

    params: Sequence[str]
    call: Callable[..., Any]
    described: str


Nest = Any
"""How results are nested: None for a tensor, a list for a tuple."""


@dataclass(frozen=True)
class Code:
    """A function that is all machine code.

    Attributes:
        executable: takes and gives tensors.
        params: what its parameters are called.
        nest: how what it gives is nested; the code gives it flat.
    """

    executable: CompiledModel
    params: Sequence[str]
    nest: Nest

    @staticmethod
    def of(executable: CompiledModel) -> Code:
        """A compiled model, of which nobody knows how its results were nested."""
        count = len(executable.output_names)
        return Code(
            executable, executable.input_names, [None] * count if count > 1 else None
        )

    def on(self, device: Device) -> Code:
        """It, where it runs on a device.

        Raises:
            CompileError: it is compiled for another kind of device.
        """
        moved = code_on(self.executable, device)
        return self if moved is self.executable else replace(self, executable=moved)

    def __call__(self, *args: Any) -> Any:
        """Call it with tensors, or tuples of them; what a GPU makes stays there."""
        for name, value in zip(self.params, args, strict=False):
            _check_is_tensor(name, value)
        given = _flattened(args)
        if isinstance(self.executable, CudaExecutable):
            outputs = self.executable(*given, stay=True)
        else:
            outputs = self.executable(*given)
        return _nested(self.nest, iter([shared(o) for o in outputs]))


def nest_of(info: StructInfo) -> Nest:
    """How a result of which this is known is nested."""
    if isinstance(info, TupleStructInfo):
        return [nest_of(field) for field in info.fields]
    return None


def _check_is_tensor(param: str, value: Any) -> None:
    """Refuse what is neither an array, nor a number, nor a tuple of arrays."""
    is_list = isinstance(value, (tuple, list))
    wrong = [
        v
        for v in (_flattened(value) if is_list else [value])
        if v is None or isinstance(v, str) or (is_list and isinstance(v, (int, float)))
    ]
    if wrong:
        raise TypeError(
            f"argument `{param}`: expected an array, such as one of `nd.array` or of "
            f"numpy, got {value!r:.60}"
        )


def _flattened(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _flattened(value) if isinstance(value, (tuple, list)) else [value]
    return found


def _nested(nest: Nest, arrays: Any) -> Any:
    return next(arrays) if nest is None else [_nested(part, arrays) for part in nest]


@dataclass
class HostCode:
    """A host program, and what it calls.

    Attributes:
        program: the host functions.
        segments: machine code that they call, by name.
        programs: tensor programs that they call, by name.
        constants: arrays that they use, by name.
    """

    program: HostProgram = field(default_factory=HostProgram)
    segments: Mapping[str, Code] = field(default_factory=dict)
    programs: Mapping[str, Kernel] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> Mapping[str, NDArray]:
        """The constants as functions see them, by name."""
        # Those of a file cannot be written to, so DLPack does not hand them on.
        return {
            name: NDArray(np.require(array, requirements="W"))
            for name, array in self.constants.items()
        }

    def on(self, device: Device) -> HostCode:
        """It, where its machine code runs on a device, with the same constants.

        Raises:
            CompileError: some is compiled for another kind of device.
        """
        segments = {name: code.on(device) for name, code in self.segments.items()}
        programs = {name: kernel.on(device) for name, kernel in self.programs.items()}
        if _are_same(segments, self.segments) and _are_same(programs, self.programs):
            return self
        constants = {name: tensor.on_host() for name, tensor in self.tensors.items()}
        return HostCode(self.program, segments, programs, constants)

    def functions(
        self, public: Mapping[str, Sequence[str]]
    ) -> dict[str, Callable[..., Any]]:
        """The functions that callers see, ready to be called with values.

        Args:
            public: their parameters, by name.

        Raises:
            ValueError: the program is damaged.
        """
        counts = {
            name: (len(code.params), len(code.nest) if code.nest is not None else 1)
            for name, code in self.segments.items()
        }
        check_program(
            self.program, Callees(counts, self.programs, self.constants), public
        )
        return link(
            self.program,
            {
                "segment": self.segments,
                "program": self.programs,
                "tensor": self.tensors,
            },
        )


def _are_same(made: Mapping[str, object], known: Mapping[str, object]) -> bool:
    """Whether two mappings of the same names have the very same values."""
    return all(made[name] is value for name, value in known.items())


class VMExecutable:
    """The public functions of a module, compiled.

    Args:
        codes: functions that are all machine code, by name.
        host: the others.
        shown: of the host's functions, which are public, and their parameters.
        options: how what is compiled when it runs is compiled.
    """

    def __init__(
        self,
        codes: Mapping[str, Code],
        host: HostCode | None = None,
        shown: Mapping[str, Sequence[str]] | None = None,
        options: StageOptions | None = None,
    ) -> None:
        host, shown = host or HostCode(), shown or {}
        self._codes, self._host = dict(codes), host
        self._shown = dict(shown)
        self.options = options or StageOptions()
        self._functions = {
            name: VMFunction(code.params, code, str(code.executable.signature))
            for name, code in codes.items()
        }
        running = host.functions(shown)
        for name, params in shown.items():
            described = f"({', '.join(params)}), host"
            call = self.options.during(running[name])
            self._functions[name] = VMFunction(params, call, described)

    def __repr__(self) -> str:
        functions = ", ".join(self.stats().splitlines()) or "no function"
        return f"<{type(self).__name__} {functions}>"

    @property
    def mod(self) -> VMExecutable:
        """Itself."""
        return self

    def function(self, name: str) -> VMFunction:
        """The function called ``name``.

        Raises:
            AttributeError: there is none.
        """
        if name not in self._functions:
            known = self._functions
            raise UnknownAttributeError(
                f"executable has no function `{name}`: expected one of "
                f"{', '.join(known) or 'none'}.{near_misses(name, known)}"
            )
        return self._functions[name]

    def function_names(self) -> list[str]:
        """All functions that can be called."""
        return list(self._functions)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function called ``name``; takes arrays, and gives :class:`NDArray`."""
        function = self.function(name)

        def call(*args: Any) -> Any:
            return function.call(*map(to_value, in_order(name, function.params, args)))

        return call

    def __call__(self, *args: Any) -> Any:
        """Call ``main``."""
        return self["main"](*args)

    def as_text(self) -> str:
        """The host program around the machine code; empty if all is machine code."""
        return listing(self._host.program)

    as_python = as_text  # the listing is spelled in the manner of Python

    def stats(self) -> str:
        """A line per function: what it takes and gives."""
        return "\n".join(f"{n}: {f.described}" for n, f in self._functions.items())

    @property
    def codes(self) -> Mapping[str, Code]:
        """The functions that are all machine code, by name."""
        return self._codes

    @property
    def host(self) -> HostCode:
        """The host program, and what it calls."""
        return self._host

    @property
    def shown(self) -> Mapping[str, Sequence[str]]:
        """Of the host's functions, which are public, and their parameters."""
        return self._shown

    def on(self, device: Device) -> VMExecutable:
        """The same functions, where they run on a device; itself if that is there.

        Raises:
            CompileError: one is compiled for another kind of device.
        """
        moved = {name: code.on(device) for name, code in self._codes.items()}
        options = replace(self.options, ordinal=device.index)
        if self._shown:
            check_device(device, kind_of(options.target))
        host = self._host.on(device)
        is_here = options == self.options and host is self._host
        if is_here and _are_same(moved, self._codes):
            return self
        return VMExecutable(moved, host, self._shown, options)

    def export_library(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write all of it to a file, which :func:`relax_mlir.load` reads.

        Args:
            path: of the file.
            options: how TVM links a library; without effect here.

        Raises:
            OSError: it cannot be written.
        """
        from relax_mlir.relax.vm.archive import save

        save(path, self)


def in_order(
    name: str,
    params: Sequence[str],
    args: Sequence[Any],
    named: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    """The arguments of a call in the order of the parameters.

    Raises:
        TypeError: they are not the parameters.
    """
    named = named or {}
    rest = params[len(args) :]
    if len(args) > len(params) or set(rest) != set(named):
        listed = f" ({', '.join(f'`{p}`' for p in params)})" if params else ""
        given = ", ".join([str(len(args) or "none"), *(f"`{n}=...`" for n in named)])
        raise TypeError(
            f"`{name}`: expected {len(params)} argument{'s' * (len(params) != 1)}"
            f"{listed}, got {given}"
        )
    return (*args, *(named[p] for p in rest))

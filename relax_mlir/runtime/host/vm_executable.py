"""Executable of the virtual machine: native functions, and the host program around them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import UnknownAttributeError, near_misses
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.host.devices import check_device, model_on_device
from relax_mlir.runtime.host.instructions import to_value
from relax_mlir.runtime.host.interpreter import link
from relax_mlir.runtime.host.jit_options import JITOptions
from relax_mlir.runtime.host.kernels import Kernel
from relax_mlir.runtime.host.listing import format_program
from relax_mlir.runtime.host.program import HostProgram
from relax_mlir.runtime.host.verifier import Callees, check_program
from relax_mlir.runtime.ndarray import Device, NDArray, shared
from relax_mlir.runtime.serializable import Serializable

__all__ = [
    "HostCode",
    "NativeFunction",
    "VMExecutable",
    "VMFunction",
    "bind_arguments",
]


@dataclass(frozen=True)
class VMFunction:
    """A callable function of an executable.

    Attributes:
        params: names of the parameters.
        call: the implementation, from values to a value.
        description: its signature as text.
    """

    params: Sequence[str]
    call: Callable[..., Any]
    description: str


Nest = Any
"""Tuple structure of results: None for a tensor, a list for a tuple."""


@dataclass(frozen=True)
class NativeFunction:
    """A function that is compiled as a whole.

    Attributes:
        executable: the machine code, from tensors to tensors.
        params: names of the parameters.
        nest: tuple structure of the results, which the machine code returns flat.
    """

    executable: CompiledModel
    params: Sequence[str]
    nest: Nest

    @staticmethod
    def of(executable: CompiledModel) -> NativeFunction:
        """Wrap a compiled model; its results are a tensor, or a flat tuple."""
        count = len(executable.output_names)
        return NativeFunction(
            executable, executable.input_names, [None] * count if count > 1 else None
        )

    def on(self, device: Device) -> NativeFunction:
        """The function on a device.

        Raises:
            CompileError: the function is compiled for another kind of device.
        """
        moved = model_on_device(self.executable, device)
        return self if moved is self.executable else replace(self, executable=moved)

    def __call__(self, *args: Any) -> Any:
        """Call it with tensors, or tuples of them; results of a GPU stay in its memory."""
        for name, value in zip(self.params, args, strict=False):
            _check_is_tensor(name, value)
        flat = _flattened(args)
        if isinstance(self.executable, CudaExecutable):
            outputs = self.executable(*flat, stay=True)
        else:
            outputs = self.executable(*flat)
        return _nested(self.nest, iter([shared(o) for o in outputs]))


def _check_is_tensor(param: str, value: Any) -> None:
    """Reject values other than arrays, numbers and tuples of arrays."""
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
    flat: list[Any] = []
    for value in values:
        flat += _flattened(value) if isinstance(value, (tuple, list)) else [value]
    return flat


def _nested(nest: Nest, arrays: Any) -> Any:
    return next(arrays) if nest is None else [_nested(part, arrays) for part in nest]


@dataclass
class HostCode:
    """A host program and its callees.

    Attributes:
        program: the host functions.
        segments: native functions that they call, by name.
        programs: kernels that they call, by name.
        constants: arrays that they use, by name.
    """

    program: HostProgram = field(default_factory=HostProgram)
    segments: Mapping[str, NativeFunction] = field(default_factory=dict)
    programs: Mapping[str, Kernel] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> Mapping[str, NDArray]:
        """The constants as tensors, by name."""
        # Constants of a file are read-only, and DLPack cannot export those.
        return {
            name: NDArray(np.require(array, requirements="W"))
            for name, array in self.constants.items()
        }

    def on(self, device: Device) -> HostCode:
        """The host code with its callees on a device, with the same constants.

        Raises:
            CompileError: a callee is compiled for another kind of device.
        """
        segments = {name: code.on(device) for name, code in self.segments.items()}
        programs = {name: kernel.on(device) for name, kernel in self.programs.items()}
        if _are_identical(segments, self.segments) and _are_identical(
            programs, self.programs
        ):
            return self
        constants = {name: tensor.on_host() for name, tensor in self.tensors.items()}
        return HostCode(self.program, segments, programs, constants)

    def functions(
        self, public: Mapping[str, Sequence[str]]
    ) -> dict[str, Callable[..., Any]]:
        """Link the program, and return its public functions.

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


def _are_identical(moved: Mapping[str, object], values: Mapping[str, object]) -> bool:
    """Whether two mappings with the same keys have identical values."""
    return all(moved[name] is value for name, value in values.items())


class VMExecutable(Serializable):
    """The public functions of a module, compiled.

    Args:
        codes: functions that are compiled as a whole, by name.
        host: the other functions, as a host program.
        hosted: parameters of the public functions of the host program, by name.
        options: compile options of JIT-compiled subgraphs.
    """

    def __init__(
        self,
        codes: Mapping[str, NativeFunction],
        host: HostCode | None = None,
        hosted: Mapping[str, Sequence[str]] | None = None,
        options: JITOptions | None = None,
    ) -> None:
        host, hosted = host or HostCode(), hosted or {}
        self._codes, self._host = dict(codes), host
        self._hosted = dict(hosted)
        self.options = options or JITOptions()
        self._functions = {
            name: VMFunction(code.params, code, str(code.executable.signature))
            for name, code in codes.items()
        }
        linked = host.functions(hosted)
        for name, params in hosted.items():
            description = f"({', '.join(params)}), host"
            call = self.options.during(linked[name])
            self._functions[name] = VMFunction(params, call, description)

    def __repr__(self) -> str:
        functions = ", ".join(self.stats().splitlines()) or "no function"
        return f"<{type(self).__name__} {functions}>"

    @property
    def mod(self) -> VMExecutable:
        """The executable itself; for compatibility with TVM."""
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
        """Names of all functions."""
        return list(self._functions)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function called ``name``, from arrays to :class:`NDArray`."""
        function = self.function(name)

        def call(*args: Any) -> Any:
            return function.call(
                *map(to_value, bind_arguments(name, function.params, args))
            )

        return call

    def __call__(self, *args: Any) -> Any:
        """Call ``main``."""
        return self["main"](*args)

    def as_text(self) -> str:
        """Listing of the host program; empty if all functions are native."""
        return format_program(self._host.program)

    as_python = as_text  # the listing has Python syntax

    def stats(self) -> str:
        """The signature of each function, one per line."""
        return "\n".join(f"{n}: {f.description}" for n, f in self._functions.items())

    @property
    def codes(self) -> Mapping[str, NativeFunction]:
        """The functions that are compiled as a whole, by name."""
        return self._codes

    @property
    def host(self) -> HostCode:
        """The host program and its callees."""
        return self._host

    @property
    def hosted(self) -> Mapping[str, Sequence[str]]:
        """Parameters of the public functions of the host program, by name."""
        return self._hosted

    def on(self, device: Device) -> VMExecutable:
        """The executable on a device; itself if it is there already.

        Raises:
            CompileError: a function is compiled for another kind of device.
        """
        moved = {name: code.on(device) for name, code in self._codes.items()}
        options = replace(self.options, ordinal=device.index)
        if self._hosted:
            check_device(device, options.device)
        host = self._host.on(device)
        is_here = options == self.options and host is self._host
        if is_here and _are_identical(moved, self._codes):
            return self
        return VMExecutable(moved, host, self._hosted, options)

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        from relax_mlir.runtime.host.archive import save

        save(path, self)


def bind_arguments(
    name: str,
    params: Sequence[str],
    args: Sequence[Any],
    named: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    """Bind positional and keyword arguments to parameters, in order.

    Raises:
        TypeError: the arguments do not match the parameters.
    """
    named = named or {}
    rest = params[len(args) :]
    if len(args) > len(params) or set(rest) != set(named):
        listed = f" ({', '.join(f'`{p}`' for p in params)})" if params else ""
        passed = ", ".join([str(len(args) or "none"), *(f"`{n}=...`" for n in named)])
        raise TypeError(
            f"`{name}`: expected {len(params)} argument{'s' * (len(params) != 1)}"
            f"{listed}, got {passed}"
        )
    return (*args, *(named[p] for p in rest))

"""Tensor programs as machine code that is called with arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir import compiler
from relax_mlir.errors import (
    PassError,
    RelaxError,
    RunError,
    UnknownAttributeError,
    UnsupportedError,
    near_misses,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names, prim
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt import AssertStmt
from relax_mlir.pipeline import Pipeline
from relax_mlir.program_bounds import required_sizes
from relax_mlir.relax.vm.devices import code_on
from relax_mlir.relax.vm.host_builder import FunctionBuilder, Register
from relax_mlir.relax.vm.host_interpreter import link_function
from relax_mlir.relax.vm.host_program import HostFunction
from relax_mlir.relax.vm.prim_code import emit_scalar
from relax_mlir.relax.vm.timing import Timing, time_calls
from relax_mlir.rewriting import erase, walk
from relax_mlir.runtime import ndarray
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.gpu_array import GPUArray, borrowed, described, uploaded
from relax_mlir.runtime.ndarray import Device, NDArray, is_array, is_on_gpu, shared
from relax_mlir.targets import kind_of

__all__ = ["Kernel", "KernelModule", "compile_kernel", "compile_kernels"]


@dataclass(frozen=True)
class Kernel:
    """One tensor program: called with its parameters, it writes those that it writes.

    One for a GPU takes arrays on the host as well: they are copied there, and what it
    writes is copied back. A call returns when its work is on the stream that all share.

    Attributes:
        name: of the program.
        code: its machine code; its inputs are the parameters.
        written: numbers of the parameters that it writes.
        asserted: checks what the program asserts of its arguments; None for nothing.
    """

    name: str
    code: CompiledModel
    written: tuple[int, ...]
    asserted: HostFunction | None = None

    def __post_init__(self) -> None:
        count = len(self.code.signature.inputs)
        if not all(0 <= number < count for number in self.written):
            raise ValueError(
                f"Kernel: `written`: expected numbers of {count} parameters, got "
                f"{self.written}"
            )

    @cached_property
    def _check_asserted(self) -> Callable[..., Any] | None:
        asserted = self.asserted
        return None if asserted is None else link_function(self.name, asserted)

    def on(self, device: Device) -> Kernel:
        """It, where it runs on a device.

        Raises:
            CompileError: it is compiled for another kind of device.
        """
        code = code_on(self.code, device)
        return self if code is self.code else replace(self, code=code)

    def __call__(self, *args: Any) -> None:
        """Run it.

        Args:
            *args: arrays, numpy's or any with DLPack, and numbers.

        Raises:
            TypeError, ValueError: an argument does not fit its parameter.
            RunError: an argument cannot be written to, or shares memory with another.
            AssertionError: what the program asserts first of all does not hold.
        """
        parameters = self.code.signature.inputs
        if len(args) != len(parameters):
            expected = ", ".join(map(str, parameters)) or "nothing"
            raise TypeError(
                f"`{self.name}`: expected {len(parameters)} arguments ({expected}), got "
                f"{len(args)}"
            )
        arrays = [
            self._number(number, value) if isinstance(value, (int, float)) else value
            for number, value in enumerate(args)
        ]
        known = list(map(_array, arrays))
        for number in self.written:
            self._check_written(number, arrays, known)
        if self._check_asserted is not None:
            self._check_asserted(*args)
        if isinstance(self.code, CudaExecutable):
            self._run_on_gpu(self.code, arrays, known)
        else:
            self.code(*arrays)

    def _number(self, number: int, value: float) -> np.ndarray:
        """A number as an argument."""
        parameter = self.code.signature.inputs[number]
        where = f"`{self.name}`: argument {number} `{parameter.name}`"
        if isinstance(value, float) and "int" in parameter.dtype:
            raise TypeError(f"{where}: expected a whole number, got {value}")
        try:
            return np.array(value, parameter.dtype)
        except OverflowError:
            expected = f"expected a number of {parameter.dtype}"
            raise ValueError(f"{where}: {expected}, got {value}") from None

    def _run_on_gpu(
        self,
        code: CudaExecutable,
        arrays: Sequence[Any],
        known: Sequence[NDArray | None],
    ) -> None:
        """Run it on copies of what is on the host."""
        where = ndarray.cuda(code.ordinal)
        pairs = zip(arrays, known, strict=True)
        given = [value if own is None else own for value, own in pairs]
        for number in self.written:
            own = known[number]
            if own is not None and not isinstance(own, GPUArray):
                given[number] = uploaded(own.on_host(), where)
        code(*given, stay=True, written=self.written)
        for number in self.written:
            own, made = known[number], given[number]
            if own is not None and own is not made:
                own.copyfrom(made)

    def _check_written(
        self, number: int, arrays: Sequence[Any], known: Sequence[NDArray | None]
    ) -> None:
        name = self.code.signature.inputs[number].name
        where = f"`{self.name}`: argument {number} `{name}`"
        own = known[number]
        if own is None and not is_on_gpu(arrays[number]):
            kind = type(arrays[number]).__name__
            raise TypeError(f"{where}: expected an array to write to, got {kind}")
        told, is_fit = "", False
        if isinstance(own, GPUArray):
            if not isinstance(self.code, CudaExecutable):  # it would write to a copy
                raise RunError(
                    f"{where}: expected an array on the CPU to write to, where the program "
                    f"runs, got one on {own.device}. Hint: `array.copyto(cpu())`."
                )
            is_fit = not own.is_read_only
        elif own is not None:
            array = own.on_host()
            is_fit = array.flags.c_contiguous and not own.is_read_only
            told = f"strides {array.strides} of shape {array.shape}"
        if own is None or not is_fit:
            raise RunError(
                f"{where}: expected an array to write to, row after row in memory, on a GPU "
                f"from a multiple of 16 bytes on, got {told or described(arrays[number])}"
            )
        for other, value in enumerate(known):
            if other != number and value is not None and own.shares_memory(value):
                raise RunError(
                    f"{where}: expected memory of its own, got that of argument {other}"
                )

    def time_evaluator(
        self, dev: object = None, number: int = 10, repeat: int = 1, **options: Any
    ) -> Callable[..., Timing]:
        """A function that calls the program often and tells how long it takes.

        Args:
            dev: without effect: it runs on the device that it is compiled for.
            number: calls per repetition.
            repeat: how many repetitions.
            options: how TVM measures; without effect here.
        """
        code = self.code
        is_gpu = isinstance(code, CudaExecutable)
        where = ndarray.cuda(code.ordinal) if is_gpu else ndarray.cpu()
        return time_calls(self, where, number, repeat)


def _array(value: Any) -> NDArray | None:
    """An argument as an array that shares its memory; None if there is no such."""
    if not isinstance(value, NDArray) and is_on_gpu(value):
        return borrowed(value)
    return shared(value) if is_array(value) else None


class KernelModule:
    """The tensor programs of a module as machine code.

    Called, it calls the only one of them, or ``main``.

    Args:
        kernels: by name.
    """

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = dict(kernels)

    @property
    def mod(self) -> KernelModule:
        """Itself."""
        return self

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The programs by name."""
        return self._kernels

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

    @property
    def entry_name(self) -> str:
        """Which program a call of the module calls."""
        if not self._kernels:
            raise UnknownAttributeError("module has no function: expected one to call")
        return "main" if "main" in self._kernels else next(iter(self._kernels))

    @property
    def entry_func(self) -> Kernel:
        """The program that a call of the module calls."""
        return self._kernels[self.entry_name]

    def __getitem__(self, name: str) -> Kernel:
        """The program called ``name``; ``__tvm_main__`` is the first.

        Raises:
            AttributeError: there is none.
        """
        if name in ("__tvm_main__", "__tvm_ffi_main"):
            return self.entry_func
        if name not in self._kernels:
            known = self._kernels
            raise UnknownAttributeError(
                f"module has no function `{name}`: expected one of "
                f"{', '.join(known) or 'none'}."
                f"{near_misses(name, known)}"
            )
        return self._kernels[name]

    get_function = __getitem__

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a program of a name."""
        return name in self._kernels

    def jit(self) -> KernelModule:
        """Itself: it is ready to run."""
        return self

    def __call__(self, *args: Any) -> None:
        """Call the first program; see :class:`Kernel`."""
        self.entry_func(*args)

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        **options: Any,
    ) -> Callable[..., Timing]:
        """A function that calls a program often; see :meth:`Kernel.time_evaluator`."""
        return self[func_name].time_evaluator(dev, number, repeat)

    def __repr__(self) -> str:
        """What the programs take."""
        listed = (f"{n}{k.code.signature}" for n, k in self._kernels.items())
        return f"<KernelModule {', '.join(listed)}>"


def compile_kernels(module: IRModule, options: Mapping[str, Any]) -> KernelModule:
    """Compile all tensor programs of a module that are not private.

    Args:
        module: the module.
        options: those of :func:`relax_mlir.compiler.compile`.

    Raises:
        RelaxError: there is none, or one cannot be compiled.
    """
    functions = [f for f in module.func_ops() if names.is_prim_func(f)]
    shown = [f for f in functions if not names.is_private(f)] or functions
    if not shown:
        raise RelaxError("module: expected a tensor program to compile, got none")
    called = [f.name.value for f in shown]
    return KernelModule({n: compile_kernel(module, n, options) for n in called})


def compile_kernel(module: IRModule, name: str, options: Mapping[str, Any]) -> Kernel:
    """Compile one tensor program of a module; see :func:`compile_kernels`.

    Raises:
        RelaxError: it cannot be compiled.
    """
    asserted = _asserted(name, module[name])
    try:
        with module.context:
            required_sizes(module.func_op(name))
    except ValueError as error:
        raise PassError(str(error)) from error
    alone = module.clone()
    for function in alone.func_ops():
        if not names.is_prim_func(function):  # graphs may not be ready to be compiled
            erase(function)
    # What starts kernels of a GPU is given sizes, and no other numbers.
    is_gpu = kind_of(options.get("target", "cpu")) != "cpu"
    how = f"program={name} integers={str(is_gpu).lower()}"
    Pipeline.parse(f"tir-collapse-loops,tir-make-main{{{how}}}").run(alone)
    with alone.context:
        written = _written(alone)
    code = compiler.compile_model(alone, **options)
    return Kernel(name, code, written, asserted)


def _asserted(name: str, program: PrimFunc) -> HostFunction | None:
    """A check of what a program asserts of its parameters in front of anything else."""
    builder = FunctionBuilder([param.name for param in program.params])
    known: dict[prim.Var, Callable[[], Register]] = {}
    for register, param in zip(builder.params, program.params, strict=True):
        buffer = program.buffer_map.get(param)
        if buffer is None:
            known[param] = partial(builder.emit, "scalar", [register])
            continue
        for axis, size in enumerate(buffer.shape):
            if isinstance(size, prim.Var):
                dim = partial(builder.emit, "dim", [register], [axis])
                known.setdefault(size, dim)
    is_any, statement = False, program.body
    while isinstance(statement, AssertStmt):
        used = prim.post_order(statement.condition)
        if any(isinstance(t, prim.Var) and t not in known for t in used):
            break
        try:
            with builder.block() as block:
                condition = emit_scalar(
                    builder, statement.condition, lambda var: known[var]()
                )
        except UnsupportedError:  # it reads a buffer
            break
        builder.splice(block)
        message = str(getattr(statement.message, "value", ""))
        told = f"`{name}`: {message}"
        builder.emit_to([], "require", [condition], [told])
        is_any, statement = True, statement.body
    return builder.finish(builder.literal(None)) if is_any else None


def _written(module: IRModule) -> tuple[int, ...]:
    """The inputs of ``main`` that the program it calls does not only read."""
    main = module.func_op("main")
    (call,) = (o for o in walk(main) if o.operation.name == "func.call")
    program = module.func_op(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    changed = [_is_written(a) for a in program.entry_block.arguments]
    passed = list(call.operands)
    inputs = list(main.entry_block.arguments)
    return tuple(
        number
        for number, value in enumerate(inputs)
        if any(c and p == value for c, p in zip(changed, passed, strict=True))
    )


_READS = frozenset({"memref.load", "memref.dim", "vector.load"})


def _is_written(buffer: ir.Value) -> bool:
    if not isinstance(buffer.type, ir.MemRefType):
        return False
    for use in buffer.uses:
        owner = use.owner.operation
        if owner.name == "memref.subview":
            if _is_written(owner.results[0]):
                return True
        elif owner.name not in _READS:
            return True
    return False

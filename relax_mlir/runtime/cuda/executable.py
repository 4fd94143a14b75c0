"""Executables for NVIDIA GPUs: launch plan, PTX, weights and signature of a model."""

from __future__ import annotations

import functools
import math
import os
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import CompileError, DeviceError, UnknownNameError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.archive import Contents, write_archive
from relax_mlir.runtime.cuda.arrays import (
    ArrayView,
    DeviceArray,
    are_disjoint,
    host_view,
    overlap,
    stream_number,
    unwrap,
)
from relax_mlir.runtime.cuda.call_queue import CallLock, Output, PendingCall
from relax_mlir.runtime.cuda.cuda_graph import CapturedCall, check_capturable
from relax_mlir.runtime.cuda.devices import Device, Event, device
from relax_mlir.runtime.cuda.input_validation import ArgumentValidator, argument_name
from relax_mlir.runtime.cuda.session import Session, SizeSpecialization
from relax_mlir.runtime.cuda.strided_copy import copy_in, copy_out
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.sizes import SizeBinder

__all__ = ["CudaExecutable"]

_SHOWN = 8  # kernels per message


class CudaExecutable(CompiledModel):
    """A compiled model for an NVIDIA GPU; call it with arrays.

    With numpy arrays, inputs and outputs are copied, and calls are synchronous. If an input
    is on the GPU (torch, cupy, jax: anything with DLPack or the CUDA array interface), it is
    used in place, outputs are :class:`DeviceArray`, and a call returns when its work is
    enqueued on its stream. Concurrent calls are allowed, and serialised.

    The device is opened at the first call: a model can be compiled, saved and loaded on
    machines without a GPU.

    Args:
        contents: of its file.
        ordinal: of the GPU.

    Raises:
        CompileError: a weight is missing, or no input dimension binds a symbol.
    """

    def __init__(self, contents: Contents, ordinal: int = 0) -> None:
        self.contents, self.ordinal = contents, ordinal
        self.signature = Signature.from_fields(contents.signature)
        self.threads = 1
        self.kernels = contents.kernels
        missing = [k for k in self.signature.constants if k not in contents.constants]
        if missing:
            raise CompileError(f"the module's constants lack `{missing[0]}`")
        self._binder = SizeBinder(self.signature)
        self._validator = ArgumentValidator(self.signature, ordinal)
        self._lock = CallLock()
        self._session: Session | None = None

    @property
    def target(self) -> str:
        """The compilation target, such as ``cuda:sm_90``."""
        return f"cuda:{self.contents.chip.rstrip('a')}"

    @property
    def size_bytes(self) -> int:
        """Size of code and weights."""
        weights = sum(array.nbytes for array in self.contents.constants.values())
        return weights + sum(map(len, self.contents.ptx))

    def on(self, ordinal: int) -> CudaExecutable:
        """The same model on another GPU of this machine."""
        return CudaExecutable(self.contents, ordinal)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``, which is the model itself.

        Raises:
            KeyError: the name is not ``main``.
        """
        if name != "main":
            raise UnknownNameError(f"executable has one function, `main`, got `{name}`")
        return self

    def __call__(
        self,
        *arrays: Any,  # Any: array-likes, and arrays on the GPU
        out: Sequence[Any] | None = None,
        stream: Any = None,  # Any: of torch, cupy, ...
        graph: bool = True,
        stay: bool = False,
        written: Collection[int] = (),
        **named: Any,
    ) -> tuple[Any, ...]:
        """Run the model.

        Args:
            *arrays: inputs in order; or by name.
            out: arrays to write the outputs to, instead of new ones.
            stream: for arrays on the GPU: the driver's handle, or an object with
                ``cuda_stream``, ``ptr`` or ``__cuda_stream__``; by default the legacy
                default stream, 0.
            graph: whether repeated calls with the same addresses use a CUDA graph.
            stay: whether outputs stay on the GPU even if all inputs are on the host.
            written: indices of inputs that a PrimFunc writes to; they must be on the GPU,
                C-contiguous and aligned to 16 bytes.

        Returns:
            The outputs.

        Raises:
            TypeError: the number, name, element type or device of an input is wrong.
            ValueError: a rank or size is wrong, or an output array is not writable.
            OutOfMemoryError: the GPU is out of memory; the call allocates nothing then.
            DeviceError: the GPU does not exist, or its driver reports an error.
        """
        arrays, out = self._bound(arrays, out, named)
        self._check_inputs(len(arrays))
        arrays, caller_out = tuple(map(unwrap, arrays)), out
        if out is not None:
            self._check_count(out)
            out = list(map(unwrap, out))
        with self._lock, self._device.current():
            session = self._ready()
            handle = 0 if stream is None else self._handle(stream)
            gpu, number = self._device, session.number
            inputs = self._validator.inputs(arrays, gpu, handle, number, written)
            targets = None
            if out is not None:
                targets = self._validator.outputs(out, gpu, handle, number)
            views = inputs if targets is None else inputs + targets
            on_host = not stay and {view.ordinal for view in views} <= {None}
            call_stream = session.stream if on_host else handle
            prepared = self._prepare(session, inputs)
            self._check_targets(targets or (), prepared)
            call = PendingCall(prepared, call_stream, inputs, targets, on_host)
            outputs, event = self._run(session, call, out, graph)
            for argument, array in enumerate(arrays):
                if isinstance(array, DeviceArray):
                    array.note_use(number, event, is_written=argument in written)
            for output in outputs:
                if isinstance(output.result, DeviceArray):
                    output.result.note_use(number, event, is_written=True)
        return tuple([o.result for o in outputs] if caller_out is None else caller_out)

    def captured(
        self,
        *arrays: Any,  # Any: arrays on the GPU
        out: Sequence[Any] | None = None,
        stream: Any = None,  # Any: of torch, cupy, ...
        **named: Any,
    ) -> CapturedCall:
        """Run the model, and capture the call as a CUDA graph for repeated launches.

        A launch takes a few microseconds: only the ordering with other uses of the arrays
        is checked.

        Args:
            *arrays: inputs in order; or by name. Their elements may change between calls,
                their addresses may not.
            out: arrays that every call writes the outputs to, instead of new ones.
            stream: as for a call.

        Raises:
            TypeError, ValueError, OutOfMemoryError: as for a call; or an array is not on
                the GPU, not C-contiguous or not aligned to 16 bytes, or is both input and
                output.
            DeviceError: as for a call; or the model calls host functions.
        """
        arrays, out = self._bound(arrays, out, named)
        if self.contents.plan.calls_host:
            raise DeviceError("`main`: it calls host functions, and cannot be captured")
        self._check_inputs(len(arrays))
        unwrapped = tuple(map(unwrap, arrays))
        with self._lock, self._device.current():
            session = self._ready()
            gpu, number = self._device, session.number
            handle = 0 if stream is None else self._handle(stream)
            inputs = self._validator.inputs(unwrapped, gpu, handle, number)
            targets: list[ArrayView] = []
            if out is not None:
                self._check_count(out)
                unwrapped_out = list(map(unwrap, out))
                targets = self._validator.outputs(unwrapped_out, gpu, handle, number)
            check_capturable(inputs, targets)
        outputs = self(*arrays, out=out, stream=stream, graph=False, stay=True)
        results = list(map(unwrap, outputs))
        with self._lock, self._device.current():
            if out is None:
                targets = self._validator.outputs(results, gpu, handle, number)
            views = (*inputs, *targets)
            prepared = self._prepare(session, inputs)
        held = self, stream, views  # views keep arrays of other libraries alive
        addresses = [view.address for view in views]
        state = held, self._lock, session, prepared
        all_arrays = (*unwrapped, *results)
        return CapturedCall(*state, all_arrays, addresses, outputs, handle)

    def _run(
        self,
        session: Session,
        call: PendingCall,
        out: Sequence[Any] | None,  # Any: arrays of the caller
        graph: bool,
    ) -> tuple[list[Output], Event]:
        """Enqueue a call on its stream; returns its outputs, and the event after it."""
        stream = call.stream
        session.begin(call.prepared, stream)
        try:
            session.reserve()
            outputs = self._outputs(session, call, out)
            written = [output.address for output in outputs]
            bases = session.bases(self._input_addresses(call), written)
            plan = call.prepared.plan
            session.launches.run(plan, bases, stream, use_graph=graph)
            if call.on_host:
                self._finish(stream)
            for output in outputs:
                if output.copied is not None:
                    copy_out(self._device, output.address, output.copied, stream)
            event = Event(self._device, stream)
            session.end(event, call.borrowed)
            return outputs, event
        except BaseException as error:
            session.abandon(stream, error, call.borrowed)
            call.give_back()
            raise

    def _handle(self, stream: Any) -> int:  # Any: of torch, cupy, ...
        """The driver's handle of a stream, validated.

        Raises:
            TypeError: it is not a stream.
            ValueError: its number is invalid.
            DeviceError: it is being captured.
        """
        handle = _handle(stream)
        self._device.check_stream(handle)
        return handle

    @functools.cached_property
    def _device(self) -> Device:
        """The GPU.

        Raises:
            DeviceError: it does not exist, or cannot run the code.
        """
        gpu = device(self.ordinal)
        chip = self.contents.chip
        wanted = int(chip.removeprefix("sm_").rstrip("a"))
        # Architecture-specific code (`sm_90a`) is not forward compatible.
        has = gpu.compute_capability
        if has != wanted if chip.endswith("a") else has < wanted:
            raise DeviceError(
                f"`main`: compiled for {self.target}, GPU {self.ordinal} ({gpu.name}) "
                f'is sm_{has}. Compile it again with `target="cuda:sm_{has}"`'
            )
        return gpu

    def _ready(self) -> Session:
        if self._session is None:
            constants = self.contents.constants
            self._session = Session(
                self._device,
                self.contents.plan,
                self.contents.ptx,
                [kernel.name for kernel in self.kernels],
                [np.ascontiguousarray(constants[k]) for k in self.signature.constants],
                _host_function,
                self._lock.lock,
            )
            finalizer = weakref.finalize(self, _close, self._device, self._session)
            finalizer.atexit = False  # the driver frees everything at exit
        return self._session

    def _check_inputs(self, count: int) -> None:
        inputs, outputs = len(self.signature.inputs), len(self.signature.outputs)
        if count != inputs:
            raise TypeError(
                f"`main`: expected {inputs} arguments, or {inputs + outputs} with outputs, "
                f"got {count}"
            )

    def _prepare(
        self, session: Session, inputs: Sequence[ArrayView]
    ) -> SizeSpecialization:
        shapes = tuple(view.shape for view in inputs)
        known = session.known(shapes)
        if known is not None:
            return known
        sizes = self._binder.bind(shapes)
        output_shapes = self._binder.output_shapes(sizes)
        arena_bytes = self._binder.arena_bytes(sizes)
        held_bytes = {
            "input": [view.size_bytes for view in inputs],
            "output": [
                math.prod(shape) * element_type(parameter.dtype).itemsize
                for shape, parameter in zip(
                    output_shapes, self.signature.outputs, strict=True
                )
            ],
            "arena": [arena_bytes],
        }
        return session.prepare(shapes, sizes, output_shapes, held_bytes)

    def _check_targets(
        self, targets: Sequence[ArrayView], prepared: SizeSpecialization
    ) -> None:
        are_all_disjoint = are_disjoint(targets)
        for number, target in enumerate(targets):
            if target.shape != prepared.output_shapes[number]:  # raises the error
                self._binder.check_output(number, target.shape, prepared.sizes)
            for other in range(0 if are_all_disjoint else number):
                if overlap(target, targets[other]):
                    where = argument_name(
                        "output", number, self.signature.outputs[number]
                    )
                    raise ValueError(f"{where}: shares memory with output {other}")

    def _outputs(
        self,
        session: Session,
        call: PendingCall,
        out: Sequence[Any] | None,  # Any: arrays of the caller
    ) -> list[Output]:
        if call.targets is not None and out is not None:
            return [
                Output(view.address, result)
                if view.ordinal is not None and view.is_plain
                else self._copied(call.prepared, number, result, view)
                for number, (result, view) in enumerate(
                    zip(out, call.targets, strict=True)
                )
            ]
        outputs: list[Output] = []
        for number, shape in enumerate(call.prepared.output_shapes):
            parameter = self.signature.outputs[number]
            if call.on_host:
                result = np.empty(shape, element_type(parameter.dtype))
                view = host_view(result)
                outputs.append(self._copied(call.prepared, number, result, view))
                continue
            where = f"`main`: output `{parameter.name}`"
            result = session.new_array(shape, parameter.dtype, call.stream, where)
            call.taken.append(result.memory)
            outputs.append(Output(result.address, result))
        return outputs

    def _copied(
        self,
        prepared: SizeSpecialization,
        number: int,
        result: Any,  # Any: arrays of the caller
        view: ArrayView,
    ) -> Output:
        """An output that kernels cannot write in place, so it is staged."""
        where = f"`main`: output `{self.signature.outputs[number].name}`"
        address = prepared.staging("output", number, view.size_bytes, where)
        return Output(address, result, view)

    def _input_addresses(self, call: PendingCall) -> list[int]:
        """Addresses of the inputs, staged if kernels cannot use them in place.

        An input that aliases an output is staged, too: the program may write early.
        """
        addresses: list[int] = []
        targets = call.targets or ()
        if are_disjoint((*call.inputs, *targets)):
            targets = ()
        for number, view in enumerate(call.inputs):
            is_direct = view.ordinal is not None and view.is_plain
            for target in targets:
                is_direct = is_direct and not overlap(view, target)
            addresses.append(
                view.address if is_direct else self._staged(call, number, view)
            )
        return addresses

    def _staged(self, call: PendingCall, number: int, view: ArrayView) -> int:
        """Copy an input to staging memory; returns its address."""
        where = argument_name("argument", number, self.signature.inputs[number])
        address = call.prepared.staging("input", number, view.size_bytes, where)
        kept = copy_in(
            self._device, view, address, call.stream, is_waited_for=call.on_host
        )
        call.borrowed.append(kept)
        return address

    def _finish(self, stream: int) -> None:
        names = [f"`{name}`" for name in dict.fromkeys(k.name for k in self.kernels)]
        listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        what = f"`main`: it failed on the GPU, in one of its kernels ({listed})"
        self._device.driver.call("cuStreamSynchronize", stream, what=what)

    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        if calls < 1:
            raise ValueError(f"calls: expected 1 or more, got {calls}")
        arrays, _ = self._bound(arrays, None, named)
        self._check_inputs(len(arrays))
        arrays = tuple(map(unwrap, arrays))
        with self._lock, self._device.current():
            session = self._ready()
            stream = session.stream
            gpu, number = self._device, session.number
            inputs = self._validator.inputs(arrays, gpu, stream, number)
            prepared = self._prepare(session, inputs)
            call = PendingCall(prepared, stream, inputs, None, on_host=True)
            session.begin(prepared, stream)
            try:
                session.reserve()
                outputs = self._outputs(session, call, None)
                written = [output.address for output in outputs]
                bases = session.bases(self._input_addresses(call), written)
                launches, plan = session.launches, prepared.plan
                launches.run(plan, bases, stream, use_graph=False)
                measured = [
                    launches.measure(plan, bases, stream, len(self.kernels))
                    for _ in range(calls)
                ]
            except BaseException as error:
                session.abandon(stream, error, call.borrowed)
                raise
            session.end(Event(self._device, stream), call.borrowed)
        durations, totals = zip(*measured, strict=True)
        shape = (calls, len(self.kernels))
        times = np.array(durations, np.int64).reshape(shape)
        return Profile(self.kernels, times, np.array(totals))

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        write_archive(path, self.contents)


def _handle(stream: Any) -> int:  # Any: of torch, cupy, ...
    """The driver's handle of a stream.

    Raises:
        TypeError: it is not a stream.
        ValueError: its number is invalid.
    """
    if hasattr(stream, "__cuda_stream__"):
        _, stream = stream.__cuda_stream__()
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    if stream is None or stream == 0:
        return 0
    if not isinstance(stream, int):
        raise TypeError(
            "`stream`: expected the driver's handle, or an object with `cuda_stream`, "
            f"`ptr` or `__cuda_stream__`, got {type(stream).__name__}"
        )
    return stream_number(stream)


def _host_function(name: str) -> Callable[..., object]:
    """A host function that a model calls by name.

    Raises:
        DeviceError: the function registry of relax_mlir is not installed.
        ValueError: the name is not registered.
    """
    try:
        # Imported late: most models need only the driver.
        from relax_mlir.runtime.ndarray import shared
        from relax_mlir.runtime.registry import get_global_func
    except ImportError as error:
        raise DeviceError(
            f"`main`: it calls `{name}` on the host, for which relax_mlir must be "
            f"installed here: {error}"
        ) from error
    function = get_global_func(name)
    return lambda *arrays: function(*map(shared, arrays))


def _close(device: Device, session: Session) -> None:
    with device.current():
        session.close()

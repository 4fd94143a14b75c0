"""A compiled model that runs on an NVIDIA GPU."""

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
    DeviceArray,
    View,
    are_apart,
    host_view,
    meet,
    stream_number,
    unwrapped,
)
from relax_mlir.runtime.cuda.calls import Call, Output, Turn
from relax_mlir.runtime.cuda.captured import CapturedCall, check_captured
from relax_mlir.runtime.cuda.copies import copy_in, copy_out
from relax_mlir.runtime.cuda.devices import Device, Event, device
from relax_mlir.runtime.cuda.given import GivenArrays, place_of
from relax_mlir.runtime.cuda.session import Prepared, Session
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.sizes import SizeBinder

__all__ = ["CudaExecutable"]

_SHOWN = 8  # kernels


class CudaExecutable(CompiledModel):
    """A compiled model that runs on an NVIDIA GPU; call it with arrays.

    Arrays of numpy go in and come out, by copies, and a call returns when all is done.
    Where an input is on the GPU (torch, cupy, jax: whatever has DLPack or the CUDA array
    interface), it is used there, outputs are :class:`DeviceArray`, and a call returns
    when its work is on its stream. Threads may call one executable at once; their calls
    come one after the other.

    The device is looked for at the first call: a model can be compiled, saved and loaded
    where there is none.

    Args:
        contents: what a file of it holds.
        ordinal: of the GPU.

    Raises:
        CompileError: a weight is not there, or no input tells a size.
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
        self._given = GivenArrays(self.signature, ordinal)
        self._turn = Turn()
        self._session: Session | None = None

    @property
    def target(self) -> str:
        """What it is compiled for, such as ``cuda:sm_90``."""
        return f"cuda:{self.contents.chip.rstrip('a')}"

    @property
    def size_bytes(self) -> int:
        """Of code and weights."""
        weights = sum(array.nbytes for array in self.contents.constants.values())
        return weights + sum(map(len, self.contents.ptx))

    def on(self, ordinal: int) -> CudaExecutable:
        """The same model on another GPU of this machine."""
        return CudaExecutable(self.contents, ordinal)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``: calling it is calling the model.

        Raises:
            KeyError: another name.
        """
        if name != "main":
            raise UnknownNameError(f"executable has one function, `main`, got `{name}`")
        return self

    def __call__(
        self,
        *arrays: Any,  # Any: whatever numpy takes, and arrays on the GPU
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
            stream: where the work goes, if arrays are on the GPU: the driver's handle, or
                an object with ``cuda_stream``, ``ptr`` or ``__cuda_stream__``; by default
                the stream that all libraries share, 0.
            graph: whether calls with arrays at the same addresses become one launch.
            stay: whether outputs stay on the GPU although all inputs are on the host.
            written: numbers of inputs that a tensor program writes to; on the GPU, row
                after row from a multiple of 16 bytes on.

        Returns:
            The outputs.

        Raises:
            TypeError: a wrong number of inputs, name, element type or device.
            ValueError: a wrong rank or size, or an array that cannot be written to.
            OutOfMemoryError: the GPU has not enough memory; nothing is taken then.
            DeviceError: there is no such GPU, or its driver refuses something.
        """
        if named:
            arrays = self._in_order(arrays, named)
        self._check_inputs(len(arrays))
        arrays, given = tuple(map(unwrapped, arrays)), out
        if out is not None:
            self._check_count(out)
            out = list(map(unwrapped, out))
        with self._turn, self._device.current():
            session = self._ready()
            chosen = 0 if stream is None else self._handle(stream)
            gpu, number = self._device, session.number
            inputs = self._given.inputs(arrays, gpu, chosen, number, written)
            targets = None
            if out is not None:
                targets = self._given.outputs(out, gpu, chosen, number)
            seen = inputs if targets is None else inputs + targets
            on_host = not stay and {view.ordinal for view in seen} <= {None}
            place = session.stream if on_host else chosen
            prepared = self._prepare(session, inputs)
            self._check_targets(targets or (), prepared)
            call = Call(prepared, place, inputs, targets, on_host)
            outputs, event = self._run(session, call, out, graph)
            for argument, array in enumerate(arrays):
                if isinstance(array, DeviceArray):
                    array.note_use(number, event, is_written=argument in written)
            for output in outputs:
                if isinstance(output.result, DeviceArray):
                    output.result.note_use(number, event, is_written=True)
        return tuple([o.result for o in outputs] if given is None else given)

    def captured(
        self,
        *arrays: Any,  # Any: arrays on the GPU
        out: Sequence[Any] | None = None,
        stream: Any = None,  # Any: of torch, cupy, ...
        **named: Any,
    ) -> CapturedCall:
        """Run the model, and capture the call: it is started again by what is returned.

        To start it takes a few microseconds: nothing is looked at again but where other
        calls have used the arrays.

        Args:
            *arrays: inputs in order; or by name. What is in them may change between
                calls, not where they are.
            out: arrays that every call writes the outputs to, instead of new ones.
            stream: as of a call.

        Raises:
            TypeError, ValueError, OutOfMemoryError: as a call does; or an array is not
                on the GPU, does not lie row after row from a multiple of 16 bytes on, or
                is input and output.
            DeviceError: as a call does; or functions on the host take part.
        """
        if named:
            arrays = self._in_order(arrays, named)
        if self.contents.plan.calls_host:
            raise DeviceError(
                "`main`: it calls functions on the host: it is no one launch"
            )
        self._check_inputs(len(arrays))
        given = tuple(map(unwrapped, arrays))
        with self._turn, self._device.current():
            session = self._ready()
            gpu, number = self._device, session.number
            chosen = 0 if stream is None else self._handle(stream)
            inputs = self._given.inputs(given, gpu, chosen, number)
            targets: list[View] = []
            if out is not None:
                self._check_count(out)
                wanted = list(map(unwrapped, out))
                targets = self._given.outputs(wanted, gpu, chosen, number)
            check_captured(inputs, targets)
        outputs = self(*arrays, out=out, stream=stream, graph=False, stay=True)
        results = list(map(unwrapped, outputs))
        with self._turn, self._device.current():
            if out is None:
                targets = self._given.outputs(results, gpu, chosen, number)
            views = (*inputs, *targets)
            prepared = self._prepare(session, inputs)
        held = self, stream, views  # what is in memory of other libraries
        addresses = [view.address for view in views]
        own = held, self._turn, session, prepared
        return CapturedCall(*own, (*given, *results), addresses, outputs, chosen)

    def _run(
        self,
        session: Session,
        call: Call,
        out: Sequence[Any] | None,  # Any: whatever the caller gave
        graph: bool,
    ) -> tuple[list[Output], Event]:
        """Put a call on its stream: its outputs, and the place behind it."""
        stream = call.stream
        session.begin(call.prepared, stream)
        try:
            session.reserve()
            outputs = self._outputs(session, call, out)
            written = [output.address for output in outputs]
            bases = session.bases(self._placed(call), written)
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
        """The driver's handle of a stream that a call may use.

        Raises:
            TypeError: it is no stream.
            ValueError: it is no stream's number.
            DeviceError: its work is being captured.
        """
        handle = _handle(stream)
        self._device.check_stream(handle)
        return handle

    @functools.cached_property
    def _device(self) -> Device:
        """The GPU.

        Raises:
            DeviceError: there is none, or it is no such one as the code is for.
        """
        found = device(self.ordinal)
        chip = self.contents.chip
        wanted = int(chip.removeprefix("sm_").rstrip("a"))
        # Code for all that one kind of GPU has runs on no other.
        has = found.compute_capability
        if has != wanted if chip.endswith("a") else has < wanted:
            raise DeviceError(
                f"`main`: compiled for {self.target}, GPU {self.ordinal} ({found.name}) "
                f'is sm_{has}. Compile it again with `target="cuda:sm_{has}"`'
            )
        return found

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
                self._turn.lock,
            )
            ending = weakref.finalize(self, _close, self._device, self._session)
            ending.atexit = False  # the driver takes all back by itself
        return self._session

    def _check_inputs(self, count: int) -> None:
        inputs, outputs = len(self.signature.inputs), len(self.signature.outputs)
        if count != inputs:
            raise TypeError(
                f"`main`: expected {inputs} arguments, or {inputs + outputs} with outputs, "
                f"got {count}"
            )

    def _prepare(self, session: Session, inputs: Sequence[View]) -> Prepared:
        shapes = tuple(view.shape for view in inputs)
        found = session.known(shapes)
        if found is not None:
            return found
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

    def _check_targets(self, targets: Sequence[View], prepared: Prepared) -> None:
        are_all_apart = are_apart(targets)
        for number, target in enumerate(targets):
            if target.shape != prepared.output_shapes[number]:  # it says what is wrong
                self._binder.check_output(number, target.shape, prepared.sizes)
            for other in range(0 if are_all_apart else number):
                if meet(target, targets[other]):
                    where = place_of("output", number, self.signature.outputs[number])
                    raise ValueError(f"{where}: shares memory with output {other}")

    def _outputs(
        self,
        session: Session,
        call: Call,
        out: Sequence[Any] | None,  # Any: whatever the caller gave
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
        made: list[Output] = []
        for number, shape in enumerate(call.prepared.output_shapes):
            parameter = self.signature.outputs[number]
            if call.on_host:
                result = np.empty(shape, element_type(parameter.dtype))
                view = host_view(result)
                made.append(self._copied(call.prepared, number, result, view))
                continue
            where = f"`main`: output `{parameter.name}`"
            result = session.new_array(shape, parameter.dtype, call.stream, where)
            call.taken.append(result.memory)
            made.append(Output(result.address, result))
        return made

    def _copied(
        self,
        prepared: Prepared,
        number: int,
        result: Any,  # Any: whatever the caller gave
        view: View,
    ) -> Output:
        """An output that kernels cannot write where it goes."""
        where = f"`main`: output `{self.signature.outputs[number].name}`"
        address = prepared.staging("output", number, view.size_bytes, where)
        return Output(address, result, view)

    def _placed(self, call: Call) -> list[int]:
        """Where kernels find the inputs: in memory of ours if they cannot be used as is.

        An input that shares memory with an output is such, too: the program may write early.
        """
        found: list[int] = []
        targets = call.targets or ()
        if are_apart((*call.inputs, *targets)):
            targets = ()
        for number, view in enumerate(call.inputs):
            is_ready = view.ordinal is not None and view.is_plain
            for target in targets:
                is_ready = is_ready and not meet(view, target)
            found.append(view.address if is_ready else self._staged(call, number, view))
        return found

    def _staged(self, call: Call, number: int, view: View) -> int:
        """Where a copy of an input is."""
        where = place_of("argument", number, self.signature.inputs[number])
        address = call.prepared.staging("input", number, view.size_bytes, where)
        kept = copy_in(
            self._device, view, address, call.stream, is_waited_for=call.on_host
        )
        call.borrowed.append(kept)
        return address

    def _finish(self, stream: int) -> None:
        names = [f"`{name}`" for name in dict.fromkeys(k.name for k in self.kernels)]
        listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        what = f"`main`: it fails on the GPU, in one of its kernels ({listed})"
        self._device.driver.call("cuStreamSynchronize", stream, what=what)

    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        if calls < 1:
            raise ValueError(f"calls: expected 1 or more, got {calls}")
        if named:
            arrays = self._in_order(arrays, named)
        self._check_inputs(len(arrays))
        arrays = tuple(map(unwrapped, arrays))
        with self._turn, self._device.current():
            session = self._ready()
            stream = session.stream
            gpu, number = self._device, session.number
            inputs = self._given.inputs(arrays, gpu, stream, number)
            prepared = self._prepare(session, inputs)
            call = Call(prepared, stream, inputs, None, on_host=True)
            session.begin(prepared, stream)
            try:
                session.reserve()
                outputs = self._outputs(session, call, None)
                written = [output.address for output in outputs]
                bases = session.bases(self._placed(call), written)
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

    def save(self, path: str | os.PathLike[str]) -> None:
        write_archive(path, self.contents)

    def write_to(self, file: BinaryIO) -> None:
        write_archive(file, self.contents)


def _handle(stream: Any) -> int:  # Any: of torch, cupy, ...
    """The driver's handle of a stream.

    Raises:
        TypeError: it is no stream.
        ValueError: it is no stream's number.
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
    """A function on the host that a model calls by name.

    Raises:
        DeviceError: nothing that could find it is installed.
        ValueError: there is none.
    """
    try:
        # Loaded here: most models need nothing but the driver.
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

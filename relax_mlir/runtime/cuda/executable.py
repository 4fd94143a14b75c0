"""A compiled model that runs on an NVIDIA GPU."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.errors import CompileError, DeviceError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.archive import Contents, write_archive
from relax_mlir.runtime.cuda.arrays import (
    DeviceArray,
    View,
    device_view,
    host_view,
    meet,
)
from relax_mlir.runtime.cuda.copies import copy_in, copy_out
from relax_mlir.runtime.cuda.devices import Device, Reservation, device
from relax_mlir.runtime.cuda.session import Prepared, Session
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Parameter, Signature
from relax_mlir.runtime.sizes import SizeBinder

__all__ = ["CudaExecutable"]

_SHOWN = 8  # kernels


@dataclass
class _Output:
    """Where an output is written, and where it goes.

    Attributes:
        address: that kernels write to.
        result: what the caller gets.
        copied: what it is copied to afterwards, if kernels cannot write there.
    """

    address: int
    result: Any  # Any: whatever the caller gave
    copied: View | None = None

    def finish(self, device: Device, stream: int) -> None:
        """Bring it where it goes, when kernels have been put on a stream."""
        if self.copied is not None:
            copy_out(device, self.address, self.copied, stream)
        if isinstance(self.result, DeviceArray):
            self.result.stream = stream


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
        self._lock = threading.Lock()
        self._session: Session | None = None

    @property
    def target(self) -> str:
        """What it is compiled for, such as ``cuda:sm_90``."""
        return f"cuda:{self.contents.chip.rstrip('a')}"

    def on(self, ordinal: int) -> CudaExecutable:
        """The same model on another GPU of this machine."""
        return CudaExecutable(self.contents, ordinal)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``: calling it is calling the model.

        Raises:
            KeyError: another name.
        """
        if name != "main":
            raise KeyError(f"executable has one function, `main`, got `{name}`")
        return self

    def __call__(
        self,
        *arrays: Any,  # Any: whatever numpy takes, and arrays on the GPU
        out: Sequence[Any] | None = None,
        stream: Any = None,  # Any: of torch, cupy, ...
        graph: bool = True,
        **named: Any,
    ) -> tuple[Any, ...]:
        """Run the model.

        Args:
            *arrays: inputs in order; or by name.
            out: arrays to write the outputs to, instead of new ones.
            stream: where the work goes, if arrays are on the GPU: the driver's handle, or
                an object with ``cuda_stream`` or ``ptr``; by default the stream that all
                libraries share, 0.
            graph: whether calls with arrays at the same addresses become one launch.

        Returns:
            The outputs.

        Raises:
            TypeError: a wrong number of inputs, name, element type or device.
            ValueError: a wrong rank or size; the message names input and dimension.
            OutOfMemoryError: the GPU has not enough memory; nothing is taken then.
            DeviceError: there is no such GPU, or its driver refuses something.
        """
        if named:
            arrays = self._in_order(arrays, named)
        if out is not None:
            self._check_count(out)
        self._check_inputs(len(arrays))
        with self._lock, self._device.current():
            session = self._ready()
            chosen = _handle(stream)
            inputs = self._views(arrays, chosen)
            targets = self._targets(out, chosen)
            on_host = all(v.ordinal is None for v in (*inputs, *(targets or ())))
            place = session.stream if on_host else chosen
            prepared = self._prepare(session, inputs)
            self._check_targets(targets, prepared)
            with session.call(prepared, place), Reservation() as reservation:
                given = None if out is None else zip(out, targets or (), strict=True)
                outputs = self._outputs(session, prepared, given, place, reservation)
                addresses = self._placed(prepared, inputs, targets, place)
                if not on_host and any(v.ordinal is None for v in inputs):
                    self._finish(place)  # the caller may change what is copied
                bases = prepared.bases(addresses, [o.address for o in outputs])
                prepared.launches.run(bases, place, graph)
                if on_host:
                    self._finish(place)
                for output in outputs:
                    output.finish(self._device, place)
            return tuple(output.result for output in outputs)

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

    def _views(self, arrays: Sequence[Any], stream: int) -> list[View]:
        views: list[View] = []
        for number, (array, parameter) in enumerate(
            zip(arrays, self.signature.inputs, strict=True)
        ):
            where = f"`main`: argument {number} `{parameter.name}`"
            view = device_view(array, self._device, stream) or host_view(array)
            self._check_view(view, parameter, where)
            views.append(view)
        return views

    def _targets(self, out: Sequence[Any] | None, stream: int) -> list[View] | None:
        """The arrays to write to, after a look whether they can be."""
        if out is None:
            return None
        views: list[View] = []
        for number, (array, parameter) in enumerate(
            zip(out, self.signature.outputs, strict=True)
        ):
            where = f"`main`: output {number} `{parameter.name}`"
            view = device_view(array, self._device, stream)
            if view is None:
                if not isinstance(array, np.ndarray):
                    raise TypeError(
                        f"{where}: expected an array, got {type(array).__name__}"
                    )
                view = host_view(array)
                if view.owner is not array:
                    raise ValueError(
                        f"{where}: expected strides of whole elements, got "
                        f"{array.strides} bytes"
                    )
            self._check_view(view, parameter, where)
            if view.is_read_only:
                raise ValueError(
                    f"{where}: expected an array to write to, got a read-only one"
                )
            views.append(view)
        return views

    def _check_view(self, view: View, parameter: Parameter, where: str) -> None:
        if view.ordinal not in (None, self.ordinal):
            raise TypeError(
                f"{where}: expected an array on GPU {self.ordinal}, got one on GPU "
                f"{view.ordinal}"
            )
        # Without ml_dtypes, types that numpy has not are numbers of as many bits.
        if view.dtype != parameter.dtype and view.dtype != _stored(parameter.dtype):
            raise TypeError(
                f"{where}: expected element type {parameter.dtype}, got {view.dtype}"
            )

    def _prepare(self, session: Session, inputs: Sequence[View]) -> Prepared:
        shapes = tuple(view.shape for view in inputs)
        found = session.known(shapes)
        if found is not None:
            return found
        sizes = self._binder.bind(shapes)
        output_shapes = self._binder.output_shapes(sizes)
        arena_bytes = self._binder.arena_bytes(sizes)
        return session.prepare(shapes, sizes, output_shapes, arena_bytes)

    def _check_targets(self, targets: list[View] | None, prepared: Prepared) -> None:
        for number, target in enumerate(targets or ()):
            if target.shape != prepared.output_shapes[number]:  # it says what is wrong
                self._binder.check_output(number, target.shape, prepared.sizes)
            name = self.signature.outputs[number].name
            where = f"`main`: output {number} `{name}`"
            for other in range(number):
                if meet(target, (targets or [])[other]):
                    raise ValueError(f"{where}: shares memory with output {other}")

    def _outputs(
        self,
        session: Session,
        prepared: Prepared,
        given: Iterable[tuple[Any, View]] | None,  # Any: whatever the caller gave
        stream: int,
        reservation: Reservation,
    ) -> list[_Output]:
        made: list[_Output] = []
        targets = None if given is None else list(given)
        for number, (parameter, shape) in enumerate(
            zip(self.signature.outputs, prepared.output_shapes, strict=True)
        ):
            where = f"`main`: output `{parameter.name}`"
            if targets is not None:
                result, view = targets[number]
                if view.ordinal is not None and view.is_plain:
                    made.append(_Output(view.address, result))
                    continue
            elif stream == session.stream:  # of calls with arrays of the host
                result = np.empty(shape, element_type(parameter.dtype))
                view = host_view(result)
            else:
                result = session.new_array(shape, parameter.dtype, stream, where)
                reservation.take(result.memory)
                made.append(_Output(result.address, result))
                continue
            address = prepared.staging("output", number, view.size_bytes, where)
            made.append(_Output(address, result, view))
        return made

    def _placed(
        self,
        prepared: Prepared,
        inputs: Sequence[View],
        targets: list[View] | None,
        stream: int,
    ) -> list[int]:
        """Where kernels find the inputs: in memory of ours if they cannot be used as is.

        An input that shares memory with an output is such, too: the program may write early.
        """
        found: list[int] = []
        for number, view in enumerate(inputs):
            is_ready = view.ordinal is not None and view.is_plain
            if is_ready and not any(meet(view, target) for target in targets or ()):
                found.append(view.address)
                continue
            where = f"`main`: argument {number} `{self.signature.inputs[number].name}`"
            address = prepared.staging("input", number, view.size_bytes, where)
            copy_in(self._device, view, address, stream)
            found.append(address)
        return found

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
        with self._lock, self._device.current(), Reservation() as reservation:
            session = self._ready()
            stream = session.stream
            inputs = self._views(arrays, stream)
            prepared = self._prepare(session, inputs)
            with session.call(prepared, stream):
                outputs = self._outputs(session, prepared, None, stream, reservation)
                addresses = self._placed(prepared, inputs, None, stream)
                bases = prepared.bases(addresses, [o.address for o in outputs])
                prepared.launches.run(bases, stream, False)
                measured = [
                    prepared.launches.measure(bases, stream, len(self.kernels))
                    for _ in range(calls)
                ]
        durations, totals = zip(*measured, strict=True)
        shape = (calls, len(self.kernels))
        times = np.array(durations, np.int64).reshape(shape)
        return Profile(self.kernels, times, np.array(totals))

    def save(self, path: str | os.PathLike[str]) -> None:
        write_archive(path, self.contents)


@functools.lru_cache(maxsize=64)
def _stored(dtype: str) -> str:
    """What numpy calls an element type here."""
    return element_type(dtype).name


def _handle(stream: Any) -> int:  # Any: of torch, cupy, ...
    """The driver's handle of a stream.

    Raises:
        TypeError: it is no stream.
    """
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    if stream is None:
        return 0
    if not isinstance(stream, int):
        raise TypeError(
            "`stream`: expected the driver's handle, or an object with `cuda_stream` or "
            f"`ptr`, got {type(stream).__name__}"
        )
    return stream


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

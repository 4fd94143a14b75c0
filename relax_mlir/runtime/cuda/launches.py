"""The steps of a call, prepared: all that can be done before a call is done once."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from relax_mlir.errors import DeviceError, RelaxError
from relax_mlir.runtime.cuda.devices import TIMED, Device
from relax_mlir.runtime.cuda.libraries import Libraries, PreparedCall
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import (
    Copy,
    HostCall,
    KnownPlan,
    Launch,
    Pointer,
    Started,
    TensorMap,
)
from relax_mlir.runtime.cuda.tensor_maps import TensorMaps
from relax_mlir.runtime.elements import element_type

__all__ = ["Bases", "Launches"]

Bases: TypeAlias = Mapping[str, Sequence[int]]
"""Addresses of ``input``, ``output``, ``constant``, ``arena`` and ``workspace``."""

_KEPT_GRAPHS = 8
_LARGEST = (1 << 31) - 1  # number of a launch
_WRITTEN = ("output", "arena")  # what functions on the host may write to
_RELAXED = 2  # capture: memory may be given back meanwhile, by whoever collects garbage

Addresses: TypeAlias = tuple[int, ...]
_Thing = TypeVar("_Thing")


@dataclass
class _Launch:
    """A launch that needs nothing but a stream.

    Attributes:
        start: the driver's function with all but stream, parameters and options.
        parameters: addresses of what the kernel gets.
        what: it is, for errors; kernel: which of those that the model names.
    """

    start: Callable[..., int]
    parameters: Any  # Any: an array of ctypes
    what: str
    kernel: int


@dataclass
class _Word:
    """A pointer that kernels get, and what it points into."""

    place: int
    pointer: Pointer


@dataclass
class _Map:
    """A descriptor that a kernel gets, and what it describes."""

    parameters: Any  # Any: an array of ctypes
    place: int
    tensor: TensorMap
    memory: Any = None  # Any: an array of ctypes


class Launches:
    """What a call does whose sizes are known, again and again.

    One thread at a time uses it, with the device current.

    Args:
        plan: the steps.
        kernels: loaded.
        host: finds functions by name; libraries: compute products and convolutions.
    """

    def __init__(
        self,
        device: Device,
        plan: KnownPlan,
        kernels: Kernels,
        host: Callable[[str], Callable[..., object]],
        libraries: Libraries,
    ) -> None:
        self._device, self._host, self._libraries = device, host, libraries
        self._capturing: list[int] = []  # streams: one, from the first graph on
        self._bases: Bases = {}
        self._addresses: Addresses | None = None
        # Of arrays at some addresses; 0 where they have been seen once.
        self._graphs: OrderedDict[Addresses, int] = OrderedDict()
        launches = [s.launch for s in plan.steps if isinstance(s, Started)]
        count = sum(len(n.arguments) for n in launches if isinstance(n, Launch))
        self._values = (c_uint64 * max(1, count))()
        self._used = 0
        self._words: list[_Word] = []
        self._maps: list[_Map] = []
        self._descriptors = TensorMaps(device.driver)
        self._library_calls: list[PreparedCall] = []
        try:
            self._steps = [
                self._prepared(step, kernels) if isinstance(step, Started) else step
                for step in plan.steps
                if not isinstance(step, Started) or not step.launch.is_empty
            ]
        except BaseException:
            self._close_library_calls()
            raise
        calls_host = any(isinstance(step, HostCall) for step in plan.steps)
        self._can_be_graph = len(self._steps) > 1 and not calls_host

    def _prepared(self, step: Started, kernels: Kernels) -> _Launch | PreparedCall:
        launch = step.launch
        if not isinstance(launch, Launch):
            what = kernels.name(step)
            made = self._libraries.prepared(launch, what, step.kernel)
            self._library_calls.append(made)
            return made
        what = kernels.describe(step, launch)
        function = kernels.function(step, launch, what)
        parameters = (c_void_p * max(1, len(launch.arguments)))()
        for number, argument in enumerate(launch.arguments):
            if isinstance(argument, TensorMap):
                self._maps.append(_Map(parameters, number, argument))
            else:
                parameters[number] = self._place(argument)
        # Converted once: what has no declared types is passed as it is.
        plain = self._device.driver.library["cuLaunchKernel"]
        numbers = (*launch.grid, *launch.block, launch.shared_bytes)
        if max(numbers) > _LARGEST:
            raise DeviceError(f"{what}: a launch has at most {_LARGEST} of each")
        start = partial(plain, c_void_p(function), *map(ctypes.c_uint, numbers))
        return _Launch(start, parameters, what, step.kernel)

    def _place(self, argument: Any) -> int:  # Any: of a launch
        """Where the driver finds an argument's value."""
        place = self._used
        self._used += 1
        if isinstance(argument, Pointer):
            self._words.append(_Word(place, argument))
        else:
            self._values[place] = argument % (1 << 64)
        return ctypes.addressof(self._values) + 8 * place

    def run(self, bases: Bases, stream: int, use_graph: bool) -> None:
        """Put all steps on a stream.

        Args:
            bases: where the arrays are. When they are where they were in an earlier call,
                the steps become a graph, and this call and later ones one launch of it.

        Raises:
            DeviceError: the driver refuses something; the message names the kernel.
        """
        addresses = (*bases["input"], *bases["output"])
        graph = self._graph(bases, addresses) if use_graph else 0
        if graph:
            what = "`main`: its graph cannot be launched"
            self._device.driver.call("cuGraphLaunch", graph, stream, what=what)
            return
        self._point(bases, addresses)
        for step in self._steps:
            self._do(step, stream)

    def _graph(self, bases: Bases, addresses: Addresses) -> int:
        """The graph of arrays at some addresses; 0 if they have not been there before."""
        graph = self._graphs.get(addresses)
        if graph:
            self._graphs.move_to_end(addresses)
            return graph
        if not self._can_be_graph:
            return 0
        if graph == 0:
            self._point(bases, addresses)
            graph = self._captured()
        self._graphs[addresses] = graph or 0
        self._graphs.move_to_end(addresses)
        if len(self._graphs) > _KEPT_GRAPHS:
            _, oldest = self._graphs.popitem(last=False)
            self._destroy(oldest)
        return graph or 0

    def _destroy(self, graph: int) -> None:
        if graph:
            what = "a graph cannot be given back"
            self._device.driver.call("cuGraphExecDestroy", graph, what=what)

    def measure(self, bases: Bases, stream: int, kernels: int) -> tuple[list[int], int]:
        """Run all steps one after the other: nanoseconds of every kernel, and of all.

        Args:
            kernels: that the model names.
        """
        driver = self._device.driver
        what = "`main`: kernels cannot be measured"
        self._point(bases, (*bases["input"], *bases["output"]))
        seen: set[int] = set()
        with self._timed_events(2 * kernels + 2, what) as events:

            def record(number: int) -> None:
                driver.call("cuEventRecord", events[number], stream, what=what)

            def between(first: int, then: int) -> int:
                ends = events[first], events[then]
                return round(
                    1e6 * driver.handle("cuEventElapsedTime", *ends, what=what)
                )

            record(2 * kernels)
            for step in self._steps:
                if isinstance(step, Copy | HostCall):
                    self._do(step, stream)
                    continue
                if step.kernel not in seen:
                    record(2 * step.kernel)
                    seen.add(step.kernel)
                self._do(step, stream)
                record(2 * step.kernel + 1)  # the last one of a kernel stays
            record(2 * kernels + 1)
            driver.call("cuEventSynchronize", events[-1], what=what)
            times = [
                between(2 * n, 2 * n + 1) if n in seen else 0 for n in range(kernels)
            ]
            return times, between(2 * kernels, 2 * kernels + 1)

    @contextmanager
    def _timed_events(self, count: int, what: str) -> Iterator[list[int]]:
        """Events that measure times, destroyed at the end."""
        events: list[int] = []
        with ExitStack() as given_back:
            for _ in range(count):
                events.append(self._device.make("cuEventCreate", what, TIMED))
                destroy = self._device.driver.call
                given_back.callback(destroy, "cuEventDestroy_v2", events[-1], what=what)
            yield events

    def _point(self, bases: Bases, addresses: Addresses) -> None:
        """Let the kernels' pointers point where the arrays are."""
        if addresses == self._addresses:
            return
        self._bases, self._addresses = bases, None
        for word in self._words:
            self._values[word.place] = self._address(word.pointer)
        for given in self._maps:
            tensor = given.tensor
            given.memory = self._descriptors.at(tensor, self._address(tensor.pointer))
            given.parameters[given.place] = ctypes.addressof(given.memory)
        for call in self._library_calls:
            call.point(self._address)
        self._addresses = addresses

    def _address(self, pointer: Pointer) -> int:
        return self._bases[pointer.base][pointer.number] + pointer.offset_bytes

    def _do(self, step: _Launch | PreparedCall | Copy | HostCall, stream: int) -> None:
        driver = self._device.driver
        if isinstance(step, _Launch):
            status = step.start(c_void_p(stream), step.parameters, None)
            if status:
                raise driver.error(status, f"{step.what}: cuLaunchKernel")
        elif isinstance(step, PreparedCall):
            step.start(stream)
        elif isinstance(step, Copy):
            if step.size_bytes:
                ends = self._address(step.target), self._address(step.source)
                what = "`main`: a copy on the device fails"
                driver.call(
                    "cuMemcpyDtoDAsync_v2", *ends, step.size_bytes, stream, what=what
                )
        else:
            self._call_host(step, stream)

    def _call_host(self, step: HostCall, stream: int) -> None:
        """Call a function on copies, and bring back what it may have written."""
        driver = self._device.driver
        what = f"`main`: arguments of `{step.function}` cannot be copied"
        arrays = [np.empty(a.shape, element_type(a.dtype)) for a in step.arrays]
        places = [self._address(a.pointer) for a in step.arrays]
        for array, place in zip(arrays, places, strict=True):
            if array.nbytes:
                copy = (array.ctypes.data, place, array.nbytes, stream)
                driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", stream, what=what)
        self._host(step.function)(*arrays)
        for array, place, given in zip(arrays, places, step.arrays, strict=True):
            if array.nbytes and given.pointer.base in _WRITTEN:
                copy = (place, array.ctypes.data, array.nbytes, stream)
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", stream, what=what)

    def _captured(self) -> int:
        """All steps as one graph, for the arrays that kernels' pointers point to."""
        driver = self._device.driver
        what = "`main`: its kernels cannot become a graph"
        if not self._capturing:
            self._capturing.append(self._device.make("cuStreamCreate", what))
        (stream,) = self._capturing
        driver.call("cuStreamBeginCapture_v2", stream, _RELAXED, what=what)
        graph = c_void_p()
        ending = partial(driver.call, "cuStreamEndCapture", stream, ctypes.byref(graph))
        try:
            for step in self._steps:
                self._do(step, stream)
        except BaseException:  # a stream that goes on capturing is of no use
            with suppress(RelaxError):  # the first error is the one to tell
                ending(what=what)
            raise
        else:
            ending(what=what)
            return driver.handle("cuGraphInstantiateWithFlags", graph, 0, what=what)
        finally:
            if graph:
                driver.call("cuGraphDestroy", graph, what=what)

    def _close_library_calls(self) -> None:
        with ExitStack() as given_back:
            for call in _taken(self._library_calls):
                given_back.callback(call.close)

    def close(self) -> None:
        """Give graphs, the streams of captures and what library calls need back.

        Two threads may do so at once, as whoever collects garbage does: each thing is
        given back by one of them.
        """
        with ExitStack() as given_back:
            given_back.callback(self._close_library_calls)
            for stream in _taken(self._capturing):
                what, destroy = "a stream cannot be given back", "cuStreamDestroy_v2"
                call = self._device.driver.call
                given_back.callback(call, destroy, stream, what=what)
            with suppress(KeyError):  # it is empty
                while True:
                    _, graph = self._graphs.popitem()
                    given_back.callback(self._destroy, graph)


def _taken(things: list[_Thing]) -> Iterator[_Thing]:
    """What is in a list, taken out of it."""
    with suppress(IndexError):  # it is empty
        while True:
            yield things.pop()

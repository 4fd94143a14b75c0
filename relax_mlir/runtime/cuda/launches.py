"""The steps of a call, prepared: all that can be done before a call is done once."""

from __future__ import annotations

import ctypes
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from ctypes import c_void_p
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from relax_mlir.errors import DeviceError, RelaxError
from relax_mlir.runtime.cuda.arguments import BASES, Arguments, Bases
from relax_mlir.runtime.cuda.devices import Device, timed_events
from relax_mlir.runtime.cuda.driver import (
    OVERLAPS_THE_ONE_BEFORE,
    Driver,
    LaunchAttribute,
    LaunchConfig,
)
from relax_mlir.runtime.cuda.libraries import Libraries, PreparedCall
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import (
    Copy,
    Done,
    HostCall,
    KnownPlan,
    Launch,
    LibraryCall,
    Plan,
    Pointer,
    Started,
    TensorMap,
)
from relax_mlir.runtime.cuda.tensor_maps import TensorMaps
from relax_mlir.runtime.elements import element_type

__all__ = ["Graph", "Launches"]

_KEPT_GRAPHS = 32
_KEPT_LIBRARY_CALLS = 8  # for each of the plan: of as many sizes
_LARGEST = (1 << 31) - 1  # number of a launch
_WRITTEN = ("output", "arena")  # what functions on the host may write to
_RELAXED = 2  # capture: memory may be given back meanwhile, by whoever collects garbage

_OVERLAPPING = LaunchAttribute(OVERLAPS_THE_ONE_BEFORE, 0, (1,))

_Place: TypeAlias = tuple[tuple[int, ...], ...]  # sizes, and addresses of a call
_Thing = TypeVar("_Thing")


@dataclass
class _Launch:
    """A launch that needs nothing but a stream.

    Attributes:
        start: the driver's function with all but parameters and options.
        config: that it is told, but for the stream.
        parameters: addresses of what the kernel gets.
        step: it is; launch: of it.
        overlaps: whether it may begin before the launch in front of it has ended.
    """

    start: Callable[..., int]
    config: LaunchConfig
    parameters: Any  # Any: an array of ctypes
    step: Started
    launch: Launch
    overlaps: bool = False

    @property
    def kernel(self) -> int:
        """Which of those that the model names."""
        return self.step.kernel


_Step: TypeAlias = _Launch | PreparedCall | Copy | HostCall


@dataclass
class Graph:
    """All steps of a call, for arrays at their addresses.

    Attributes:
        driver: that has it; handle: its own.
        place: sizes and addresses; parts: of :class:`Launches`, when it was made.
    """

    driver: Driver
    handle: int
    place: _Place
    parts: int

    def destroy(self) -> None:
        """Give it back."""
        handle, self.handle = self.handle, 0
        if handle:
            what = "a graph cannot be given back"
            self.driver.call("cuGraphExecDestroy", handle, what=what)


@dataclass
class _Map:
    """A descriptor that a kernel gets, and what it describes."""

    parameters: Any  # Any: an array of ctypes
    place: int
    tensor: TensorMap
    memory: Any = None  # Any: an array of ctypes


class Launches:
    """What calls of a model do: laid out for the sizes and the arrays of one at a time.

    What does not depend on sizes is laid out once. One thread at a time uses it, with the
    device current.

    Attributes:
        parts: how often some has gone of what libraries have made for graphs.

    Args:
        plan: the steps.
        kernels: loaded.
        host: finds functions by name; libraries: compute products and convolutions.
        settle: waits for all calls.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        kernels: Kernels,
        host: Callable[[str], Callable[..., object]],
        libraries: Libraries,
        settle: Callable[[], None],
    ) -> None:
        self._device, self._kernels, self._host = device, kernels, host
        self._may_overlap = device.driver.overlaps
        self._libraries, self._settle = libraries, settle
        self._capturing: list[int] = []  # streams: one, from the first graph on
        # Of calls; None of those that have been seen once.
        self._graphs: OrderedDict[_Place, Graph | None] = OrderedDict()
        self._bases: Bases = {}
        self._place: _Place | None = None  # for which all is laid out
        self._descriptors = TensorMaps(device.driver)
        self._arguments = Arguments(plan)
        # By the step of the plan: what it does, laid out, and its descriptors.
        self._done: list[Done | None] = [None] * len(plan.steps)
        self._laid: list[list[_Step]] = [[] for _ in plan.steps]
        self._maps: list[list[_Map]] = [[] for _ in plan.steps]
        self._steps: list[_Step] = []
        # By the step, and the place in its program.
        self._library_calls: defaultdict[
            tuple[int, int], OrderedDict[LibraryCall, PreparedCall]
        ] = defaultdict(OrderedDict)
        self.parts = 0
        self._calls_host = plan.calls_host

    def run(
        self, plan: KnownPlan, bases: Bases, stream: int, *, use_graph: bool
    ) -> None:
        """Put all steps on a stream.

        Args:
            plan: for the sizes of the call.
            bases: where the arrays are. When they are where they were in an earlier call
                of these sizes, the steps become a graph, and this call and later ones one
                launch of it.

        Raises:
            DeviceError: the driver refuses something; the message names the kernel.
            OutOfMemoryError: a library needs more memory than there is.
        """
        place = _place_of(plan, bases)
        graph = self._graph(plan, bases, place) if use_graph else None
        if graph is not None:
            self.start(graph, stream)
            return
        self._lay_out(plan, bases, place)
        for step in self._steps:
            self._do(step, stream)

    def captured(self, plan: KnownPlan, bases: Bases, before: Graph | None) -> Graph:
        """All steps as one graph, for whoever starts it; not more than one at a time does.

        Args:
            plan: for the sizes of the call; bases: where the arrays are.
            before: the same, which is kept if it still fits.

        Raises:
            DeviceError: the driver refuses something; the message names the kernel.
        """
        place = _place_of(plan, bases)
        if before is not None:
            is_right = before.place == place and before.parts == self.parts
            if is_right and before.handle:
                return before
            self._settle()
            before.destroy()
        self._lay_out(plan, bases, place)
        return self._captured()

    def start(self, graph: Graph, stream: int) -> None:
        """Put a graph on a stream.

        Raises:
            DeviceError: the driver refuses it.
        """
        what = "`main`: its graph cannot be launched"
        self._device.driver.call("cuGraphLaunch", graph.handle, stream, what=what)

    def _graph(self, plan: KnownPlan, bases: Bases, place: _Place) -> Graph | None:
        """The graph of calls like this one, if there has been one before."""
        if self._calls_host:
            return None
        graph = self._graphs.get(place)
        if graph is None and place in self._graphs:
            self._lay_out(plan, bases, place)
            if len(self._steps) > 1:
                graph = self._captured()
        self._graphs[place] = graph
        self._graphs.move_to_end(place)
        if len(self._graphs) > _KEPT_GRAPHS:
            _, oldest = self._graphs.popitem(last=False)
            if oldest is not None:
                oldest.destroy()
        return graph

    def _lay_out(self, plan: KnownPlan, bases: Bases, place: _Place) -> None:
        """Let all steps be those of a call."""
        if place == self._place:
            return
        is_changed = self._place is None  # or perhaps so, if laying out has failed
        self._place = None
        self._bases = bases
        for number, done in enumerate(plan.steps):
            if done is not self._done[number]:
                self._done[number] = None  # if it fails
                self._lay(number, done)
                self._done[number] = done
                is_changed = True
        if is_changed:
            self._steps = list(chain.from_iterable(self._laid))
            self._overlap()
        self._point(bases)
        self._place = place

    def _overlap(self) -> None:
        """Let kernels begin early that wait for the kernel before, which waits itself.

        The first of a call does not: who knows what is in front of it.
        """
        for before, step in pairwise([None, *self._steps]):
            if isinstance(step, _Launch):
                is_behind = isinstance(before, _Launch) and before.launch.waits
                step.overlaps = self._may_overlap and is_behind and step.launch.waits

    def _lay(self, number: int, done: Done) -> None:
        """Prepare what a step of the plan does."""
        laid: list[_Step] = []
        self._maps[number] = []
        for place, step in enumerate(done):
            if not isinstance(step, Started):
                laid.append(step)
            elif not step.launch.is_empty:
                is_own = isinstance(step.launch, Launch)
                made = self._launch if is_own else self._library_call
                laid.append(made(number, place, step))
        self._laid[number] = laid

    def _library_call(self, number: int, place: int, step: Started) -> PreparedCall:
        """What a library computes, described to it; that of a few sizes is kept."""
        call, kept = step.launch, self._library_calls[number, place]
        assert not isinstance(call, Launch)
        if call not in kept:
            if len(kept) >= _KEPT_LIBRARY_CALLS:
                self._settle()
                self.drop_graphs()  # they have parts of it
                self.parts += 1
                _, oldest = kept.popitem(last=False)
                oldest.close()
            what = self._kernels.name(step)
            kept[call] = self._libraries.prepared(call, what, step.kernel)
        kept.move_to_end(call)
        return kept[call]

    def _launch(self, number: int, place: int, step: Started) -> _Launch:
        launch, slots = step.launch, self._arguments.slots(number, place)
        assert isinstance(launch, Launch)
        function = self._kernels.function(step, launch)
        self._arguments.put(slots, launch.arguments, self._bases)
        for argument, given in enumerate(launch.arguments):
            if isinstance(given, TensorMap):
                self._maps[number].append(_Map(slots.addresses, argument, given))
        numbers = (*launch.grid, *launch.block, launch.shared_bytes)
        if max(numbers) > _LARGEST:
            what = self._kernels.describe(step, launch)
            raise DeviceError(f"{what}: a launch has at most {_LARGEST} of each")
        # Converted once: what has no declared types is passed as it is.
        config = LaunchConfig(*numbers, None, ctypes.pointer(_OVERLAPPING))
        plain = self._device.driver.plain_launch
        start = partial(plain, ctypes.byref(config), c_void_p(function))
        return _Launch(start, config, slots.addresses, step, launch)

    def measure(
        self, plan: KnownPlan, bases: Bases, stream: int, kernels: int
    ) -> tuple[list[int], int]:
        """Run all steps one after the other: nanoseconds of every kernel, and of all.

        Args:
            plan, bases: of the call; kernels: that the model names.
        """
        driver = self._device.driver
        what = "`main`: kernels cannot be measured"
        self._lay_out(plan, bases, _place_of(plan, bases))
        seen: set[int] = set()
        with timed_events(self._device, 2 * kernels + 2, what) as events:

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
                self._do(step, stream, is_alone=True)
                record(2 * step.kernel + 1)  # the last one of a kernel stays
            record(2 * kernels + 1)
            driver.call("cuEventSynchronize", events[-1], what=what)
            times = [
                between(2 * n, 2 * n + 1) if n in seen else 0 for n in range(kernels)
            ]
            return times, between(2 * kernels, 2 * kernels + 1)

    def _point(self, bases: Bases) -> None:
        """Let the kernels' pointers point where the arrays are."""
        self._arguments.point(bases)
        for given in chain.from_iterable(self._maps):
            tensor = given.tensor
            given.memory = self._descriptors.at(tensor, self._address(tensor.pointer))
            given.parameters[given.place] = ctypes.addressof(given.memory)
        for step in self._steps:
            if isinstance(step, PreparedCall):
                step.point(self._address)

    def _address(self, pointer: Pointer) -> int:
        return self._bases[pointer.base][pointer.number] + pointer.offset_bytes

    def _do(self, step: _Step, stream: int, *, is_alone: bool = False) -> None:
        """Put a step on a stream.

        Args:
            is_alone: whether it begins when all before it has ended, at any rate.
        """
        driver = self._device.driver
        if isinstance(step, _Launch):
            config = step.config
            config.stream = stream
            config.attribute_count = int(step.overlaps and not is_alone)
            status = step.start(step.parameters, None)
            if status:
                what = self._kernels.describe(step.step, step.launch)
                raise driver.error(status, f"{what}: cuLaunchKernelEx")
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

    def _captured(self) -> Graph:
        """All steps as one graph, for what they are laid out for."""
        assert self._place is not None
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
            made = driver.handle("cuGraphInstantiateWithFlags", graph, 0, what=what)
            return Graph(driver, made, self._place, self.parts)
        finally:
            if graph:
                driver.call("cuGraphDestroy", graph, what=what)

    def drop_graphs(self) -> None:
        """Give back what graphs need; no call is under way."""
        with ExitStack() as given_back:
            for graph in _values_taken(self._graphs):
                if graph is not None:
                    given_back.callback(graph.destroy)

    def close(self) -> None:
        """Give graphs, the streams of captures and what library calls need back.

        Two threads may do so at once, as whoever collects garbage does: each thing is
        given back by one of them.
        """
        with ExitStack() as given_back:
            for kept in self._library_calls.values():
                for prepared in _values_taken(kept):
                    given_back.callback(prepared.close)
            with suppress(IndexError):  # there is none
                stream, what = self._capturing.pop(), "a stream cannot be given back"
                call, destroy = self._device.driver.call, "cuStreamDestroy_v2"
                given_back.callback(call, destroy, stream, what=what)
            given_back.callback(self.drop_graphs)


def _place_of(plan: KnownPlan, bases: Bases) -> _Place:
    """What a graph is of: constants are always where they are."""
    moving = (tuple(bases[base]) for base in BASES if base != "constant")
    return (plan.sizes, *moving)


def _values_taken(things: OrderedDict[Any, _Thing]) -> Iterator[_Thing]:
    """What is in a mapping, taken out of it."""
    with suppress(KeyError):  # it is empty
        while True:
            yield things.popitem()[1]

"""Execution of launch plans: prepared launches, CUDA graphs, host calls, measurement."""

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
from relax_mlir.runtime.cuda.devices import Device, timed_events
from relax_mlir.runtime.cuda.driver import (
    PROGRAMMATIC_STREAM_SERIALIZATION,
    Driver,
    LaunchAttribute,
    LaunchConfig,
)
from relax_mlir.runtime.cuda.kernel_arguments import BASES, Bases, KernelArguments
from relax_mlir.runtime.cuda.libraries import Libraries, LibraryPlan
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import (
    BoundLaunch,
    BoundPlan,
    BoundStep,
    Copy,
    HostCall,
    Launch,
    LibraryCall,
    Plan,
    Pointer,
    TensorMap,
)
from relax_mlir.runtime.cuda.tensor_maps import TensorMaps
from relax_mlir.runtime.elements import element_type

__all__ = ["Graph", "Launches"]

_KEPT_GRAPHS = 32
_KEPT_LIBRARY_PLANS = 8  # per library call of the plan, for different sizes
_MAX_DIMENSION = (1 << 31) - 1  # of grid and block
_WRITABLE = ("output", "arena")  # memory that host functions may write to
_RELAXED = 2  # capture mode that allows frees meanwhile, by the garbage collector

_DEPENDENT_LAUNCH = LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,))

_CallKey: TypeAlias = tuple[tuple[int, ...], ...]  # sizes and addresses of a call
_Value = TypeVar("_Value")


@dataclass
class _Launch:
    """A prepared launch, which needs only a stream.

    Attributes:
        start: the driver's function with bound config and kernel.
        config: launch configuration, except for the stream.
        parameters: pointers to the kernel arguments.
        step: the step of the plan; launch: of the step.
        overlaps: whether it uses programmatic dependent launch, to overlap with the
            previous launch.
    """

    start: Callable[..., int]
    config: LaunchConfig
    parameters: Any  # Any: an array of ctypes
    step: BoundLaunch
    launch: Launch
    overlaps: bool = False

    @property
    def kernel(self) -> int:
        """Index of the model's kernel call."""
        return self.step.kernel


_Step: TypeAlias = _Launch | LibraryPlan | Copy | HostCall


@dataclass
class Graph:
    """An instantiated CUDA graph of all steps of a call.

    Attributes:
        driver: the driver; handle: of the graph.
        key: sizes and addresses; version: of the library plans, see :class:`Launches`.
    """

    driver: Driver
    handle: int
    key: _CallKey
    version: int

    def destroy(self) -> None:
        """Destroy the graph."""
        handle, self.handle = self.handle, 0
        if handle:
            what = "a graph cannot be destroyed"
            self.driver.call("cuGraphExecDestroy", handle, what=what)


@dataclass
class _MapArgument:
    """A TMA descriptor among the arguments of a kernel."""

    parameters: Any  # Any: an array of ctypes
    index: int
    tensor: TensorMap
    memory: Any = None  # Any: an array of ctypes


class Launches:
    """Prepared steps of a model, bound to the sizes and arrays of one call at a time.

    Steps that do not depend on sizes are prepared once. Not thread-safe; the device must be
    current.

    Attributes:
        version: number of evictions of library plans, which invalidate graphs.

    Args:
        plan: the launch plan.
        kernels: of its programs.
        host: looks up host functions; libraries: for matmuls and convolutions.
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
        self._has_dependent_launch = device.driver.has_dependent_launch
        self._libraries, self._settle = libraries, settle
        self._capturing: list[int] = []  # the capture stream, created on demand
        # LRU cache by call; None for calls that occurred once.
        self._graphs: OrderedDict[_CallKey, Graph | None] = OrderedDict()
        self._bases: Bases = {}
        self._key: _CallKey | None = None  # of the call that the steps are bound to
        self._descriptors = TensorMaps(device.driver)
        self._arguments = KernelArguments(plan)
        # Per step of the plan: the bound step, its prepared steps, its TMA descriptors.
        self._bound: list[BoundStep | None] = [None] * len(plan.steps)
        self._prepared: list[list[_Step]] = [[] for _ in plan.steps]
        self._maps: list[list[_MapArgument]] = [[] for _ in plan.steps]
        self._steps: list[_Step] = []
        # By step, and index in its program.
        self._library_plans: defaultdict[
            tuple[int, int], OrderedDict[LibraryCall, LibraryPlan]
        ] = defaultdict(OrderedDict)
        self.version = 0
        self._calls_host = plan.calls_host

    def run(
        self, plan: BoundPlan, bases: Bases, stream: int, *, use_graph: bool
    ) -> None:
        """Enqueue all steps on a stream.

        Args:
            plan: for the sizes of the call.
            bases: addresses of the arrays.
            use_graph: whether the second call with the same sizes and addresses captures
                a CUDA graph, which it and later ones launch.

        Raises:
            DeviceError: the driver reports an error; the message names the kernel.
            OutOfMemoryError: a library's workspace cannot be allocated.
        """
        key = _call_key(plan, bases)
        graph = self._graph(plan, bases, key) if use_graph else None
        if graph is not None:
            self.start(graph, stream)
            return
        self._bind(plan, bases, key)
        for step in self._steps:
            self._enqueue(step, stream)

    def captured(self, plan: BoundPlan, bases: Bases, previous: Graph | None) -> Graph:
        """Capture all steps as a graph, which the caller launches, one at a time.

        Args:
            plan: for the sizes of the call; bases: addresses of the arrays.
            previous: an earlier result, returned if it is still valid, else destroyed.

        Raises:
            DeviceError: the driver reports an error; the message names the kernel.
        """
        key = _call_key(plan, bases)
        if previous is not None:
            is_valid = previous.key == key and previous.version == self.version
            if is_valid and previous.handle:
                return previous
            self._settle()
            previous.destroy()
        self._bind(plan, bases, key)
        return self._capture()

    def start(self, graph: Graph, stream: int) -> None:
        """Launch a graph on a stream.

        Raises:
            DeviceError: the driver reports an error.
        """
        what = "`main`: its graph cannot be launched"
        self._device.driver.call("cuGraphLaunch", graph.handle, stream, what=what)

    def _graph(self, plan: BoundPlan, bases: Bases, key: _CallKey) -> Graph | None:
        """The graph of a call, captured at its second occurrence."""
        if self._calls_host:
            return None
        graph = self._graphs.get(key)
        if graph is None and key in self._graphs:
            self._bind(plan, bases, key)
            if len(self._steps) > 1:
                graph = self._capture()
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        if len(self._graphs) > _KEPT_GRAPHS:
            _, oldest = self._graphs.popitem(last=False)
            if oldest is not None:
                oldest.destroy()
        return graph

    def _bind(self, plan: BoundPlan, bases: Bases, key: _CallKey) -> None:
        """Bind all steps to the sizes and arrays of a call."""
        if key == self._key:
            return
        is_changed = self._key is None  # possibly, after a failure
        self._key = None
        self._bases = bases
        for number, step in enumerate(plan.steps):
            if step is not self._bound[number]:
                self._bound[number] = None  # in case of a failure
                self._prepare(number, step)
                self._bound[number] = step
                is_changed = True
        if is_changed:
            self._steps = list(chain.from_iterable(self._prepared))
            self._overlap()
        self._point(bases)
        self._key = key

    def _overlap(self) -> None:
        """Use dependent launch for kernels that wait, after kernels that wait themselves.

        The first kernel of a call does not, since the preceding work is unknown.
        """
        for previous, step in pairwise([None, *self._steps]):
            if isinstance(step, _Launch):
                follows_waiting = (
                    isinstance(previous, _Launch) and previous.launch.waits
                )
                step.overlaps = (
                    self._has_dependent_launch and follows_waiting and step.launch.waits
                )

    def _prepare(self, number: int, bound: BoundStep) -> None:
        """Prepare a bound step of the plan."""
        prepared: list[_Step] = []
        self._maps[number] = []
        for index, step in enumerate(bound):
            if not isinstance(step, BoundLaunch):
                prepared.append(step)
            elif not step.launch.is_empty:
                is_kernel = isinstance(step.launch, Launch)
                prepare = self._launch if is_kernel else self._library_plan
                prepared.append(prepare(number, index, step))
        self._prepared[number] = prepared

    def _library_plan(self, number: int, index: int, step: BoundLaunch) -> LibraryPlan:
        """The plan of a library call, from an LRU cache over sizes."""
        call, kept = step.launch, self._library_plans[number, index]
        assert not isinstance(call, Launch)
        if call not in kept:
            if len(kept) >= _KEPT_LIBRARY_PLANS:
                self._settle()
                self.drop_graphs()  # they embed parts of the evicted plan
                self.version += 1
                _, oldest = kept.popitem(last=False)
                oldest.close()
            what = self._kernels.name(step)
            kept[call] = self._libraries.prepared(call, what, step.kernel)
        kept.move_to_end(call)
        return kept[call]

    def _launch(self, number: int, index: int, step: BoundLaunch) -> _Launch:
        launch, slots = step.launch, self._arguments.slots(number, index)
        assert isinstance(launch, Launch)
        function = self._kernels.function(step, launch)
        self._arguments.put(slots, launch.arguments, self._bases)
        for n, argument in enumerate(launch.arguments):
            if isinstance(argument, TensorMap):
                self._maps[number].append(_MapArgument(slots.addresses, n, argument))
        numbers = (*launch.grid, *launch.block, launch.shared_bytes)
        if max(numbers) > _MAX_DIMENSION:
            what = self._kernels.describe(step, launch)
            raise DeviceError(f"{what}: expected at most {_MAX_DIMENSION} of each")
        # Prepared C values: without declared types, ctypes does not convert them again.
        config = LaunchConfig(*numbers, None, ctypes.pointer(_DEPENDENT_LAUNCH))
        plain = self._device.driver.plain_launch
        start = partial(plain, ctypes.byref(config), c_void_p(function))
        return _Launch(start, config, slots.addresses, step, launch)

    def measure(
        self, plan: BoundPlan, bases: Bases, stream: int, kernels: int
    ) -> tuple[list[int], int]:
        """Run all steps serialised; returns nanoseconds of every kernel, and in total.

        Args:
            plan, bases: of the call; kernels: number of kernel calls of the model.
        """
        driver = self._device.driver
        what = "`main`: kernels cannot be measured"
        self._bind(plan, bases, _call_key(plan, bases))
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
                    self._enqueue(step, stream)
                    continue
                if step.kernel not in seen:
                    record(2 * step.kernel)
                    seen.add(step.kernel)
                self._enqueue(step, stream, is_serialized=True)
                record(2 * step.kernel + 1)  # the last record of a kernel counts
            record(2 * kernels + 1)
            driver.call("cuEventSynchronize", events[-1], what=what)
            times = [
                between(2 * n, 2 * n + 1) if n in seen else 0 for n in range(kernels)
            ]
            return times, between(2 * kernels, 2 * kernels + 1)

    def _point(self, bases: Bases) -> None:
        """Update addresses in kernel arguments, TMA descriptors and library plans."""
        self._arguments.point(bases)
        for argument in chain.from_iterable(self._maps):
            address = self._address(argument.tensor.pointer)
            argument.memory = self._descriptors.at(argument.tensor, address)
            argument.parameters[argument.index] = ctypes.addressof(argument.memory)
        for step in self._steps:
            if isinstance(step, LibraryPlan):
                step.point(self._address)

    def _address(self, pointer: Pointer) -> int:
        return self._bases[pointer.base][pointer.number] + pointer.offset_bytes

    def _enqueue(
        self, step: _Step, stream: int, *, is_serialized: bool = False
    ) -> None:
        """Enqueue a step on a stream.

        Args:
            is_serialized: whether to disable overlap with the previous launch.
        """
        driver = self._device.driver
        if isinstance(step, _Launch):
            config = step.config
            config.stream = stream
            config.attribute_count = int(step.overlaps and not is_serialized)
            status = step.start(step.parameters, None)
            if status:
                what = self._kernels.describe(step.step, step.launch)
                raise driver.error(status, f"{what}: cuLaunchKernelEx")
        elif isinstance(step, LibraryPlan):
            step.start(stream)
        elif isinstance(step, Copy):
            if step.size_bytes:
                ends = self._address(step.target), self._address(step.source)
                what = "`main`: a copy on the device failed"
                driver.call(
                    "cuMemcpyDtoDAsync_v2", *ends, step.size_bytes, stream, what=what
                )
        else:
            self._call_host(step, stream)

    def _call_host(self, step: HostCall, stream: int) -> None:
        """Call a host function on copies, and upload those that it may have written."""
        driver = self._device.driver
        what = f"`main`: arguments of `{step.function}` cannot be copied"
        arrays = [np.empty(a.shape, element_type(a.dtype)) for a in step.arrays]
        addresses = [self._address(a.pointer) for a in step.arrays]
        for array, address in zip(arrays, addresses, strict=True):
            if array.nbytes:
                copy = (array.ctypes.data, address, array.nbytes, stream)
                driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", stream, what=what)
        self._host(step.function)(*arrays)
        for array, address, spec in zip(arrays, addresses, step.arrays, strict=True):
            if array.nbytes and spec.pointer.base in _WRITABLE:
                copy = (address, array.ctypes.data, array.nbytes, stream)
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", stream, what=what)

    def _capture(self) -> Graph:
        """Capture the bound steps as a graph."""
        assert self._key is not None
        driver = self._device.driver
        what = "`main`: its kernels cannot be captured into a graph"
        if not self._capturing:
            self._capturing.append(self._device.make("cuStreamCreate", what))
        (stream,) = self._capturing
        driver.call("cuStreamBeginCapture_v2", stream, _RELAXED, what=what)
        graph = c_void_p()
        end = partial(driver.call, "cuStreamEndCapture", stream, ctypes.byref(graph))
        try:
            for step in self._steps:
                self._enqueue(step, stream)
        except BaseException:  # end the capture, to keep the stream usable
            with suppress(RelaxError):  # report the first error
                end(what=what)
            raise
        else:
            end(what=what)
            handle = driver.handle("cuGraphInstantiateWithFlags", graph, 0, what=what)
            return Graph(driver, handle, self._key, self.version)
        finally:
            if graph:
                driver.call("cuGraphDestroy", graph, what=what)

    def drop_graphs(self) -> None:
        """Destroy all graphs; no call may be in progress."""
        with ExitStack() as cleanup:
            for graph in _drained(self._graphs):
                if graph is not None:
                    cleanup.callback(graph.destroy)

    def close(self) -> None:
        """Destroy graphs, the capture stream and library plans.

        Safe against concurrent calls, as from a garbage collection: each resource is
        released once.
        """
        with ExitStack() as cleanup:
            for kept in self._library_plans.values():
                for plan in _drained(kept):
                    cleanup.callback(plan.close)
            with suppress(IndexError):  # no stream exists
                stream, what = self._capturing.pop(), "a stream cannot be destroyed"
                call, destroy = self._device.driver.call, "cuStreamDestroy_v2"
                cleanup.callback(call, destroy, stream, what=what)
            cleanup.callback(self.drop_graphs)


def _call_key(plan: BoundPlan, bases: Bases) -> _CallKey:
    """Sizes and addresses of a call, without constants, which never move."""
    addresses = (tuple(bases[base]) for base in BASES if base != "constant")
    return (plan.sizes, *addresses)


def _drained(values: OrderedDict[Any, _Value]) -> Iterator[_Value]:
    """Removes and yields the values of a mapping."""
    with suppress(KeyError):  # the mapping is empty
        while True:
            yield values.popitem()[1]

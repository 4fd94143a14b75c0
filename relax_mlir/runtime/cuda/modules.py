"""Kernel modules of a model, compiled from PTX by the driver."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from relax_mlir.errors import DeviceError, RelaxError
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.driver import (
    MAX_DYNAMIC_SHARED_BYTES,
    STATIC_SHARED_BYTES,
)
from relax_mlir.runtime.cuda.plan import BoundLaunch, Launch

__all__ = ["Kernels"]

_THREADS = 8  # for parallel compilation in the driver
_DEFAULT_SHARED_BYTES = 48 << 10  # per block, static and dynamic, without opt-in


class Kernels:
    """The kernels of a model on a device, looked up on demand.

    The device must be current.

    Args:
        ptx: of every program.
        names: of the model's kernel calls, in order.

    Raises:
        DeviceError: the driver rejects the PTX.
    """

    def __init__(
        self, device: Device, ptx: Sequence[bytes], names: Sequence[str]
    ) -> None:
        self._device, self._names = device, names
        self._functions: dict[tuple[int, str], int] = {}
        self._dynamic_bytes: dict[int, int] = {}  # configured limit, by function
        self._modules: dict[int, int] = {}  # by the program
        # Empty programs and library calls have no PTX.
        texts = {n: text for n, text in enumerate(ptx) if text}
        with ThreadPoolExecutor(_THREADS) as pool:  # the driver compiles on each
            loading = {n: pool.submit(self._load, n, text) for n, text in texts.items()}
        try:
            for number, module in loading.items():
                self._modules[number] = module.result()
        except RelaxError:
            done = {n: m for n, m in loading.items() if m.exception() is None}
            self._modules = {n: module.result() for n, module in done.items()}
            with suppress(RelaxError):  # report the first error
                self.close()
            raise

    def _load(self, number: int, text: bytes) -> int:
        what = f"`main`: PTX {number} is rejected"
        with self._device.current():
            return self._device.driver.load_module(text, what)

    def name(self, step: BoundLaunch) -> str:
        """The kernel of a launch, for errors."""
        return f"`main`: kernel `{self._names[step.kernel]}`"

    def describe(self, step: BoundLaunch, launch: Launch) -> str:
        """The configuration of a launch, for errors."""
        grid, block = ("x".join(map(str, n)) for n in (launch.grid, launch.block))
        return (
            f"{self.name(step)} (`{launch.kernel}`), {grid} "
            f"blocks of {block} threads, {launch.shared_bytes} bytes of shared memory"
        )

    def function(self, step: BoundLaunch, launch: Launch) -> int:
        """The driver's handle of a launch's kernel, with its shared memory configured.

        Raises:
            DeviceError: the kernel does not exist, or needs too much shared memory.
        """
        name, driver = launch.kernel, self._device.driver
        key = (step.program, name)
        if key not in self._functions:
            module, what = self._modules[step.program], self.describe(step, launch)
            self._functions[key] = driver.handle(
                "cuModuleGetFunction", module, name.encode(), what=what
            )
        function = self._functions[key]
        if launch.shared_bytes > self._dynamic_bytes.get(function, 0):
            self._allow_shared(
                function, launch.shared_bytes, self.describe(step, launch)
            )
        return function

    def _allow_shared(self, function: int, dynamic_bytes: int, what: str) -> None:
        """Raise the limit of dynamic shared memory of a kernel."""
        driver, limit = self._device.driver, self._device.shared_bytes
        attribute = STATIC_SHARED_BYTES, function
        static_bytes = driver.handle("cuFuncGetAttribute", *attribute, what=what)
        needed = static_bytes + dynamic_bytes
        if needed > limit:
            raise DeviceError(
                f"{what}: with {static_bytes} static bytes {needed}; GPU "
                f"{self._device.ordinal} allows {limit} per block"
            )
        if needed > _DEFAULT_SHARED_BYTES:
            attribute = function, MAX_DYNAMIC_SHARED_BYTES, dynamic_bytes
            driver.call("cuFuncSetAttribute", *attribute, what=what)
        self._dynamic_bytes[function] = dynamic_bytes

    def close(self) -> None:
        """Unload the modules."""
        with ExitStack() as cleanup:
            for module in self._modules.values():
                what = "a module cannot be unloaded"
                unload = self._device.driver.call
                cleanup.callback(unload, "cuModuleUnload", module, what=what)

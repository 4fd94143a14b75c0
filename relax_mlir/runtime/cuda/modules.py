"""PTX, compiled by the driver for the very device, and the kernels in it."""

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
from relax_mlir.runtime.cuda.plan import Launch, Started

__all__ = ["Kernels"]

_THREADS = 8  # that compile at once, in the driver
_DEFAULT_SHARED_BYTES = 48 << 10  # of a block, static and dynamic, without opting in


class Kernels:
    """The kernels of a model on a device, found when they are first asked for.

    The device is current when it is used.

    Args:
        ptx: of every program.
        names: of the kernels as the model calls them, in the order of its calls.

    Raises:
        DeviceError: the driver does not take the PTX.
    """

    def __init__(
        self, device: Device, ptx: Sequence[bytes], names: Sequence[str]
    ) -> None:
        self._device, self._names = device, names
        self._functions: dict[tuple[int, str], int] = {}
        self._dynamic_bytes: dict[int, int] = {}  # allowed, by function
        self._modules: dict[int, int] = {}  # by the program
        # A program that has nothing to do has no kernels.
        texts = {n: text for n, text in enumerate(ptx) if text}
        with ThreadPoolExecutor(_THREADS) as pool:  # the driver compiles on each
            loading = {n: pool.submit(self._load, n, text) for n, text in texts.items()}
        try:
            for number, module in loading.items():
                self._modules[number] = module.result()
        except RelaxError:
            done = {n: m for n, m in loading.items() if m.exception() is None}
            self._modules = {n: module.result() for n, module in done.items()}
            with suppress(RelaxError):  # the first error is the one to tell
                self.close()
            raise

    def _load(self, number: int, text: bytes) -> int:
        what = f"`main`: PTX {number} is refused"
        with self._device.current():
            return self._device.driver.load_module(text, what)

    def name(self, step: Started) -> str:
        """The kernel that a launch is of, for errors."""
        return f"`main`: kernel `{self._names[step.kernel]}`"

    def describe(self, step: Started, launch: Launch) -> str:
        """A launch, for errors."""
        grid, block = ("x".join(map(str, n)) for n in (launch.grid, launch.block))
        return (
            f"{self.name(step)} (`{launch.kernel}`), {grid} "
            f"blocks of {block} threads, {launch.shared_bytes} bytes of shared memory"
        )

    def function(self, step: Started, launch: Launch) -> int:
        """The driver's handle of the kernel of a launch, which may start it.

        Raises:
            DeviceError: there is no such kernel, or not so much shared memory.
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
        """Let a kernel have dynamic shared memory, beside the static that its code has."""
        driver, most = self._device.driver, self._device.shared_bytes
        asked = STATIC_SHARED_BYTES, function
        static_bytes = driver.handle("cuFuncGetAttribute", *asked, what=what)
        needed = static_bytes + dynamic_bytes
        if needed > most:
            raise DeviceError(
                f"{what}: with {static_bytes} bytes of its own {needed}; a block of GPU "
                f"{self._device.ordinal} may have {most}"
            )
        if needed > _DEFAULT_SHARED_BYTES:
            allowed = function, MAX_DYNAMIC_SHARED_BYTES, dynamic_bytes
            driver.call("cuFuncSetAttribute", *allowed, what=what)
        self._dynamic_bytes[function] = dynamic_bytes

    def close(self) -> None:
        """Give the modules back."""
        with ExitStack() as given_back:
            for module in self._modules.values():
                what = "a module cannot be given back"
                unload = self._device.driver.call
                given_back.callback(unload, "cuModuleUnload", module, what=what)

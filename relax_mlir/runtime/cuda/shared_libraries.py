"""NVIDIA's libraries beside the driver, through ctypes: where they are, every call checked."""

from __future__ import annotations

import ctypes
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_int, c_void_p
from importlib import metadata
from typing import Any, ClassVar, TypeVar

from relax_mlir.errors import DeviceError, without_hint
from relax_mlir.runtime.cuda.devices import Device

__all__ = ["SharedLibrary", "dotted", "find", "handle"]


class SharedLibrary(ABC):
    """A library whose functions return 0, or the number of an error.

    Attributes:
        path: what it was loaded as; version: its own, as ``13.1.0``.
        name: what NVIDIA calls it; needs: the version that has all of its functions.
        arguments: the types of its functions' arguments, by name.
        starts: the function that makes a handle for the device that is current.

    Args:
        loaded: the library.

    Raises:
        DeviceError: it lacks a function.
    """

    version: str
    name: ClassVar[str]
    needs: ClassVar[str]
    arguments: ClassVar[Mapping[str, Sequence[Any]]]  # Any: types of ctypes
    starts: ClassVar[str]

    def __init__(self, loaded: ctypes.CDLL, path: str) -> None:
        self.path, self._loaded = path, loaded
        self._functions = {
            name: self.function(name, types, c_int)
            for name, types in self.arguments.items()
        }

    def function(self, name: str, arguments: Sequence[Any], result: Any) -> Any:
        """A function of ctypes; Any: its types are ctypes' as well.

        Raises:
            DeviceError: it is not there.
        """
        try:
            function = getattr(self._loaded, name)
        except AttributeError:
            raise DeviceError(
                f"{self.name} (`{self.path}`) has no `{name}`: expected {self.needs}"
            ) from None
        function.argtypes, function.restype = arguments, result
        return function

    @abstractmethod
    def describe(self, status: int) -> str:
        """What an error is: its name, its number, and what the library says of it."""

    def call(self, name: str, *arguments: Any, what: str) -> None:  # Any: C values
        """Call a function.

        Args:
            what: is wrong if it fails: how the message begins.

        Raises:
            DeviceError: it fails.
        """
        status = self._functions[name](*arguments)
        if status:
            raise DeviceError(f"{what}: {name}: {self.describe(status)}")

    def make(self, name: str, *arguments: Any, what: str) -> int:  # Any: C values
        """What a function puts where its first argument points.

        Raises:
            DeviceError: it fails.
        """
        made = c_void_p()
        self.call(name, byref(made), *arguments, what=what)
        return made.value or 0


@functools.cache
def handle(library: SharedLibrary, device: Device) -> int:
    """The library's handle for a device, which is current; the process keeps it.

    Raises:
        DeviceError: the library does not start.
    """
    what = f"{library.name} (`{library.path}`) does not start on GPU {device.ordinal}"
    return library.make(library.starts, what=what)


def dotted(version: int) -> str:
    """``13.1.0`` of 130100, as NVIDIA's libraries number their versions."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


L = TypeVar("L", bound=SharedLibrary)


def find(
    name: str,
    libraries: Mapping[int, str],
    packages: Mapping[int, str],
    most: int,
    opened: Callable[[str, int], L],
) -> L:
    """A library: that which the process has, a package of pip, or the system's.

    Args:
        name: of the library, for errors.
        libraries: what it is called, by the version of CUDA that it needs of the driver,
            the newest first; packages: of pip that have it, likewise.
        most: the driver's version; what is newer is passed over.
        opened: loads it by path and flags of the loader, or raises.

    Raises:
        DeviceError: there is none that can be loaded.
    """
    problem = f"the driver is of CUDA {most}"
    majors = [major for major in libraries if major <= most]
    for place in _places(majors, libraries, packages):
        found = _attempt(opened, *place)
        if not isinstance(found, str):
            return found
        problem = found
    offered = " or ".join(f"`pip install {package}`" for package in packages.values())
    raise DeviceError(
        f"{name}, which models call that were compiled so, cannot be loaded: {problem}. "
        f'Hint: {offered}, or compile the model with `library="never"`'
    )


def _attempt(opened: Callable[[str, int], L], path: str, flags: int) -> L | str:
    """The library, or why it cannot be loaded."""
    try:
        return opened(path, flags)
    except (OSError, DeviceError) as error:
        return without_hint(error)


def _places(
    majors: Sequence[int], libraries: Mapping[int, str], packages: Mapping[int, str]
) -> Iterator[tuple[str, int]]:
    """Where the library may be, and flags of the loader, in the order to look."""
    names = list(dict.fromkeys(libraries[major] for major in majors))
    yield from ((name, os.RTLD_NOLOAD) for name in names)
    for major in majors:
        try:
            files = metadata.files(packages[major]) or ()
        except metadata.PackageNotFoundError:
            continue
        name = os.path.basename(libraries[major])
        yield from ((str(f.locate()), 0) for f in files if f.name == name)
    yield from ((name, 0) for name in names)

"""Loading of NVIDIA's libraries by ctypes, with checked calls."""

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

__all__ = ["SharedLibrary", "find_library", "format_version", "handle"]


class SharedLibrary(ABC):
    """A library whose functions return 0 or an error number.

    Attributes:
        path: that it was loaded from; version: such as ``13.1.0``.
        name: NVIDIA's; needs: description of the required version.
        arguments: argument types of its functions, by name.
        starts: the function that creates a handle for the current device.

    Args:
        loaded: the library.

    Raises:
        DeviceError: the library lacks a function.
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
        """A ctypes function with declared types; Any: ctypes.

        Raises:
            DeviceError: the library lacks the function.
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
        """Description of an error: its name, its number, and the library's message."""

    def call(self, name: str, *arguments: Any, what: str) -> None:  # Any: C values
        """Call a function.

        Args:
            what: beginning of error messages.

        Raises:
            DeviceError: the call fails.
        """
        status = self._functions[name](*arguments)
        if status:
            raise DeviceError(f"{what}: {name}: {self.describe(status)}")

    def make(self, name: str, *arguments: Any, what: str) -> int:  # Any: C values
        """Call a function; returns its first, output parameter.

        Raises:
            DeviceError: the call fails.
        """
        result = c_void_p()
        self.call(name, byref(result), *arguments, what=what)
        return result.value or 0


@functools.cache
def handle(library: SharedLibrary, device: Device) -> int:
    """The library's handle for the current device, cached for the process.

    Raises:
        DeviceError: the initialisation of the library fails.
    """
    library_name = f"{library.name} (`{library.path}`)"
    what = f"{library_name} cannot be initialised on GPU {device.ordinal}"
    return library.make(library.starts, what=what)


def format_version(version: int) -> str:
    """``13.1.0`` for 130100, the version encoding of NVIDIA's libraries."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


L = TypeVar("L", bound=SharedLibrary)


def find_library(
    name: str,
    libraries: Mapping[int, str],
    packages: Mapping[int, str],
    driver_major: int,
    load: Callable[[str, int], L],
) -> L:
    """Find a library: already loaded, of a pip package, or the system's.

    Args:
        name: of the library, for errors.
        libraries: file names, by major CUDA version, the newest first; packages: of pip,
            likewise.
        driver_major: CUDA version of the driver; newer libraries are skipped.
        load: loads a path with loader flags, or raises.

    Raises:
        DeviceError: no library can be loaded.
    """
    problem = f"the driver is of CUDA {driver_major}"
    majors = [major for major in libraries if major <= driver_major]
    for candidate in _candidates(majors, libraries, packages):
        loaded = _attempt(load, *candidate)
        if not isinstance(loaded, str):
            return loaded
        problem = loaded
    installs = " or ".join(f"`pip install {package}`" for package in packages.values())
    raise DeviceError(
        f"{name}, which the model calls, cannot be loaded: {problem}. Hint: {installs}, or "
        'compile the model with `library="never"`'
    )


def _attempt(load: Callable[[str, int], L], path: str, flags: int) -> L | str:
    """The library, or the reason why it cannot be loaded."""
    try:
        return load(path, flags)
    except (OSError, DeviceError) as error:
        return without_hint(error)


def _candidates(
    majors: Sequence[int], libraries: Mapping[int, str], packages: Mapping[int, str]
) -> Iterator[tuple[str, int]]:
    """Candidate paths with loader flags, in order."""
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

"""Arrays that calls of a model are given: whether they are what it expects."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from relax_mlir.runtime.cuda.arrays import View, device_view, host_view
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.signature import Parameter, Signature

__all__ = ["GivenArrays", "place_of"]


def place_of(role: str, number: int, parameter: Parameter) -> str:
    """How messages name an argument or an output."""
    return f"`main`: {role} {number} `{parameter.name}`"


class GivenArrays:
    """Looks at arrays that calls are given, in order.

    Args:
        signature: what the model expects; ordinal: of its GPU.
    """

    def __init__(self, signature: Signature, ordinal: int) -> None:
        self._signature, self._ordinal = signature, ordinal

    def inputs(
        self,
        arrays: Sequence[Any],  # Any: whatever numpy takes, and arrays on the GPU
        device: Device,
        stream: int,
        user: int,
        written: Collection[int] = (),
    ) -> list[View]:
        """Where inputs are.

        Args:
            stream: on which they are read; user: the number of who does.
            written: numbers of those that are written to.

        Raises:
            TypeError: one has another element type, or is on another GPU.
            ValueError: one cannot be written to.
        """
        views: list[View] = []
        for number, array in enumerate(arrays):
            is_written = number in written
            view = device_view(array, device, stream, is_written=is_written, user=user)
            view = host_view(array) if view is None else view
            parameter = self._signature.inputs[number]
            if view.dtype != parameter.dtype or view.ordinal != self._ordinal:
                self._check(view, parameter, "argument", number)
            if is_written:
                view.check_writable(place_of("argument", number, parameter))
            views.append(view)
        return views

    def outputs(
        self,
        arrays: Sequence[Any],  # Any: whatever the caller gave
        device: Device,
        stream: int,
        user: int,
    ) -> list[View]:
        """The arrays to write to, after a look whether they can be; as :meth:`inputs`."""
        views: list[View] = []
        for number, array in enumerate(arrays):
            parameter = self._signature.outputs[number]
            view = device_view(array, device, stream, is_written=True, user=user)
            if view is None:
                view = _on_host(array, place_of("output", number, parameter))
            self._check(view, parameter, "output", number)
            if view.is_read_only:
                where = place_of("output", number, parameter)
                raise ValueError(
                    f"{where}: expected an array to write to, got a read-only one"
                )
            views.append(view)
        return views

    def _check(self, view: View, parameter: Parameter, role: str, number: int) -> None:
        if view.ordinal is not None and view.ordinal != self._ordinal:
            raise TypeError(
                f"{place_of(role, number, parameter)}: expected an array on GPU "
                f"{self._ordinal}, got one on GPU {view.ordinal}"
            )
        # Without ml_dtypes, types that numpy has not are numbers of as many bits.
        if view.dtype != parameter.dtype and view.dtype != _stored(parameter.dtype):
            raise TypeError(
                f"{place_of(role, number, parameter)}: expected element type "
                f"{parameter.dtype}, got {view.dtype}"
            )


def _on_host(array: Any, where: str) -> View:  # Any: whatever the caller gave
    """An array of numpy to write to.

    Raises:
        TypeError: it is none.
        ValueError: it lies so that it cannot be written to.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    view = host_view(array)
    if view.owner is not array:
        raise ValueError(
            f"{where}: expected strides of whole elements, got {array.strides} bytes"
        )
    return view


@functools.lru_cache(maxsize=64)
def _stored(dtype: str) -> str:
    """What numpy calls an element type here."""
    return element_type(dtype).name

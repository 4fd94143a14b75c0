"""Validation of input and output arrays of calls."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from relax_mlir.runtime.cuda.arrays import ArrayView, device_view, host_view
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.signature import Parameter, Signature

__all__ = ["ArgumentValidator", "argument_name"]


def argument_name(role: str, number: int, parameter: Parameter) -> str:
    """Name of an argument or output in messages."""
    return f"`main`: {role} {number} `{parameter.name}`"


class ArgumentValidator:
    """Validates the arrays of calls against a signature.

    Args:
        signature: of the model; ordinal: of its GPU.
    """

    def __init__(self, signature: Signature, ordinal: int) -> None:
        self._signature, self._ordinal = signature, ordinal

    def inputs(
        self,
        arrays: Sequence[Any],  # Any: array-likes, and arrays on the GPU
        device: Device,
        stream: int,
        user: int,
        written: Collection[int] = (),
    ) -> list[ArrayView]:
        """Views of inputs, ordered on a stream after pending writes.

        Args:
            stream: of the call; user: number of the model.
            written: indices of inputs that are written to.

        Raises:
            TypeError: an element type differs, or an array is on another GPU.
            ValueError: a written input is not writable in place.
        """
        views: list[ArrayView] = []
        for number, array in enumerate(arrays):
            is_written = number in written
            view = device_view(array, device, stream, is_written=is_written, user=user)
            view = host_view(array) if view is None else view
            parameter = self._signature.inputs[number]
            if view.dtype != parameter.dtype or view.ordinal != self._ordinal:
                self._check(view, parameter, "argument", number)
            if is_written:
                view.check_writable(argument_name("argument", number, parameter))
            views.append(view)
        return views

    def outputs(
        self,
        arrays: Sequence[Any],  # Any: arrays of the caller
        device: Device,
        stream: int,
        user: int,
    ) -> list[ArrayView]:
        """Views of output arrays, validated as writable; see :meth:`inputs`."""
        views: list[ArrayView] = []
        for number, array in enumerate(arrays):
            parameter = self._signature.outputs[number]
            view = device_view(array, device, stream, is_written=True, user=user)
            if view is None:
                view = _on_host(array, argument_name("output", number, parameter))
            self._check(view, parameter, "output", number)
            if view.is_read_only:
                where = argument_name("output", number, parameter)
                raise ValueError(
                    f"{where}: expected an array to write to, got a read-only one"
                )
            views.append(view)
        return views

    def _check(
        self, view: ArrayView, parameter: Parameter, role: str, number: int
    ) -> None:
        if view.ordinal is not None and view.ordinal != self._ordinal:
            raise TypeError(
                f"{argument_name(role, number, parameter)}: expected an array on GPU "
                f"{self._ordinal}, got one on GPU {view.ordinal}"
            )
        # Without ml_dtypes, types that numpy lacks are integers of the same width.
        if view.dtype != parameter.dtype and view.dtype != _stored(parameter.dtype):
            raise TypeError(
                f"{argument_name(role, number, parameter)}: expected element type "
                f"{parameter.dtype}, got {view.dtype}"
            )


def _on_host(array: Any, where: str) -> ArrayView:  # Any: arrays of the caller
    """View of a numpy array as an output.

    Raises:
        TypeError: it is not a numpy array.
        ValueError: its strides are not multiples of the element size.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    view = host_view(array)
    if view.owner is not array:
        raise ValueError(
            f"{where}: expected strides that are multiples of the element size, got "
            f"{array.strides} bytes"
        )
    return view


@functools.lru_cache(maxsize=64)
def _stored(dtype: str) -> str:
    """numpy's name of an element type, which depends on ml_dtypes."""
    return element_type(dtype).name

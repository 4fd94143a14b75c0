"""Strided copies: packing of arrays into contiguous memory, and unpacking."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref
from itertools import product
from typing import NamedTuple

import numpy as np

from relax_mlir.runtime.cuda.arrays import ArrayView, row_major_strides
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.driver import Copy2D
from relax_mlir.runtime.elements import element_type

__all__ = ["copy_in", "copy_out"]

_DEVICE_MEMORY = 2  # CU_MEMORYTYPE_DEVICE
# Maximum number of device copies per array; with more, packing on the host is faster.
_MAX_COPIES = 64
_MAX_OVERHEAD = 4  # downloaded bytes per packed byte


class _Axis(NamedTuple):
    """A dimension: its size, and its byte strides in the array and when packed."""

    size: int
    step: int
    dense_step: int


class _Rectangle(NamedTuple):
    """A 2-D part of an array: ``height`` rows of ``width`` bytes at constant pitch."""

    offset: int
    dense_offset: int
    pitch: int
    dense_pitch: int
    width: int
    height: int


def copy_in(
    device: Device, view: ArrayView, address: int, stream: int, *, is_waited_for: bool
) -> object:
    """Pack an array into device memory.

    Args:
        is_waited_for: whether the caller synchronises before the array can change.

    Returns:
        An object to keep alive until the stream has completed the copy.
    """
    if view.size_bytes == 0:
        return None
    if view.ordinal is None:
        assert isinstance(view.owner, np.ndarray)
        array = view.owner
        source = np.ascontiguousarray(array) if is_waited_for else array.copy("C")
        return _upload(device, source, address, stream)
    rectangles = list(_rectangles(view, device.max_pitch_bytes))
    if len(rectangles) > _MAX_COPIES:
        span = _span(view)
        if span.stop - span.start <= _MAX_OVERHEAD * view.size_bytes:
            packed = _pack_on_host(device, view, span, stream)
            return _upload(device, packed, address, stream)
    for rows in rectangles:
        source = (view.address + rows.offset, rows.pitch)
        _copy(
            device,
            source,
            (address + rows.dense_offset, rows.dense_pitch),
            rows,
            stream,
        )
    return view.owner


def _upload(
    device: Device, source: np.ndarray, address: int, stream: int
) -> np.ndarray:
    copy = (address, source.ctypes.data, source.nbytes, stream)
    what = "an input cannot be copied"
    device.driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
    return source


def _span(view: ArrayView) -> range:
    """The byte range of an array, relative to its first element."""
    ends = [
        (size - 1) * step * view.item_bytes
        for size, step in zip(view.shape, view.strides, strict=True)
    ]
    first = sum(end for end in ends if end < 0)
    return range(first, sum(end for end in ends if end > 0) + view.item_bytes)


def _pack_on_host(
    device: Device, view: ArrayView, span: range, stream: int
) -> np.ndarray:
    """Download an array, and pack it by numpy."""
    what = "an input cannot be copied"
    memory = np.empty(len(span), np.uint8)
    copy = (memory.ctypes.data, view.address + span.start, memory.nbytes, stream)
    device.driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
    device.driver.call("cuStreamSynchronize", stream, what=what)
    strides = [n * view.item_bytes for n in view.strides]
    kind = element_type(view.dtype)
    array = np.ndarray(view.shape, kind, memory.data, -span.start, strides)
    return np.ascontiguousarray(array)


def copy_out(device: Device, address: int, view: ArrayView, stream: int) -> None:
    """Unpack device memory into an array; synchronous for host arrays."""
    what = "an output cannot be copied"
    if view.ordinal is None:
        assert isinstance(view.owner, np.ndarray)
        array = view.owner
        is_dense = array.flags.c_contiguous
        target = array if is_dense else np.empty(view.shape, element_type(view.dtype))
        if view.size_bytes:
            copy = (target.ctypes.data, address, view.size_bytes, stream)
            device.driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
            device.driver.call("cuStreamSynchronize", stream, what=what)
        if not is_dense:
            array[...] = target
        return
    for rows in _rectangles(view, device.max_pitch_bytes):
        source = (address + rows.dense_offset, rows.dense_pitch)
        _copy(device, source, (view.address + rows.offset, rows.pitch), rows, stream)


def _copy(
    device: Device,
    source: tuple[int, int],
    target: tuple[int, int],
    rows: _Rectangle,
    stream: int,
) -> None:
    """Copy a rectangle between two addresses with pitches."""
    driver, what = device.driver, "an array cannot be copied on the device"
    if rows.height == 1:
        ends = target[0], source[0]
        driver.call("cuMemcpyDtoDAsync_v2", *ends, rows.width, stream, what=what)
        return
    copy = Copy2D()
    copy.src_memory = copy.dst_memory = _DEVICE_MEMORY
    copy.src_device, copy.src_pitch_bytes = source
    copy.dst_device, copy.dst_pitch_bytes = target
    copy.width_bytes, copy.height = rows.width, rows.height
    driver.call("cuMemcpy2DAsync_v2", byref(copy), stream, what=what)


def _rectangles(view: ArrayView, max_pitch_bytes: int) -> Iterator[_Rectangle]:
    """Split an array into as few rectangles as possible."""
    if view.size_bytes == 0:
        return
    axes = _axes(view)
    width = view.item_bytes
    if axes and axes[-1].step == width:
        width *= axes.pop().size
    rows = [
        axis
        for axis in axes
        if width <= axis.step <= max_pitch_bytes and axis.dense_step <= max_pitch_bytes
    ]
    row = max(rows, default=_Axis(1, width, width))
    others = [axis for axis in axes if axis is not row]
    for index in product(*(range(axis.size) for axis in others)):
        indexed = list(zip(index, others, strict=True))
        yield _Rectangle(
            sum(i * axis.step for i, axis in indexed),
            sum(i * axis.dense_step for i, axis in indexed),
            *(row.step, row.dense_step, width, row.size),
        )


def _axes(view: ArrayView) -> list[_Axis]:
    """The dimensions, without those of size 1, and with contiguous ones merged."""
    axes: list[_Axis] = []
    for size, stride, dense in zip(
        view.shape, view.strides, row_major_strides(view.shape), strict=True
    ):
        step, dense_step = stride * view.item_bytes, dense * view.item_bytes
        if size == 1:
            continue
        if axes and axes[-1].step == size * step:
            size *= axes.pop().size
        axes.append(_Axis(size, step, dense_step))
    return axes

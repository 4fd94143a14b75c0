"""Copies between arrays that lie as they like and memory without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref
from itertools import product
from typing import NamedTuple

import numpy as np

from relax_mlir.runtime.cuda.arrays import View, row_major
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.driver import Copy2D
from relax_mlir.runtime.elements import element_type

__all__ = ["copy_in", "copy_out"]

_DEVICE_MEMORY = 2  # the driver's number
_MOST_COPIES = (
    64  # of one array by the driver; more take longer than a way over the host
)
_MOST_SPARSE = 4  # bytes that may cross to the host for one that is needed


class _Axis(NamedTuple):
    """A dimension: its size, and the bytes from one to the next, here and without gaps."""

    size: int
    step: int
    dense_step: int


class _Rows(NamedTuple):
    """Some rows of an array at equal distances; all in bytes, ``height`` apart."""

    offset: int
    dense_offset: int
    pitch: int
    dense_pitch: int
    width: int
    height: int


def copy_in(
    device: Device, view: View, address: int, stream: int, *, is_waited_for: bool
) -> object:
    """Copy an array to memory of the device.

    Args:
        is_waited_for: whether the caller waits for the stream before the array can change.

    Returns:
        What must live until the stream has passed the copy.
    """
    if view.size_bytes == 0:
        return None
    if view.ordinal is None:
        assert isinstance(view.owner, np.ndarray)
        given = view.owner
        source = np.ascontiguousarray(given) if is_waited_for else given.copy("C")
        return _upload(device, source, address, stream)
    rectangles = list(_rectangles(view, device.max_pitch_bytes))
    if len(rectangles) > _MOST_COPIES:
        span = _span(view)
        if span.stop - span.start <= _MOST_SPARSE * view.size_bytes:
            found = _over_the_host(device, view, span, stream)
            return _upload(device, found, address, stream)
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


def _span(view: View) -> range:
    """The bytes that an array reaches over, from its first element."""
    ends = [
        (size - 1) * step * view.item_bytes
        for size, step in zip(view.shape, view.strides, strict=True)
    ]
    first = sum(end for end in ends if end < 0)
    return range(first, sum(end for end in ends if end > 0) + view.item_bytes)


def _over_the_host(device: Device, view: View, span: range, stream: int) -> np.ndarray:
    """An array without gaps, copied by numpy."""
    what = "an input cannot be copied"
    memory = np.empty(len(span), np.uint8)
    copy = (memory.ctypes.data, view.address + span.start, memory.nbytes, stream)
    device.driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
    device.driver.call("cuStreamSynchronize", stream, what=what)
    strides = [n * view.item_bytes for n in view.strides]
    kind = element_type(view.dtype)
    found = np.ndarray(view.shape, kind, memory.data, -span.start, strides)
    return np.ascontiguousarray(found)


def copy_out(device: Device, address: int, view: View, stream: int) -> None:
    """Copy memory of the device to an array; one on the host is waited for."""
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
    rows: _Rows,
    stream: int,
) -> None:
    """Copy some rows, each end an address and a distance of rows."""
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


def _rectangles(view: View, max_pitch_bytes: int) -> Iterator[_Rows]:
    """All of an array, as few rectangles as they can be."""
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
        places = list(zip(index, others, strict=True))
        yield _Rows(
            sum(i * axis.step for i, axis in places),
            sum(i * axis.dense_step for i, axis in places),
            *(row.step, row.dense_step, width, row.size),
        )


def _axes(view: View) -> list[_Axis]:
    """The dimensions; those of 1 dropped, neighbours without a gap joined."""
    axes: list[_Axis] = []
    for size, stride, dense in zip(
        view.shape, view.strides, row_major(view.shape), strict=True
    ):
        step, dense_step = stride * view.item_bytes, dense * view.item_bytes
        if size == 1:
            continue
        if axes and axes[-1].step == size * step:
            size *= axes.pop().size
        axes.append(_Axis(size, step, dense_step))
    return axes

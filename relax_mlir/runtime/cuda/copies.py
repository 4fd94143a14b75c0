"""Copies between arrays that lie as they like and memory without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref
from itertools import product
from typing import NamedTuple

import numpy as np

from relax_mlir.runtime.cuda.arrays import View
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.driver import Copy2D
from relax_mlir.runtime.elements import element_type

__all__ = ["copy_in", "copy_out"]

_DEVICE_MEMORY = 2  # the driver's number


class _Rows(NamedTuple):
    """Some rows of an array at equal distances; all in bytes, ``height`` apart."""

    offset: int
    dense_offset: int
    pitch: int
    width: int
    height: int


def copy_in(device: Device, view: View, address: int, stream: int) -> None:
    """Copy an array to memory of the device; one on the host is copied when this returns."""
    what = "an input cannot be copied"
    if view.ordinal is None:
        if view.size_bytes:
            assert isinstance(view.owner, np.ndarray)
            source = np.ascontiguousarray(view.owner)
            copy = (address, source.ctypes.data, view.size_bytes, stream)
            device.driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
        return
    for rows in _rows(view):
        copy = _copy_2d(rows)
        copy.src_device, copy.src_pitch_bytes = view.address + rows.offset, rows.pitch
        copy.dst_device, copy.dst_pitch_bytes = (
            address + rows.dense_offset,
            rows.width,
        )
        device.driver.call("cuMemcpy2DAsync_v2", byref(copy), stream, what=what)


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
    for rows in _rows(view):
        copy = _copy_2d(rows)
        copy.src_device, copy.src_pitch_bytes = (
            address + rows.dense_offset,
            rows.width,
        )
        copy.dst_device, copy.dst_pitch_bytes = view.address + rows.offset, rows.pitch
        device.driver.call("cuMemcpy2DAsync_v2", byref(copy), stream, what=what)


def _copy_2d(rows: _Rows) -> Copy2D:
    copy = Copy2D()
    copy.src_memory = copy.dst_memory = _DEVICE_MEMORY
    copy.width_bytes, copy.height = rows.width, rows.height
    return copy


def _rows(view: View) -> Iterator[_Rows]:
    """All of an array, as few rectangles as they can be."""
    if view.size_bytes == 0:
        return
    axes = _axes(view)
    width = view.item_bytes
    if axes and axes[-1][1] == width:
        width *= axes.pop()[0]
    height, pitch = 1, width
    if axes and axes[-1][1] >= width:
        height, pitch = axes.pop()
    dense = 0
    for index in product(*(range(n) for n, _ in axes)):
        offset = sum(i * step for i, (_, step) in zip(index, axes, strict=True))
        yield _Rows(offset, dense, pitch, width, height)
        dense += width * height


def _axes(view: View) -> list[tuple[int, int]]:
    """Sizes and strides in bytes; those of 1 dropped, neighbours without a gap joined."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        step = stride * view.item_bytes
        if size == 1:
            continue
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    return axes

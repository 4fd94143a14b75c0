"""NVIDIA devices, as far as the driver tells."""

import ctypes

__all__ = ["device_names"]


def device_names() -> list[str]:
    """Names of the devices; none without a driver or a device.

    Source: CUDA driver API: cuInit, cuDeviceGetCount, cuDeviceGetName.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_name(driver, ordinal) for ordinal in range(count.value)]


def _name(driver: ctypes.CDLL, ordinal: int) -> str:
    device = ctypes.c_int(0)
    text = ctypes.create_string_buffer(256)
    if driver.cuDeviceGet(ctypes.byref(device), ordinal) or driver.cuDeviceGetName(
        text, len(text), device
    ):
        return f"device {ordinal}"
    return text.value.decode(errors="replace")

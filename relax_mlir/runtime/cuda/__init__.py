"""Running compiled models on NVIDIA GPUs.

The package imports the standard library, numpy and those modules of ours that do the
same: files of compiled models carry it, and run where nothing of ours is installed.
"""

from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import compute_capability, device, device_names

__all__ = ["DeviceArray", "compute_capability", "device", "device_names"]

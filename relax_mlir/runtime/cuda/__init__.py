"""Runtime for NVIDIA GPUs.

The package imports only the standard library, numpy, and modules of relax_mlir with the
same restriction: model files bundle it, and run without an installation of relax_mlir.
"""

from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import compute_capability, device, device_names

__all__ = ["DeviceArray", "compute_capability", "device", "device_names"]

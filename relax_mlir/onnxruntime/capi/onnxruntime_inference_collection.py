"""Where onnxruntime defines its sessions."""

from relax_mlir.onnxruntime.session import InferenceSession
from relax_mlir.onnxruntime.values import IOBinding, OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]

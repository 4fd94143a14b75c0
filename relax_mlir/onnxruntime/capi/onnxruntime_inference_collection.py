"""Where onnxruntime defines its sessions."""

from relax_mlir.onnxruntime.session import InferenceSession, IOBinding
from relax_mlir.onnxruntime.values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]

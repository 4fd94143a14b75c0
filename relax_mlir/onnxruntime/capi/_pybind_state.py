"""The same as ``onnxruntime_pybind11_state``, under its other name."""

from relax_mlir.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
from relax_mlir.onnxruntime.capi.onnxruntime_pybind11_state import __all__ as __all__

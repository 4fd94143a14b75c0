"""Modules of onnxruntime's package ``capi`` that programs import from."""

from relax_mlir.onnxruntime.capi import (
    _pybind_state,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
)

__all__ = [
    "_pybind_state",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
]

"""Where onnxruntime defines its exceptions and options."""

from relax_mlir.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)
from relax_mlir.onnxruntime.options import RunOptions, SessionOptions
from relax_mlir.onnxruntime.types import ModelMetadata, NodeArg
from relax_mlir.onnxruntime.values import OrtDevice

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtDevice",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
]

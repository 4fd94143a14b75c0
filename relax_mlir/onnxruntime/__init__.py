"""onnxruntime's Python interface on compiled models.

``from relax_mlir import onnxruntime`` serves programs that were written for onnxruntime; they
run unchanged with ``python -m relax_mlir.onnxruntime app.py``, or if :func:`install` is
called before ``import onnxruntime``.
"""

from relax_mlir.onnxruntime import capi
from relax_mlir.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from relax_mlir.onnxruntime.session import PROVIDER, InferenceSession, IOBinding
from relax_mlir.onnxruntime.types import ModelMetadata, NodeArg
from relax_mlir.onnxruntime.values import OrtDevice, OrtValue
from relax_mlir.support.argument_types import check_exports
from relax_mlir.support.import_alias import alias_package

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "capi",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "install",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

__version__ = "1.23.0"  # whose interface this is, for programs that look
SessionIOBinding = IOBinding


def install() -> None:
    """Resolve ``import onnxruntime`` to this package, in this process.

    Idempotent; the hook cannot be uninstalled.

    Raises:
        RelaxError: onnxruntime has been imported already.
    """
    alias_package("onnxruntime", __name__)


def get_available_providers() -> list[str]:
    """The CPU's provider."""
    return [PROVIDER]


get_all_providers = get_available_providers


def get_device() -> str:
    """``CPU``."""
    return "CPU"


def get_version_string() -> str:
    """The version whose interface this is."""
    return __version__


def set_seed(seed: int) -> None:
    """Ignored: random operators draw from seeds in the model."""


def set_default_logger_severity(severity: int) -> None:
    """Ignored: nothing is logged."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Ignored: nothing is logged."""


def enable_telemetry_events() -> None:
    """Ignored: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Ignored: there is no telemetry."""


check_exports(globals())

"""What a program of an application prints at its end."""

import json
import sys

import onnxruntime

__all__ = ["report"]


def report(*values):
    """Print values, whose session it was, and whether onnxruntime's library is loaded."""
    native = any(name.startswith("onnxruntime.capi.onnx") for name in sys.modules)
    is_native = native and onnxruntime.__name__ == "onnxruntime"
    found = {"values": values, "session": onnxruntime.__name__, "native": is_native}
    print("\n" + json.dumps(found, default=_plain))


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else str(value)

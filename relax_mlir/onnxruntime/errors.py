"""onnxruntime's exception classes, and the conversion of ours."""
# ruff: noqa: N818  the names are onnxruntime's

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from relax_mlir.errors import (
    CompileError,
    ModelError,
    OutOfMemoryError,
    RelaxError,
    UnsupportedError,
)

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "NoModel",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
    "translated",
    "with_status",
]


class Fail(Exception):
    """Status 1."""


class InvalidArgument(Exception):
    """Status 2: an input of a call is wrong."""


class NoSuchFile(Exception):
    """Status 3: the file of the model is missing."""


class NoModel(Exception):
    """Status 4."""


class EngineError(Exception):
    """Status 5."""


class RuntimeException(Exception):
    """Status 6: a call failed."""


class InvalidProtobuf(Exception):
    """Status 7: the file is no ONNX model."""


class ModelLoaded(Exception):
    """Status 8."""


class NotImplemented(Exception):
    """Status 9: an operator is not supported."""


class InvalidGraph(Exception):
    """Status 10: the model is not valid."""


class EPFail(Exception):
    """Status 11: a model cannot be compiled."""


# In the order of their numbers, from 1.
_STATUS: Mapping[type[Exception], str] = {
    Fail: "FAIL",
    InvalidArgument: "INVALID_ARGUMENT",
    NoSuchFile: "NO_SUCHFILE",
    NoModel: "NO_MODEL",
    EngineError: "ENGINE_ERROR",
    RuntimeException: "RUNTIME_EXCEPTION",
    InvalidProtobuf: "INVALID_PROTOBUF",
    ModelLoaded: "MODEL_LOADED",
    NotImplemented: "NOT_IMPLEMENTED",
    InvalidGraph: "INVALID_GRAPH",
    EPFail: "EP_FAIL",
}


def with_status(kind: type[Exception], error: Exception | str) -> Exception:
    """An exception with the text that onnxruntime puts before its messages."""
    number = list(_STATUS).index(kind) + 1
    return kind(f"[ONNXRuntimeError] : {number} : {_STATUS[kind]} : {error}")


@contextmanager
def translated(*, running: bool) -> Iterator[None]:
    """Raise errors of this package as onnxruntime raises them.

    Args:
        running: whether a model runs, rather than being loaded.
    """
    try:
        yield
    except OutOfMemoryError as error:
        raise with_status(RuntimeException, error) from error
    except UnsupportedError as error:
        raise with_status(NotImplemented, error) from error
    except ModelError as error:
        text = str(error)
        kind = InvalidGraph
        if "no such file" in text:
            kind = NoSuchFile
        elif "it has no graph" in text:
            kind = InvalidArgument
        elif "not an ONNX model" in text or "not a compiled model" in text:
            kind = InvalidProtobuf
        raise with_status(kind, error) from error
    except CompileError as error:
        raise with_status(EPFail, error) from error
    except (TypeError, ValueError) as error:
        raise with_status(InvalidArgument, error) from error
    except RelaxError as error:
        raise with_status(RuntimeException if running else Fail, error) from error

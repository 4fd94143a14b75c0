"""Calls of exported models by their C interface.

Needs numpy alone: wheels of exported models hold this module.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ExportedLibrary"]

_ERRORS = {1: TypeError, 2: ValueError, 3: MemoryError, 5: IndexError}  # by status
# DLPack's code by the prefix of an element type's name, longest first.
_CODES = {"bfloat": 4, "bool": 6, "float": 2, "uint": 1, "int": 0}


class _Tensor(ctypes.Structure):
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ExportedLibrary:
    """A library that ``relax-mlir export`` wrote.

    Args:
        path: of the file.

    Attributes:
        signature: the fields of the model's signature.

    Raises:
        OSError: it cannot be loaded.
        ValueError: it is no exported model.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._library = ctypes.CDLL(os.path.abspath(path))
        try:
            signature = self._library.relax_mlir_signature
            self._run = self._library.relax_mlir_run
            self._shapes = self._library.relax_mlir_output_shapes
            self._error = self._library.relax_mlir_error
        except AttributeError as error:
            raise ValueError("not an exported model") from error
        signature.restype = self._error.restype = ctypes.c_char_p
        self.signature: Mapping[str, Any] = json.loads(signature())

    def run(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray] | None = None,
        threads: int = 0,
    ) -> list[np.ndarray]:
        """Compute the outputs of the model.

        Args:
            inputs: in order.
            outputs: the arrays to write to; new ones by default.
            threads: maximum number of threads; 0 for one per processor.

        Raises:
            TypeError: the number of arrays, or an element type is wrong.
            ValueError: a rank or size is wrong, or outputs share memory.
            MemoryError: there is not enough memory.
            IndexError: an index is out of range, of a model that checks indices.
            RuntimeError: the model cannot run here.
        """
        self._check_count("inputs", inputs)
        given = _tensors(inputs)
        if outputs is None:
            outputs = self._new_outputs(given)
        self._check_count("outputs", outputs)
        self._check(self._run(given, _tensors(outputs), threads))
        return list(outputs)

    def _check_count(self, role: str, arrays: Sequence[Any]) -> None:  # Any: of users
        expected = len(self.signature[role])
        if len(arrays) != expected:
            raise TypeError(f"{role}: expected {expected} arrays, got {len(arrays)}")
        for array in arrays:
            if not isinstance(array, np.ndarray):
                raise TypeError(
                    f"{role}: expected numpy arrays, got {type(array).__name__}"
                )

    def _new_outputs(self, inputs: Any) -> list[np.ndarray]:  # Any: of tensors
        parameters = self.signature["outputs"]
        shapes = [(ctypes.c_int64 * len(p["shape"]))() for p in parameters]
        pointers = (ctypes.POINTER(ctypes.c_int64) * len(shapes))(*shapes)
        self._check(self._shapes(inputs, pointers))
        return [
            np.empty(tuple(shape), _numpy_type(parameter["dtype"]))
            for shape, parameter in zip(shapes, parameters, strict=True)
        ]

    def _check(self, status: int) -> None:
        if status:
            kind = _ERRORS.get(status, RuntimeError)
            raise kind(self._error().decode(errors="replace"))


def _numpy_type(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # of ml_dtypes, which registers it
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _tensors(arrays: Sequence[np.ndarray]) -> Any:  # Any: an array of tensors
    tensors = (_Tensor * len(arrays))()
    for tensor, array in zip(tensors, arrays, strict=True):
        name = array.dtype.name
        code = next((c for prefix, c in _CODES.items() if name.startswith(prefix)), 255)
        digits = "".join(c for c in name if c.isdigit())
        tensor.data = array.ctypes.data
        tensor.device_type = 1
        tensor.ndim = array.ndim
        tensor.type_code, tensor.type_lanes = code, 1
        tensor.type_bits = int(digits) if digits else 8
        tensor.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        item = max(array.itemsize, 1)
        tensor.strides = (ctypes.c_int64 * array.ndim)(
            *(s // item for s in array.strides)
        )
    return tensors

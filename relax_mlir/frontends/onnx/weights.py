"""Arrays from ONNX tensors, inline or external: validated, and copied only if needed."""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from relax_mlir.dialects.dtypes import DType, dtype

__all__ = ["MAX_ELEMENTS", "Weights", "as_text", "element_type", "tensor_header"]

MAX_ELEMENTS = 2**40  # more than any machine's memory: the file is corrupt or hostile

_SUPPORTED: Mapping[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.UINT8: "uint8",
    TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "float16",
    TensorProto.DOUBLE: "float64",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.FLOAT6E2M3: "float6_e2m3fn",
    TensorProto.FLOAT6E3M2: "float6_e3m2fn",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4",
    TensorProto.UINT2: "uint2",
    TensorProto.INT2: "int2",
}

# The field of elements in a tensor without raw data, and its element type.
_FIELDS: Mapping[str, tuple[str, type]] = {
    "float32": ("float_data", np.float32),
    "float64": ("double_data", np.float64),
    "int64": ("int64_data", np.int64),
    "uint32": ("uint64_data", np.uint64),
    "uint64": ("uint64_data", np.uint64),
}
_OTHER_FIELD = ("int32_data", np.int32)
_BITS = ("float16", "bfloat16")  # int32_data holds their bit patterns


def element_type(number: int) -> DType:
    """The element type of a ``TensorProto.DataType``.

    Raises:
        ValueError: the number is unknown.
        NotImplementedError: the type is not supported.
    """
    if number in _SUPPORTED:
        return dtype(_SUPPORTED[number])
    if number not in TensorProto.DataType.values() or number == TensorProto.UNDEFINED:
        raise ValueError(f"unknown element type {number}")
    name = TensorProto.DataType.Name(number)
    raise NotImplementedError(f"element type `{name}` is not supported")


def as_text(value: str | bytes) -> str:
    """A string of a message; protobuf returns bytes for invalid UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def tensor_header(tensor: onnx.TensorProto) -> tuple[DType, tuple[int, ...]]:
    """Element type and shape of a tensor.

    Raises:
        ValueError: the type is unknown, or a size is negative or too large.
        NotImplementedError: the type, or segmented tensors, are not supported.
    """
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape):
        raise ValueError(f"sizes are negative: got {list(shape)}")
    if max(math.prod(shape), *shape, 0) > MAX_ELEMENTS:
        raise ValueError(
            f"too large: expected up to {MAX_ELEMENTS} elements, got {list(shape)}"
        )
    if tensor.HasField("segment"):
        raise NotImplementedError("tensors in segments are not supported")
    return element_type(tensor.data_type), shape


class Weights:
    """Reader of tensors, with external data.

    External data are read into memory, tensor by tensor, and never mapped: an access to a
    mapped file that was truncated kills the process (SIGBUS), and rewriting the file would
    change a compiled model's weights. ``MAP_PRIVATE`` prevents neither.

    Args:
        folders: folders allowed for external data; links must not lead out of them.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        """Keep the folders; files are opened on first use."""
        self._folders = folders
        self._files: dict[str, _DataFile] = {}

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The contents of a tensor as a read-only array.

        Raises:
            ValueError: the data do not match the tensor's type and shape, or cannot be
                read.
            NotImplementedError: see :func:`tensor_header`.
        """
        type_, shape = tensor_header(tensor)
        count = math.prod(shape)
        if tensor.data_location == TensorProto.EXTERNAL:
            data = self._external(tensor, _size_bytes(type_, count))
            flat = _unpacked(data, type_, count)
        elif tensor.HasField("raw_data"):
            flat = _raw(tensor.raw_data, type_, count)
        else:
            flat = _typed(tensor, type_, count)
        if type_.kind == "b" and flat.view(np.uint8).max(initial=0) > 1:
            flat = flat.view(np.uint8) != 0  # a byte other than 0 and 1
        if not flat.flags.aligned:
            flat = flat.copy()
        flat.flags.writeable = False
        return flat.reshape(shape)

    def _external(self, tensor: onnx.TensorProto, size_bytes: int) -> np.ndarray:
        pairs = ((as_text(e.key), as_text(e.value)) for e in tensor.external_data)
        entries = dict(pairs)
        location = entries.get("location", "")
        file = self._file(location)
        offset = _number(entries, "offset", 0)
        length = _number(entries, "length", size_bytes)
        if length != size_bytes:
            raise ValueError(
                f"external data have the wrong length: expected {size_bytes} bytes, "
                f"got {length}"
            )
        if offset + length > file.size_bytes:
            raise ValueError(
                f"external data exceed `{location}`: expected bytes {offset} "
                f"to {offset + length}, got a file of {file.size_bytes}"
            )
        return file.read(offset, length)

    def _file(self, location: str) -> _DataFile:
        if location not in self._files:
            self._files[location] = self._open(location)
        return self._files[location]

    def _open(self, location: str) -> _DataFile:
        shown = f"external data file `{location}`"
        if not self._folders:
            raise ValueError(
                f"{shown} cannot be found without the model's folder. Hint: import "
                "the model by its path"
            )
        if not location or "\0" in location or os.path.isabs(location):
            raise ValueError(f"{shown}: expected a path relative to the model")
        path = os.path.realpath(self._folders[0] / location)
        if not any(Path(path).is_relative_to(folder) for folder in self._folders):
            raise ValueError(f"{shown} is outside of the model's folder")
        return _DataFile(path, shown)


class _DataFile:
    """A file of external data, which must not change while a model is read.

    It is opened for each tensor, because a model may have more files than the limit of
    open files.

    Attributes:
        size_bytes: the size of the file.
    """

    def __init__(self, path: str, shown: str) -> None:
        self._path, self._shown = path, shown
        with self._opened() as file:
            self._state = _state(file)
            self.size_bytes = os.fstat(file.fileno()).st_size

    def read(self, offset: int, size_bytes: int) -> np.ndarray:
        """A range of the file, copied to memory.

        Raises:
            ValueError: the file cannot be read, or has changed.
        """
        data = np.empty(size_bytes, np.uint8)
        with self._opened() as file:
            rest = data.data
            file.seek(offset)
            while rest and (count := file.readinto(rest)):
                rest = rest[count:]
            if rest or _state(file) != self._state:
                raise ValueError(f"{self._shown} was changed while it was read")
        return data

    @contextmanager
    def _opened(self) -> Iterator[io.FileIO]:
        try:
            if not stat.S_ISREG(
                os.stat(self._path).st_mode
            ):  # opening a pipe would block
                raise ValueError(f"{self._shown} is not a regular file")
            with io.FileIO(self._path) as file:
                yield file
        except OSError as error:
            raise ValueError(
                f"{self._shown} cannot be read: {error.strerror}"
            ) from error


def _state(file: io.FileIO) -> tuple[int, ...]:
    """The identity of a file's contents; changes when it is replaced or written to."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _number(entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(
            f"external data have a bad {key}: expected a number of bytes, got {text!r}"
        )
    return int(text)


def _is_packed(type_: DType) -> bool:
    """Whether several elements share a byte in a file."""
    return type_.is_padded and type_.kind != "b"


def _size_bytes(type_: DType, count: int) -> int:
    """The size of elements in a file, in bytes."""
    bits = type_.bits if _is_packed(type_) else 8 * type_.size_bytes
    return -(-count * bits // 8)


def _unpacked(data: np.ndarray, type_: DType, count: int) -> np.ndarray:
    """Unpack sub-byte elements, low bits first."""
    if not _is_packed(type_):
        return data.view(type_.numpy)
    if 8 % type_.bits:
        bits = np.unpackbits(data, count=count * type_.bits, bitorder="little")
        whole = np.packbits(bits.reshape(count, -1), axis=1, bitorder="little")
        return whole.reshape(-1).view(type_.numpy)
    shifts = np.arange(0, 8, type_.bits, dtype=np.uint8)
    parts = data[:, None] >> shifts & np.uint8(2**type_.bits - 1)
    return parts.reshape(-1)[:count].view(type_.numpy)


def _raw(data: bytes, type_: DType, count: int) -> np.ndarray:
    size_bytes = _size_bytes(type_, count)
    if len(data) != size_bytes:
        raise ValueError(
            f"data do not fit the shape: expected {size_bytes} bytes, got {len(data)}"
        )
    return _unpacked(np.frombuffer(data, np.uint8), type_, count)


def _typed(tensor: onnx.TensorProto, type_: DType, count: int) -> np.ndarray:
    field, written = _FIELDS.get(type_.name, _OTHER_FIELD)
    values = getattr(tensor, field)
    is_packed = type_.is_narrow and 8 % type_.bits == 0
    expected = _size_bytes(type_, count) if is_packed else count
    if len(values) != expected:
        raise ValueError(
            f"data do not fit the shape: expected {expected} elements, got {len(values)}"
        )
    array = np.fromiter(values, written, expected)
    if type_.is_narrow:
        data = _narrowed(array, np.dtype(np.uint8))
        return _unpacked(data, type_, count) if is_packed else data.view(type_.numpy)
    if type_.name in _BITS:
        return _narrowed(array, np.dtype(np.uint16)).view(type_.numpy)
    return _narrowed(array, type_.numpy)


def _narrowed(array: np.ndarray, to: np.dtype) -> np.ndarray:
    if array.dtype == to:
        return array
    narrow = array.astype(to)
    if not np.array_equal(narrow, array):
        raise ValueError(f"data do not fit the element type `{to}`")
    return narrow

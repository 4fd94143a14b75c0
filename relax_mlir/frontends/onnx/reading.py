"""Reading and basic validation of ONNX models from paths, bytes or messages."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import defs, numpy_helper

from relax_mlir.errors import ModelError, UnsupportedError
from relax_mlir.frontends.onnx.graph import plain_domain
from relax_mlir.frontends.onnx.weights import Weights
from relax_mlir.support.files import check_path_name

__all__ = ["Model", "ModelSource", "read_model", "self_contained"]

ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto

_MAX_BYTES = 2**31 - 1  # protobuf's limit for a message
_LFS = b"version https://git-lfs"
_ARCHIVE = b"PK\x03\x04"  # zip
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class Model:
    """A model as it was read; the message may be the caller's, and is never modified.

    Attributes:
        proto: the message.
        where: its name in errors: the file's name, or ``model``.
        folders: folders allowed for external data; none if it did not come from a file.
            A symbolic link has two: its own folder and its target's.
        opsets: version of each operator domain that it imports; ai.onnx is "".
    """

    proto: onnx.ModelProto
    where: str
    folders: tuple[Path, ...]
    opsets: dict[str, int]


def read_model(source: ModelSource) -> Model:
    """Read a model, and check its IR version and opsets.

    Raises:
        ModelError: there is no such file, or it is not an ONNX model.
        UnsupportedError: it needs a newer ONNX than the installed one.
    """
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "model", ())
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _checked(_parse(bytes(source), "model"), "model", ())
    try:
        path = Path(source)
    except TypeError:
        got = type(source).__name__
        raise ModelError(
            f"model: expected a path, bytes or a ModelProto, got `{got}`."
        ) from None
    data = _read_file(path)
    folders = (path.parent.resolve(), path.resolve().parent)
    return _checked(_parse(data, path.name), path.name, tuple(dict.fromkeys(folders)))


def _read_file(path: Path) -> bytes:
    try:
        check_path_name(path)
        is_file = stat.S_ISREG(path.stat().st_mode)
        data = path.read_bytes() if is_file else b""  # a pipe would never end
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error
    if not is_file:
        raise ModelError(f"{path}: not a regular file.")
    return data


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    if data.startswith(_LFS):
        raise ModelError(
            f"{where}: it is a Git LFS pointer, not a model. Hint: run `git lfs pull`."
        )
    if data.startswith(_ARCHIVE):
        raise ModelError(
            f"{where}: it is an archive, not an ONNX model. Hint: `relax_mlir.load` loads "
            "a compiled model."
        )
    if data.startswith(_ELF):
        raise ModelError(
            f"{where}: it is a shared library, not an ONNX model. Hint: `relax_mlir.load` "
            "loads an exported one."
        )
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"{where}: not an ONNX model, or cut off: {error}.") from error


def _checked(proto: onnx.ModelProto, where: str, folders: tuple[Path, ...]) -> Model:
    if not proto.HasField("graph"):
        raise ModelError(f"{where}: not an ONNX model: it has no graph.")
    if proto.ir_version < 1:
        raise ModelError(f"{where}: not an ONNX model: it has no IR version.")
    if proto.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"{where}: IR version {proto.ir_version} is too new: the installed onnx "
            f"{onnx.__version__} knows {onnx.IR_VERSION}. Hint: upgrade onnx."
        )
    return Model(proto, where, folders, _opsets(proto, where))


def _opsets(proto: onnx.ModelProto, where: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for imported in proto.opset_import:
        domain = plain_domain(imported.domain)
        shown = domain or "ai.onnx"
        if opsets.get(domain, imported.version) != imported.version:
            raise ModelError(
                f"{where}: opset of `{shown}` is imported twice: expected one version, "
                f"got {opsets[domain]} and {imported.version}."
            )
        if imported.version < 1:
            raise ModelError(
                f"{where}: bad opset of `{shown}`: expected 1 or more, got "
                f"{imported.version}."
            )
        opsets[domain] = imported.version
    if not opsets and proto.ir_version < 3:  # older IR versions have no opset imports
        opsets[""] = 1
    if not opsets:
        raise ModelError(f"{where}: it imports no opset.")
    newest = defs.onnx_opset_version()
    if opsets.get("", 0) > newest:
        raise UnsupportedError(
            f"{where}: opset {opsets['']} is too new: the newest known is {newest}. "
            "Hint: upgrade onnx, or export for an older opset."
        )
    return opsets


def self_contained(model: Model, inputs: Sequence[str]) -> bytes | None:
    """The model's bytes with external weights embedded, and untyped inputs.

    Args:
        model: the model.
        inputs: names of its inputs, in order.

    Returns:
        None if that exceeds protobuf's limit of 2 GiB.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model.proto)
    graph = whole.graph
    del graph.input[:], graph.value_info[:]
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in inputs)
    for value in graph.output:
        value.ClearField("type")
    weights = Weights(model.folders)
    size = whole.ByteSize()
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            array = weights.array(tensor)
            size += array.nbytes
            if size >= _MAX_BYTES:
                return None
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(array), tensor.name))
    return whole.SerializeToString() if size < _MAX_BYTES else None

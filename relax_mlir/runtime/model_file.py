"""Files of compiled models, and the trust policy for loading them.

Loading a compiled model runs code of the file's author. By default any file is loaded; with
a public key, or ``signed`` in the environment variable ``RELAX_MLIR_TRUST``, only signed
ones (:mod:`relax_mlir.runtime.signing`).

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from relax_mlir.errors import ModelError, RelaxError, SignatureError
from relax_mlir.runtime.signing import KeySource, find_end, verify, write_signed
from relax_mlir.support.files import check_path_name

__all__ = ["ModelFile", "check_layout", "damage_as_model_error", "sign", "trusted_key"]

_TRUST_VARIABLE = "RELAX_MLIR_TRUST"
_KEY_VARIABLE = "RELAX_MLIR_PUBLIC_KEY"
_TRUST = ("any", "signed")
_LOCAL = struct.Struct("<4s5H3L2H")  # local file header
_HAS_DESCRIPTOR = (
    1 << 3
)  # flag: a data descriptor follows, for archives written to pipes
_DESCRIPTORS = (
    12,
    16,
    20,
    24,
)  # bytes of a descriptor, with or without zip64, signature
_DIRECTORY_BYTES_AT = 12  # in the end of central directory record
_ZIP64_BYTES = 56 + 20  # the record, and its locator


class ModelFile(os.PathLike[str]):
    """An open file of a compiled model, so that the checked bytes are the loaded ones.

    Also a path: that of the file.

    Args:
        path: of the file, for messages.
        file: the open file.
    """

    def __init__(self, path: str | os.PathLike[str], file: BinaryIO) -> None:
        self._path = os.fspath(path)
        self.file = file

    def __fspath__(self) -> str:
        """The path."""
        return self._path

    def __str__(self) -> str:
        """The path."""
        return self._path

    @staticmethod
    @contextmanager
    def open(
        path: str | os.PathLike[str] | bytes | BinaryIO,
        trust: str | None = None,
        public_key: KeySource | None = None,
    ) -> Iterator[ModelFile]:
        """Open a file, and verify that it is trusted.

        If a signature is required, the file is read into memory before verification, so
        that later changes have no effect; loading then needs twice its size.

        Args:
            path: of the file; or its bytes, or an open file, which is read to its end.
            trust: ``any`` or ``signed``; defaults to ``RELAX_MLIR_TRUST``.
            public_key: the required key.

        Raises:
            ModelError: the file is missing, or cannot be read.
            SignatureError: the required signature is missing or invalid.
        """
        key = trusted_key(trust, public_key)
        with _opened(path) as (opened, where):
            file = opened if key is None else io.BytesIO(opened.read())
            if key is not None:
                _verify(file, key, where)
            with damage_as_model_error(where), zipfile.ZipFile(file) as archive:
                check_layout(file, archive)
            yield ModelFile(where, file)


def trusted_key(
    trust: str | None = None, public_key: KeySource | None = None
) -> KeySource | None:
    """The key that files must be signed with; None if any file is trusted.

    Args:
        trust: ``any`` or ``signed``; defaults to ``RELAX_MLIR_TRUST``.
        public_key: the key; defaults to the file in ``RELAX_MLIR_PUBLIC_KEY``.

    Raises:
        ValueError: ``trust`` is neither ``any`` nor ``signed``.
        SignatureError: ``RELAX_MLIR_TRUST`` is neither of them, or there is no key.
    """
    if trust is not None and trust not in _TRUST:
        raise ValueError(f"trust: expected `any` or `signed`, got {trust!r}")
    if public_key is not None:
        return public_key
    if trust is None:
        trust = os.environ.get(_TRUST_VARIABLE, "") or "any"
        if trust not in _TRUST:
            raise SignatureError(
                f"environment variable `{_TRUST_VARIABLE}`: expected `any` or `signed`, "
                f"got `{trust}`"
            )
    if trust == "any":
        return None
    named = os.environ.get(_KEY_VARIABLE, "")
    if not named:
        raise SignatureError(
            "only signed models are trusted: expected a public key. Hint: name its file in "
            f"`public_key=`, `--public-key` or {_KEY_VARIABLE}"
        )
    return named


def sign(
    path: str | os.PathLike[str],
    private_key: KeySource,
    output: str | os.PathLike[str] | None = None,
) -> str:
    """Sign the file of a compiled model; replaces an existing signature.

    Args:
        path: of the file.
        private_key: Ed25519, in PEM without a passphrase: the path of a file, or its bytes.
        output: path of the signed file; by default it replaces the original.

    Returns:
        The public key in hexadecimal.

    Raises:
        ModelError: the file is missing or damaged.
        SignatureError: the key cannot be read, or ``cryptography`` is missing.
        OSError: the output cannot be written.
    """
    with ModelFile.open(path, trust="any") as model:
        return write_signed(model.file, private_key, path if output is None else output)


@contextmanager
def damage_as_model_error(where: str) -> Iterator[None]:
    """Convert exceptions of reading a damaged file into an error that names the file.

    Raises:
        ModelError: the file cannot be read, or is damaged.
    """
    try:
        yield
    except RelaxError:
        raise
    except OSError as error:
        raise ModelError(f"{where}: cannot be read: {error.strerror}") from error
    except Exception as error:  # zipfile and json raise many types for damaged data
        reason = str(error) or type(error).__name__
        raise ModelError(
            f"{where}: not a compiled model, or damaged: {reason}"
        ) from error


def check_layout(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Reject an archive with data that its central directory does not list.

    Examples are two members of the same name, among which readers choose differently, and
    data before, between or after members.

    Raises:
        ValueError: the archive has such data.
    """
    end = find_end(file)
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    counts = Counter(member.filename for member in members)
    for name, count in counts.items():
        if count > 1:
            raise ValueError(f"{count} members have the name `{name}`")
    position, gaps = 0, (0,)
    for member in members:
        if member.header_offset - position not in gaps:
            raise ValueError(f"data before `{member.filename}` belong to no member")
        file.seek(member.header_offset)
        *_, name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size))
        position = member.header_offset + _LOCAL.size + name_bytes + extra_bytes
        position += member.compress_size
        gaps = _DESCRIPTORS if member.flag_bits & _HAS_DESCRIPTOR else (0,)
    if archive.start_dir - position not in gaps:
        raise ValueError("data before the central directory belong to no member")
    file.seek(end + _DIRECTORY_BYTES_AT)
    (directory_bytes,) = struct.unpack("<L", file.read(4))
    if end - archive.start_dir - directory_bytes not in (0, _ZIP64_BYTES):
        raise ValueError("data after the central directory belong to no member")


def _verify(file: BinaryIO, key: KeySource, where: str) -> None:
    try:
        verify(file, key, where)
    except SignatureError:
        raise
    except ValueError as error:
        raise SignatureError(
            f"{where}: not signed: {error}. Hint: `relax-mlir sign` creates a signature"
        ) from error


@contextmanager
def _opened(
    source: str | os.PathLike[str] | bytes | BinaryIO,
) -> Iterator[tuple[BinaryIO, str]]:
    """A file for reading at any position, and its name for messages."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), "model"
    elif isinstance(source, (str, os.PathLike)):
        where = os.fspath(source)
        with _regular_file(where) as file:
            yield file, where
    else:
        where = str(getattr(source, "name", "model"))
        with damage_as_model_error(where):
            data = source.read()
        yield io.BytesIO(data), where


@contextmanager
def _regular_file(path: str) -> Iterator[BinaryIO]:
    try:
        check_path_name(path)
        # Non-blocking: opening a pipe without a writer would hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ModelError(f"{path}: not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file

"""Ed25519 signatures of files of compiled models.

A signature is in the comment of the zip archive, at the end of the file, and covers all
other bytes: members, their names and order, and the central directory. Keys are handled by
``cryptography``, an optional dependency that is imported on use.

Does not import the compiler: model files for GPUs bundle this module.

Source: RFC 8032 (Ed25519), APPNOTE.TXT 6.3.10 of PKWARE, section 4.3.16 (end of central
directory record).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from relax_mlir.errors import SignatureError
from relax_mlir.support.files import atomic_file, check_path_name

__all__ = [
    "FileSignature",
    "KeySource",
    "find_end",
    "generate_keys",
    "is_intact",
    "read_signature",
    "verify",
    "write_signed",
]

KeySource = str | os.PathLike[str] | bytes
"""A key in PEM: the path of a file, or its bytes."""

_CHUNK_BYTES = 1 << 20
_CONTEXT = b"relax_mlir signed model 1\0"  # domain separation from other uses of a key
_COMMENT = re.compile(rb"relax_mlir signature 1\n([0-9a-f]{64})\n([0-9a-f]{128})\n")
_COMMENT_BYTES = 217
_END = struct.Struct("<4s4H2LH")  # end of central directory record
_END_MAGIC = b"PK\5\6"
_COMMENT_LENGTH_BYTES = 2  # the last field of the record


@dataclass(frozen=True)
class FileSignature:
    """The signature in a file, not yet verified.

    Attributes:
        public_key: the claimed key in hexadecimal.
        value: the signature, 64 bytes.
    """

    public_key: str
    value: bytes


def find_end(file: BinaryIO) -> int:
    """Offset of the end of central directory record.

    Only a signature may follow the record: an archive with other data there could be read
    in more than one way.

    Raises:
        ValueError: the record is missing.
    """
    size_bytes = file.seek(0, io.SEEK_END)
    for comment_bytes in (0, _COMMENT_BYTES):
        start = size_bytes - _END.size - comment_bytes
        if start < 0:
            continue
        file.seek(start)
        record = file.read(_END.size + comment_bytes)
        magic, *_, length = _END.unpack_from(record)
        if magic == _END_MAGIC and length == comment_bytes:
            if comment_bytes and not _COMMENT.fullmatch(record, _END.size):
                break
            return start
    raise ValueError("the end of the archive is missing, or other data follow it")


def read_signature(file: BinaryIO) -> FileSignature | None:
    """The signature of a file; None if unsigned.

    Raises:
        ValueError: the file is not an archive in a signable form.
    """
    file.seek(find_end(file) + _END.size)
    match = _COMMENT.fullmatch(file.read())
    if match is None:
        return None
    return FileSignature(match[1].decode(), bytes.fromhex(match[2].decode()))


def verify(file: BinaryIO, public_key: KeySource, where: str) -> None:
    """Verify that a key has signed a file.

    Args:
        public_key: Ed25519, in PEM.
        where: name of the file in errors.

    Raises:
        SignatureError: the file is unsigned, signed with another key, or was changed since;
            the key cannot be read, or ``cryptography`` is missing.
        ValueError: the file is not an archive in a signable form.
    """
    key = read_public_key(public_key)
    signature = read_signature(file)
    if signature is None:
        raise SignatureError(
            f"{where}: not signed: expected a signature of the key {_text(key)}. "
            "Hint: `relax-mlir sign` creates one"
        )
    is_valid = signature.public_key == _text(key)
    if not (is_valid and _has_signed(key, signature, file)):
        raise SignatureError(
            f"{where}: the signature is invalid: expected one of the key {_text(key)}, got "
            f"one that claims the key {signature.public_key}; or the file was changed"
        )


def is_intact(file: BinaryIO, signature: FileSignature) -> bool:
    """Whether a file's signature is valid for its claimed key, which may be anyone's.

    Raises:
        SignatureError: ``cryptography`` is missing.
    """
    claimed = bytes.fromhex(signature.public_key)
    key = _ed25519().Ed25519PublicKey.from_public_bytes(claimed)
    return _has_signed(key, signature, file)


def _has_signed(key: Any, signature: FileSignature, file: BinaryIO) -> bool:
    """Whether a signature is valid; Any: Ed25519PublicKey."""
    try:
        key.verify(signature.value, _message(file))
    except _cryptography().exceptions.InvalidSignature:
        return False
    return True


def write_signed(
    file: BinaryIO, private_key: KeySource, output: str | os.PathLike[str]
) -> str:
    """Write a signed copy of a file atomically; replaces an existing signature.

    Args:
        private_key: Ed25519, in PEM, without a passphrase.
        output: path of the result, which may be that of ``file``.

    Returns:
        The public key in hexadecimal.

    Raises:
        SignatureError: the key cannot be read, or ``cryptography`` is missing.
        OSError: the output cannot be written.
        ValueError: the file is not an archive in a signable form.
    """
    key = read_private_key(private_key)
    public = _text(key.public_key())
    value = key.sign(_message(file)).hex()
    comment = f"relax_mlir signature 1\n{public}\n{value}\n".encode()
    with atomic_file(output) as temporary, temporary.open("wb") as signed:
        signed.writelines(_signed_bytes(file))
        signed.write(struct.pack("<H", len(comment)) + comment)
    return public


def generate_keys(path: str | os.PathLike[str]) -> Path:
    """Generate a key pair, with the private key at ``path``, readable for this user only.

    Returns:
        The path of the public key, ``key.pub.pem`` beside ``key.pem``.

    Raises:
        SignatureError: ``cryptography`` is missing.
        OSError: a file exists already, or cannot be written.
    """
    check_path_name(path)
    private_path = Path(path)
    if not private_path.name:
        raise SignatureError(f"`{path}`: expected the name of a file for the key")
    public_path = private_path.with_name(f"{private_path.stem}.pub.pem")
    forms = _cryptography().hazmat.primitives.serialization
    key = _ed25519().Ed25519PrivateKey.generate()
    pem = forms.Encoding.PEM
    private = key.private_bytes(pem, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    public = key.public_key().public_bytes(pem, forms.PublicFormat.SubjectPublicKeyInfo)
    for file, data, mode in (
        (private_path, private, 0o600),
        (public_path, public, 0o644),
    ):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
    return public_path


def _signed_bytes(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file without the archive comment and its length field."""
    remaining_bytes = find_end(file) + _END.size - _COMMENT_LENGTH_BYTES
    file.seek(0)
    while chunk := file.read(min(_CHUNK_BYTES, remaining_bytes)):
        remaining_bytes -= len(chunk)
        yield chunk


def _message(file: BinaryIO) -> bytes:
    """The signed message: a digest of the file without signature, with context."""
    digest = hashlib.sha512()
    for chunk in _signed_bytes(file):
        digest.update(chunk)
    digest.update(bytes(_COMMENT_LENGTH_BYTES))
    return _CONTEXT + digest.digest()


def read_public_key(source: KeySource) -> Any:  # Any: Ed25519PublicKey
    forms = _cryptography().hazmat.primitives.serialization
    kind = _ed25519().Ed25519PublicKey
    return _read_key(source, forms.load_pem_public_key, kind, "public")


def read_private_key(source: KeySource) -> Any:  # Any: Ed25519PrivateKey
    forms = _cryptography().hazmat.primitives.serialization
    kind = _ed25519().Ed25519PrivateKey

    def read(pem: bytes) -> Any:  # Any: keys of many types
        return forms.load_pem_private_key(pem, password=None)

    return _read_key(source, read, kind, "private")


def _read_key(source: KeySource, read: Any, kind: Any, noun: str) -> Any:
    """Read a key in PEM; Any: types of `cryptography`."""
    where = f"{noun} key" if isinstance(source, bytes) else os.fspath(source)
    try:
        if not isinstance(source, bytes):
            check_path_name(source)
        pem = source if isinstance(source, bytes) else Path(source).read_bytes()
        key = read(pem)
    except OSError as error:
        raise SignatureError(
            f"{where}: the {noun} key cannot be read: {error.strerror}"
        ) from error
    except Exception as error:  # `cryptography` raises many types
        raise SignatureError(
            f"{where}: expected an Ed25519 {noun} key in PEM without a passphrase: {error}"
        ) from error
    if not isinstance(key, kind):
        raise SignatureError(
            f"{where}: expected an Ed25519 {noun} key, got {type(key).__name__}"
        )
    return key


def _text(public_key: Any) -> str:  # Any: Ed25519PublicKey
    return public_key.public_bytes_raw().hex()


def _ed25519() -> Any:  # Any: the module
    return _cryptography().hazmat.primitives.asymmetric.ed25519


def _cryptography() -> Any:  # Any: the package with its submodules
    try:
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ed25519
        import cryptography.hazmat.primitives.serialization
    except ImportError as error:
        raise SignatureError(
            "signatures need the package `cryptography`: expected it to be installed. "
            "Hint: `pip install relax-mlir-runtime[sign]`"
        ) from error
    return cryptography

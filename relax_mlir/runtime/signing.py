"""Ed25519 signatures of whole files of compiled models.

A signature stands in the comment of the zip archive, at the very end of the file, and is
made over all other bytes: members, their names and order, and the directory of the archive.
Only ``cryptography`` knows keys; it is an extra, and loaded where a key is used.

Imports nothing that compiles: files of models for GPUs carry this module.

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
from relax_mlir.files import check_path_name, whole_file

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
"""A key in PEM: the path of a file, or the bytes of one."""

_CHUNK_BYTES = 1 << 20
_CONTEXT = b"relax_mlir signed model 1\0"  # no other use of a key signs such a message
_COMMENT = re.compile(rb"relax_mlir signature 1\n([0-9a-f]{64})\n([0-9a-f]{128})\n")
_COMMENT_BYTES = 217
_END = struct.Struct("<4s4H2LH")  # end of central directory record
_END_MAGIC = b"PK\5\6"
_COMMENT_LENGTH_BYTES = 2  # the last field of the record


@dataclass(frozen=True)
class FileSignature:
    """A signature as it stands in a file; that it is valid is another question.

    Attributes:
        public_key: in hexadecimal, the key that the file claims to be signed with.
        value: the signature of 64 bytes.
    """

    public_key: str
    value: bytes


def find_end(file: BinaryIO) -> int:
    """Offset of the end of central directory record.

    It ends the file, or a signature of ours follows it: an archive in which something else
    follows could be read in more than one way.

    Raises:
        ValueError: there is none.
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
    """The signature of a file, or None.

    Raises:
        ValueError: it is no archive that could be signed.
    """
    file.seek(find_end(file) + _END.size)
    found = _COMMENT.fullmatch(file.read())
    if found is None:
        return None
    return FileSignature(found[1].decode(), bytes.fromhex(found[2].decode()))


def verify(file: BinaryIO, public_key: KeySource, where: str) -> None:
    """Refuse a file unless a key has signed all of it.

    Args:
        public_key: Ed25519, in PEM.
        where: what errors call the file.

    Raises:
        SignatureError: it is unsigned, signed with another key or has been changed since;
            the key cannot be read, or ``cryptography`` is missing.
        ValueError: it is no archive that could be signed.
    """
    key = _public_key(public_key)
    signature = read_signature(file)
    if signature is None:
        raise SignatureError(
            f"{where}: not signed: expected a signature of the key {_text(key)}. "
            "Hint: `relax-mlir sign` makes one"
        )
    is_valid = signature.public_key == _text(key)
    if not (is_valid and _has_signed(key, signature, file)):
        raise SignatureError(
            f"{where}: the signature is invalid: expected one of the key {_text(key)}, got "
            f"one that claims the key {signature.public_key}; or the file was changed"
        )


def is_intact(file: BinaryIO, signature: FileSignature) -> bool:
    """Whether a file is what was signed with the key that it claims, whoever has that.

    Raises:
        SignatureError: ``cryptography`` is missing.
    """
    claimed = bytes.fromhex(signature.public_key)
    key = _ed25519().Ed25519PublicKey.from_public_bytes(claimed)
    return _has_signed(key, signature, file)


def _has_signed(key: Any, signature: FileSignature, file: BinaryIO) -> bool:
    """Whether a key has signed a file; Any: Ed25519PublicKey."""
    try:
        key.verify(signature.value, _message(file))
    except _cryptography().exceptions.InvalidSignature:
        return False
    return True


def write_signed(
    file: BinaryIO, private_key: KeySource, output: str | os.PathLike[str]
) -> str:
    """Write a file with a signature, whole or not at all; one that it has is replaced.

    Args:
        private_key: Ed25519, in PEM, without a passphrase.
        output: where it goes, which may be where ``file`` is.

    Returns:
        The public key in hexadecimal.

    Raises:
        SignatureError: the key cannot be read, or ``cryptography`` is missing.
        OSError: the output cannot be written.
        ValueError: it is no archive that can be signed.
    """
    key = _private_key(private_key)
    public = _text(key.public_key())
    value = key.sign(_message(file)).hex()
    comment = f"relax_mlir signature 1\n{public}\n{value}\n".encode()
    with whole_file(output) as temporary, temporary.open("wb") as signed:
        signed.writelines(_signed_bytes(file))
        signed.write(struct.pack("<H", len(comment)) + comment)
    return public


def generate_keys(path: str | os.PathLike[str]) -> Path:
    """Make a pair of keys: the private one at ``path``, readable by this user alone.

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
    """All of a file but the last field of the archive and the comment, which are ours."""
    left_bytes = find_end(file) + _END.size - _COMMENT_LENGTH_BYTES
    file.seek(0)
    while chunk := file.read(min(_CHUNK_BYTES, left_bytes)):
        left_bytes -= len(chunk)
        yield chunk


def _message(file: BinaryIO) -> bytes:
    """What is signed of a file: a digest of it as it is without a signature."""
    digest = hashlib.sha512()
    for chunk in _signed_bytes(file):
        digest.update(chunk)
    digest.update(bytes(_COMMENT_LENGTH_BYTES))
    return _CONTEXT + digest.digest()


def _public_key(source: KeySource) -> Any:  # Any: Ed25519PublicKey
    forms = _cryptography().hazmat.primitives.serialization
    kind = _ed25519().Ed25519PublicKey
    return _read_key(source, forms.load_pem_public_key, kind, "public")


def _private_key(source: KeySource) -> Any:  # Any: Ed25519PrivateKey
    forms = _cryptography().hazmat.primitives.serialization
    kind = _ed25519().Ed25519PrivateKey

    def read(pem: bytes) -> Any:  # Any: keys of many kinds
        return forms.load_pem_private_key(pem, password=None)

    return _read_key(source, read, kind, "private")


def _read_key(source: KeySource, read: Any, kind: Any, noun: str) -> Any:
    """A key out of PEM; Any: what `cryptography` has."""
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
    except Exception as error:  # `cryptography` raises many kinds
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


def _cryptography() -> Any:  # Any: the package, with the modules that are used here
    try:
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ed25519
        import cryptography.hazmat.primitives.serialization
    except ImportError as error:
        raise SignatureError(
            "signatures need the package `cryptography`: expected it to be installed. "
            "Hint: `pip install relax_mlir[sign]`"
        ) from error
    return cryptography

"""Show the contents of a compiled model, without loading or running it.

Prints the signature, the manifests, the kernels, the host program and all members with
their sizes. A compiled model is a program: inspect files from others before loading them.
"""

import argparse
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import SignatureError
from relax_mlir.runtime.container import open_archive, read_member
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.signing import is_intact, read_signature

__all__ = ["add_arguments", "run"]

_MANIFESTS = {
    "manifest.json": "machine code for CPUs",
    "cuda.json": "PTX for NVIDIA GPUs; carries the Python sources of its runtime",
    "vm.json": "functions with a host program",
}
_HOST_MANIFEST = "vm.json"
_SHOWN_CHARACTERS = 160
_CONTROL = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True)
class _Part:
    """The model's archive, or a nested archive.

    Attributes:
        name: the name of the nested archive; empty for the file itself.
        members: sizes of members in bytes, by name.
        manifests: JSON manifests by name.
    """

    name: str
    members: Mapping[str, int]
    manifests: Mapping[str, Any]  # Any: JSON

    @property
    def kernels(self) -> list[Any]:  # Any: JSON
        """The kernels listed in the manifests."""
        found = (m.get("kernels", []) for m in self.manifests.values() if _is_table(m))
        return [kernel for kernels in found if _is_list(kernels) for kernel in kernels]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("model", help="a compiled model (.rxm)")
    add(
        "--public-key",
        metavar="KEY.pem",
        help="fail unless this Ed25519 key has signed the file",
    )
    add("--host", action="store_true", help="print the host program in full")
    add("--json", action="store_true", help="print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Show a file; fails if it is not signed with the given key."""
    trust = {"trust": "any", "public_key": arguments.public_key}
    with ModelFile.open(arguments.model, **trust) as file:
        signature = _signature(file, is_verified=arguments.public_key is not None)
        with open_archive(file) as archive:
            parts = list(_parts(archive, ""))
    if arguments.json:
        found = {"signature": signature, "parts": [vars(part) for part in parts]}
        print(json.dumps(found, indent=1))
        return 0
    print(f"{arguments.model}: {sum(parts[0].members.values()) / 1e6:.1f} MB")
    print(f"signature: {signature}")
    for part in parts:
        _print_part(part, arguments.host)
    return 0


def _signature(file: ModelFile, *, is_verified: bool) -> str:
    """A description of the signature's state."""
    signature = read_signature(file.file)
    if signature is None:
        return "none"
    key = f"key {signature.public_key}"
    if is_verified:
        return f"valid, by the given {key}"
    try:
        is_valid = is_intact(file.file, signature)
    except SignatureError:
        return f"claims the {key}; not verified, which needs `cryptography`"
    if not is_valid:
        return f"INVALID, claims the {key}"
    return f"matches the content and the {key}, of an unknown owner; verify with `--public-key`"


def _parts(archive: zipfile.ZipFile, name: str) -> Iterator[_Part]:
    """An archive and its nested archives."""
    members = {info.filename: info.file_size for info in archive.infolist()}
    manifests = {
        m: json.loads(read_member(archive, m)) for m in _MANIFESTS if m in members
    }
    yield _Part(name, members, manifests)
    if _HOST_MANIFEST not in members:
        return
    for member in members:
        if member in manifests:
            continue
        data = read_member(archive, member)
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as inner:
                yield from _parts(inner, member)


def _print_part(part: _Part, is_host_shown: bool) -> None:
    if part.name:
        print(f"\nmember {_plain(part.name)}")
    for name, manifest in part.manifests.items():
        print(f"{name}: {_MANIFESTS[name]}")
        for field, value in manifest.items() if _is_table(manifest) else ():
            if field not in ("kernels", "constants"):
                is_host = name == _HOST_MANIFEST and is_host_shown
                print(f"  {_plain(field)}: {_shown(value, is_host)}")
    if part.kernels:
        print(f"kernels: {len(part.kernels)}")
    for kernel in part.kernels:
        fields = kernel if _is_table(kernel) else {}
        name, rule = (_plain(str(fields.get(key))) for key in ("name", "rule"))
        print(f"  {name} ({rule})")
    print(f"members: {len(part.members)}")
    for name, size_bytes in part.members.items():
        print(f"  {size_bytes:12,} {_plain(name)}")


def _shown(value: Any, is_whole: bool) -> str:  # Any: JSON
    """A manifest value: a host program on several lines, other values on one."""
    if is_whole and isinstance(value, str) and "\n" in value:
        return "".join(f"\n    | {_plain(line)}" for line in value.splitlines())
    text = json.dumps(value)  # escapes terminal control characters
    if is_whole or len(text) <= _SHOWN_CHARACTERS:
        return text
    lines = f", {value.count(chr(10)) + 1} lines" if isinstance(value, str) else ""
    return f"{text[:_SHOWN_CHARACTERS]}... ({len(text):,} characters{lines})"


def _plain(text: str) -> str:
    """Text with control characters escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)

"""Weights of an exported library: those that it stores, and those that it derives at load."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from relax_mlir.runtime.derived_constants import Derivation
from relax_mlir.runtime.signature import Signature

__all__ = ["ALIGNMENT", "write_weights"]

ALIGNMENT = 64  # of weights, in bytes
_STORED, _DERIVED = 0, 1  # of loaded_model.cc


class _Variant(Protocol):
    @property
    def signature(self) -> Signature: ...
    @property
    def constants(self) -> Mapping[str, np.ndarray]: ...
    @property
    def derivations(self) -> Mapping[str, Derivation]: ...


def write_weights(variants: Sequence[_Variant], path: Path) -> list[list[int]]:
    """Write the weights that a library stores, each content once.

    A weight is derived at load if its source is stored anyway, or if several variants have
    weights of different contents from one source. Others are stored as kernels read them, so
    that nothing is computed or copied at load.

    Args:
        path: of the file.

    Returns:
        The weights of each variant, as ``ReadConstants`` in ``loaded_model.cc`` reads them:
        the number of entries; each stored one as 0 and its offset, each derived one as 1, the
        number of its source entry, its bytes, and the length and numbers of its derivation;
        then the number of weights of ``main``, and the entry of each.
    """
    tables = [_Contents(variant) for variant in variants]
    packed: dict[bytes, set[bytes]] = {}  # contents by the content of their source
    for table in tables:
        for key in table.derivable():
            source = table.digest(table.derivations[key].source)
            packed.setdefault(source, set()).add(table.digest(key))
    repeated = {source for source, contents in packed.items() if len(contents) > 1}
    with path.open("wb") as file:
        offsets: dict[bytes, int] = {}

        def offset(table: _Contents, key: str) -> int:
            digest = table.digest(key)
            if digest not in offsets:
                file.write(bytes(-file.tell() % ALIGNMENT))
                offsets[digest] = file.tell()
                file.write(table.data(key))
            return offsets[digest]

        numbers: list[list[int]] = []
        for table in tables:
            derived = table.derived(repeated)
            entries = {key: n for n, key in enumerate(table.entries(derived))}
            rows: list[int] = []
            for key in entries:
                if key in derived:
                    derivation = table.derivations[key]
                    encoded = derivation.numbers(table.array(key).itemsize)
                    rows += [_DERIVED, entries[derivation.source]]
                    rows += [table.array(key).nbytes, len(encoded), *encoded]
                else:
                    rows += [_STORED, offset(table, key)]
            used = [entries[key] for key in table.keys]
            numbers.append([len(entries), *rows, len(used), *used])
        file.write(bytes(ALIGNMENT))  # never empty
    return numbers


class _Contents:
    """The weights of one variant.

    Attributes:
        keys: of the weights that ``main`` takes.
        derivations: of weights, by key, after those of their sources.
    """

    def __init__(self, variant: _Variant) -> None:
        self.keys = variant.signature.constants
        self.derivations = variant.derivations
        self._arrays = variant.constants
        self._digests: dict[str, bytes] = {}

    def array(self, key: str) -> np.ndarray:
        return np.asarray(self._arrays[key], order="C")

    def data(self, key: str) -> memoryview:
        return self.array(key).reshape(-1).view(np.uint8).data

    def digest(self, key: str) -> bytes:
        """A digest of the bytes."""
        if key not in self._digests:
            digest = hashlib.sha256(self.data(key))
            self._digests[key] = digest.digest()
        return self._digests[key]

    def _with_sources(self, derived: Collection[str]) -> set[str]:
        """Keys of the weights of ``main``, and of all that some of these are derived from."""
        needed = set(self.keys)
        for key in reversed(list(self.derivations)):
            if key in needed and key in derived:
                needed.add(self.derivations[key].source)
        return needed

    def derivable(self) -> list[str]:
        """Keys of the weights that could be derived, sources first."""
        needed = self._with_sources(self.derivations)
        return [key for key in self.derivations if key in needed]

    def derived(self, repeated: Collection[bytes]) -> set[str]:
        """Keys of the weights to derive.

        Args:
            repeated: digests of sources of which variants have different weights.
        """
        return {
            key
            for key in self.derivable()
            if self.derivations[key].source in self.keys
            or self.digest(self.derivations[key].source) in repeated
        }

    def entries(self, derived: Collection[str]) -> list[str]:
        """Keys of the weights of ``main``, and of what these are derived from, sources first."""
        needed = self._with_sources(derived)
        stored = [key for key in self._arrays if key in needed and key not in derived]
        made = [key for key in self.derivations if key in needed and key in derived]
        return [*stored, *made]

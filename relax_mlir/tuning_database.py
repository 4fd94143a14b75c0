"""What tuning has found: the fastest configuration of each kernel, in a JSON file."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mlir import ir

from relax_mlir.errors import TuningError
from relax_mlir.files import check_path_name, utf8_problem, whole_file
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.targets import Target
from relax_mlir.units import kernel_hash

__all__ = ["TUNING", "TuningDatabase", "TuningRecord", "target_key"]

TUNING = "relax.tuning"  # of a module: the file of the database to compile it with

_FORMAT = "relax_mlir tuning"
_VERSION = 1


def target_key(target: Target) -> str:
    """A machine as records name it: two that compile differently differ."""
    told = f"{target!r} {target.features}"
    return f"{target}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class TuningRecord:
    """What tuning has found for one kernel on one machine.

    Attributes:
        kernel: its structural hash; target: the machine, by :func:`target_key`.
        name: of the first program that was such a kernel.
        configuration: the fastest, as text; empty if that is the default.
        default: the configuration that was compared with it.
        time_us: of one run, that of the default times the median of ratios to it.
        default_time_us: of one run of the default, the median.
        trials: configurations that were measured, the default among them.
    """

    kernel: str
    target: str
    name: str
    configuration: str
    default: str
    time_us: float
    default_time_us: float
    trials: int

    @property
    def speedup(self) -> float:
        """How many times as fast it is as the default."""
        return self.default_time_us / self.time_us

    @staticmethod
    def from_fields(found: Mapping[str, Any]) -> TuningRecord:  # Any: JSON
        """A record from its fields.

        Raises:
            ValueError: one is missing, too much, or of another type.
        """
        kinds = {f.name: _KINDS[str(f.type)] for f in fields(TuningRecord)}
        if found.keys() != kinds.keys():
            raise ValueError(
                f"expected the fields {', '.join(kinds)}, got {', '.join(found) or 'none'}"
            )
        for name, kind in kinds.items():
            is_right = isinstance(found[name], kind) and found[name] is not True
            if not is_right or found[name] is False:
                raise ValueError(
                    f"`{name}`: expected {_named(kind)}, got {found[name]!r}"
                )
        for name in ("time_us", "default_time_us"):
            if not 0 < found[name] < math.inf:
                raise ValueError(f"`{name}`: expected a time, got {found[name]!r}")
        return TuningRecord(**found)


def _named(kind: Any) -> str:  # Any: types
    return {str: "text", int: "an integer"}.get(kind, "a number")


_KINDS: Mapping[str, Any] = {"str": str, "int": int, "float": (int, float)}


@dataclass(frozen=True)
class TuningDatabase:
    """The records of a file.

    Attributes:
        path: of the file.
        records: by kernel and target.
        found: those that tuning has just added.
    """

    path: Path
    records: Mapping[tuple[str, str], TuningRecord] = field(default_factory=dict)
    found: tuple[TuningRecord, ...] = ()

    @staticmethod
    def read(path: str | os.PathLike[str]) -> TuningDatabase:
        """The database of a file.

        Raises:
            OSError: the file cannot be read.
            TuningError: it is damaged, or no database.
        """
        check_path_name(path)
        text = Path(path).read_bytes()
        try:
            found = json.loads(text)
            if not isinstance(found, dict) or found.get("format") != _FORMAT:
                raise ValueError(f"expected the format `{_FORMAT}`")
            if found.get("version") != _VERSION:
                raise ValueError(
                    f"expected version {_VERSION}, got {found.get('version')!r}"
                )
            records = [_record(n, r) for n, r in enumerate(_listed(found))]
        except (ValueError, RecursionError) as error:
            is_binary = isinstance(error, UnicodeDecodeError)
            problem = utf8_problem(error) if is_binary else error
            raise TuningError(
                f"{os.fspath(path)}: not a tuning database, or damaged: {problem}"
            ) from error
        return TuningDatabase(Path(path)).with_records(records)

    @staticmethod
    def of(
        module: IRModule, given: str | os.PathLike[str] | None = None
    ) -> TuningDatabase | None:
        """The database that a module is compiled with: the one given, or that it names.

        Raises:
            OSError: it cannot be read.
            TuningError: it is damaged.
        """
        attributes = module.mlir.operation.attributes
        if given is None and TUNING in attributes:
            given = ir.StringAttr(attributes[TUNING]).value
        return None if given is None else TuningDatabase.read(given)

    def with_records(self, records: Sequence[TuningRecord]) -> TuningDatabase:
        """The same and more; new records take the place of old ones of their kernels."""
        more = {(record.kernel, record.target): record for record in records}
        return TuningDatabase(self.path, {**self.records, **more})

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        records = [asdict(self.records[key]) for key in sorted(self.records)]
        made = {"format": _FORMAT, "version": _VERSION, "records": records}
        with whole_file(self.path) as path:
            path.write_text(json.dumps(made, indent=1) + "\n")

    def apply(self, module: IRModule, target: Target) -> None:
        """Let the kernels of a module be written as was found for a machine.

        A kernel that says itself how it is to be written, or of which there is no record,
        stays as it is.
        """
        key = target_key(target)
        for function in module.func_ops():
            attributes = function.attributes
            if "tir.prim_func" not in attributes or CONFIGURATION in attributes:
                continue
            record = self.records.get((kernel_hash(function), key))
            if record is not None and record.configuration:
                text = ir.StringAttr.get(record.configuration, function.context)
                attributes[CONFIGURATION] = text


def _listed(found: Mapping[str, Any]) -> list[Any]:  # Any: JSON
    records = found.get("records")
    if not isinstance(records, list):
        raise ValueError("expected a list of `records`")
    return records


def _record(number: int, found: Any) -> TuningRecord:  # Any: JSON
    if not isinstance(found, dict):
        raise ValueError(f"record {number}: expected its fields, got {found!r}")
    try:
        return TuningRecord.from_fields(found)
    except ValueError as error:
        raise ValueError(f"record {number}: {error}") from error

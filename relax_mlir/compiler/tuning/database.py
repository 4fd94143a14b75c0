"""Tuning database: the fastest known configuration of each kernel, as a JSON file."""

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

from relax_mlir.compiler.kernel_modules import kernel_hash
from relax_mlir.errors import TuningError
from relax_mlir.ir.function_attributes import is_prim_func
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.support.files import atomic_file, check_path_name, utf8_problem
from relax_mlir.targets import Target

__all__ = ["TUNING", "TuningDatabase", "TuningRecord", "target_key"]

TUNING = "relax.tuning"  # module attribute: path of its tuning database

_FORMAT = "relax_mlir tuning"
_VERSION = 1


def target_key(target: Target) -> str:
    """Key of a target in records; distinct for targets with distinct generated code."""
    text = f"{target!r} {target.features}"
    return f"{target}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class TuningRecord:
    """Tuning result of one kernel on one target.

    Attributes:
        kernel: structural hash of the kernel; target: see :func:`target_key`.
        name: of the first PrimFunc with this kernel.
        configuration: the fastest one, as text; empty for the default.
        default: the default configuration, the baseline.
        time_us: run time of the fastest: the default's times the median ratio to it.
        default_time_us: median run time of the default.
        trials: number of measured configurations, including the default.
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
        """Speedup over the default configuration."""
        return self.default_time_us / self.time_us

    @staticmethod
    def from_fields(values: Mapping[str, Any]) -> TuningRecord:  # Any: JSON
        """A record from its fields.

        Raises:
            ValueError: a field is missing, unknown, or of a wrong type.
        """
        types = {f.name: _PYTHON_TYPES[str(f.type)] for f in fields(TuningRecord)}
        if values.keys() != types.keys():
            raise ValueError(
                f"expected the fields {', '.join(types)}, got {', '.join(values) or 'none'}"
            )
        for name, type_ in types.items():
            # Booleans are integers in Python.
            is_valid = isinstance(values[name], type_) and values[name] is not True
            if not is_valid or values[name] is False:
                raise ValueError(
                    f"`{name}`: expected {_type_name(type_)}, got {values[name]!r}"
                )
        for name in ("time_us", "default_time_us"):
            if not 0 < values[name] < math.inf:
                raise ValueError(f"`{name}`: expected a time, got {values[name]!r}")
        return TuningRecord(**values)


def _type_name(type_: Any) -> str:  # Any: types
    return {str: "text", int: "an integer"}.get(type_, "a number")


_PYTHON_TYPES: Mapping[str, Any] = {"str": str, "int": int, "float": (int, float)}


@dataclass(frozen=True)
class TuningDatabase:
    """The tuning records of a file.

    Attributes:
        path: of the file.
        records: by kernel and target.
        found: the records that the last tuning run added.
    """

    path: Path
    records: Mapping[tuple[str, str], TuningRecord] = field(default_factory=dict)
    found: tuple[TuningRecord, ...] = ()

    @staticmethod
    def read(path: str | os.PathLike[str]) -> TuningDatabase:
        """Read the database of a file.

        Raises:
            OSError: the file cannot be read.
            TuningError: the file is damaged, or not a tuning database.
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
            records = [_record(n, r) for n, r in enumerate(_record_list(found))]
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
        """The database for compiling a module: the given one, or the module's attribute.

        Raises:
            OSError: the file cannot be read.
            TuningError: the file is damaged.
        """
        attributes = module.mlir.operation.attributes
        if given is None and TUNING in attributes:
            given = ir.StringAttr(attributes[TUNING]).value
        return None if given is None else TuningDatabase.read(given)

    def with_records(self, records: Sequence[TuningRecord]) -> TuningDatabase:
        """A database with further records, which replace those of the same kernels."""
        added = {(record.kernel, record.target): record for record in records}
        return TuningDatabase(self.path, {**self.records, **added})

    def write(self) -> None:
        """Write the file atomically.

        Raises:
            OSError: the file cannot be written.
        """
        records = [asdict(self.records[key]) for key in sorted(self.records)]
        contents = {"format": _FORMAT, "version": _VERSION, "records": records}
        with atomic_file(self.path) as path:
            path.write_text(json.dumps(contents, indent=1) + "\n")

    def apply(self, module: IRModule, target: Target) -> None:
        """Annotate the kernels of a module with their recorded configurations.

        Kernels with a configuration of their own, or without a record, stay unchanged.
        """
        key = target_key(target)
        for function in module.func_ops():
            attributes = function.attributes
            if not is_prim_func(function) or CONFIGURATION in attributes:
                continue
            record = self.records.get((kernel_hash(function), key))
            if record is not None and record.configuration:
                text = ir.StringAttr.get(record.configuration, function.context)
                attributes[CONFIGURATION] = text


def _record_list(found: Mapping[str, Any]) -> list[Any]:  # Any: JSON
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

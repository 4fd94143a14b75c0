"""Array inputs and outputs of the command line: .npy files, random arrays, summaries."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.compiler.differential_check import random_array
from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.errors import RelaxError, near_misses
from relax_mlir.runtime.executable import Parameter, Signature
from relax_mlir.support.files import atomic_file

__all__ = [
    "ArrayError",
    "array_summary",
    "gather_inputs",
    "output_file_name",
    "top_scores",
    "write_array",
]

_TOP = 5
_ROWS = 3  # rows whose top scores are shown


class ArrayError(RelaxError):
    """An array cannot be read, or an input does not exist."""


def gather_inputs(
    signature: Signature,
    files: Mapping[str, str],
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> list[np.ndarray]:
    """The inputs of a model, in order.

    Args:
        signature: the model's signature.
        files: paths of .npy files by input name.
        sizes: if given, the other inputs are random; values of symbolic sizes, which
            default to those of inputs from files, else to 1.
        seed: the seed of random inputs.

    Raises:
        ArrayError: an input or a size is unknown, missing or cannot be read.
    """
    known = {p.name: p for p in signature.inputs}
    _check_names("input", files, known)
    found = {name: _read(name, path, known[name]) for name, path in files.items()}
    missing = [name for name in known if name not in found]
    if missing and sizes is None:
        names = ", ".join(f"`{name}`" for name in missing)
        raise ArrayError(
            f"inputs without a value: {names}. Give them as `--input NAME=FILE.npy`, or "
            "`--random-inputs`"
        )
    _check_names("size", sizes or {}, signature.symbols)
    values = dict.fromkeys(signature.symbols, 1)
    values.update(_sizes_of(signature, found))
    values.update(sizes or {})
    rng = np.random.default_rng(seed)
    return [
        found[name] if name in found else _random(rng, parameter, values)
        for name, parameter in known.items()
    ]


def _check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            names = ", ".join(f"`{k}`" for k in known)
            expected = f"expected {names}" if known else "there is none"
            raise ArrayError(
                f"no {what} `{name}`: {expected}.{near_misses(name, known)}"
            )


def _sizes_of(signature: Signature, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Symbolic sizes bound by the shapes of arrays; the model itself checks shapes later."""
    return {
        dim: size
        for parameter in signature.inputs
        if parameter.name in arrays
        for dim, size in zip(parameter.dims, arrays[parameter.name].shape, strict=False)
        if dim in signature.symbols
    }


def _random(
    rng: np.random.Generator, parameter: Parameter, sizes: Mapping[str, int]
) -> np.ndarray:
    if not parameter.dtype:
        raise ArrayError(
            f"input `{parameter.name}`: expected a numeric tensor for random inputs, "
            "got an input that is a sequence, text or nothing"
        )
    shape = [shapes.evaluate(shapes.parse(dim), sizes) for dim in parameter.dims]
    try:
        return random_array(rng, shape, dtype(parameter.dtype))
    except (MemoryError, ValueError) as error:
        raise ArrayError(
            f"input `{parameter.name}`: cannot make a random array of shape {shape}: "
            f"{error}"
        ) from error


def _read(name: str, path: str, parameter: Parameter) -> np.ndarray:
    """Read an array from a .npy file; memory mapping detects impossible shapes first."""
    where = f"input `{name}`: {path}"
    if not Path(path).is_file():
        problem = "not a regular file" if Path(path).exists() else "no such file"
        raise ArrayError(f"{where}: {problem}")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ArrayError(f"{where}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a malformed header may raise anything
        raise ArrayError(f"{where}: not a .npy file, or damaged: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ArrayError(f"{where}: expected one array (.npy), got an archive (.npz)")
    if not parameter.dtype:
        raise ArrayError(
            f"{where}: the input is not a numeric tensor and cannot be read"
        )
    expected = dtype(parameter.dtype).numpy
    array = _in_memory(array, path, where)
    if array.dtype == np.dtype(f"V{expected.itemsize}") and expected.kind == "V":
        array = array.view(expected)  # .npy files cannot name bfloat16
    native = array.dtype.newbyteorder("=")
    if native != expected:
        raise ArrayError(f"{where}: expected element type {expected}, got {native}")
    return np.asarray(array, native)


def _in_memory(mapped: np.ndarray, path: str, where: str) -> np.ndarray:
    """A mapped array copied to memory; truncation of a mapped file would kill the process.

    Raises:
        ArrayError: the file was truncated.
    """
    if not isinstance(mapped, np.memmap):  # it has no elements
        return mapped
    flat = np.fromfile(path, mapped.dtype, mapped.size, offset=mapped.offset)
    if flat.size != mapped.size:
        raise ArrayError(f"{where}: was changed while it was read")
    return flat.reshape(mapped.shape, order="C" if mapped.flags.c_contiguous else "F")


def write_array(path: Path, value: Any) -> None:  # Any: as for `array_summary`
    """Write a .npy file atomically.

    Raises:
        ArrayError: the value is not an array.
        OSError: the file cannot be written.
    """
    if not isinstance(value, np.ndarray):
        raise ArrayError(
            f"{path}: expected an array to write, got {array_summary('it', value)}"
        )
    array = value.astype(str) if value.dtype.kind == "O" else value
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def output_file_name(name: str) -> str:
    """A valid file name for an output."""
    return re.sub(r"[^\w.-]", "_", name)[:200] + ".npy"


def array_summary(name: str, value: Any) -> str:  # Any: arrays, lists of them, None
    """One line with name, element type, shape and range of values."""
    if not isinstance(value, np.ndarray):
        parts = len(value) if isinstance(value, list) else None
        return f"{name}: " + ("nothing" if parts is None else f"sequence of {parts}")
    if value.dtype.kind in "OSU":
        texts = ", ".join(map(repr, value.reshape(-1)[:_TOP].tolist()))
        return f"{name}: text{list(value.shape)}, {texts}"
    return _summary(name, value)


def _summary(name: str, array: np.ndarray) -> str:
    sizes = ", ".join(map(str, array.shape))
    return f"{name}: {array.dtype.name}[{sizes}], {_values(array)}"


def _values(array: np.ndarray) -> str:
    if array.size == 0:
        return "no elements"
    wide = array if array.dtype.kind in "iub" else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size == 0:
        return "no finite elements"
    text = f"{finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"
    count = wide.size - finite.size
    return f"{text}, {count} not finite" if count else text


def top_scores(array: Any) -> list[str]:  # Any: as for `array_summary`
    """The top classes of the first rows, if the array looks like class scores."""
    if not isinstance(array, np.ndarray) or array.dtype.kind in "OSU":
        return []
    is_scores = array.ndim >= 2 and set(array.shape[2:]) <= {1} and array.size > 0
    if not is_scores or array.dtype.kind in "iub" or array.shape[1] < _TOP:
        return []
    rows = array.reshape(array.shape[:2])[:_ROWS].astype(np.float64)
    return [f"row {number}: {_best(row)}" for number, row in enumerate(rows)]


def _best(scores: np.ndarray) -> str:
    order = np.argsort(-scores, kind="stable")[:_TOP]
    return ", ".join(f"{index} ({scores[index]:.4g})" for index in order)

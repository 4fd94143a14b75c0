"""Replays cases of ``tests/gpu/record.py`` on a GPU: ``python replay.py FOLDER``.

Needs numpy, ml_dtypes and NVIDIA's driver, and no compiler: ``FOLDER/runtime.rxm`` is any
compiled model, which carries the runtime. Every case runs three ways: with arrays of the
host; with arrays on the GPU and outputs that hold NaNs or -1 before; and again as a graph.
All ways must agree bitwise, and with the recorded outputs within a bound of the type.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import numpy as np

_SECONDS = 40.0  # of a case, before its process is killed
_POISON = 0xFF
_CALLS = 3  # as a graph
_BAD = ("WRONG", "FAILED", "HUNG")
# Of an output's scale: tensor cores add in another order than the emulator does.
_ROUNDED = 1e-3  # where operands are rounded to TF32, 16 or 8 bits
_BOUNDS = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all cases, or some; returns 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a part of the test's name")
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1e9, help="when to stop")
    parser.add_argument("--json", type=Path, help="a file for all that was found")
    chosen = parser.parse_args(arguments)
    cases = [c for c in _cases(chosen.folder) if chosen.only in c[2]][:: chosen.every]
    found = []
    for one in _run_all(cases, chosen.folder, chosen.jobs, chosen.seconds):
        found.append(one)
        if one["verdict"] in _BAD:
            print(json.dumps(one), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=0))
    print(*sorted(Counter(one["verdict"] for one in found).items()), sep="\n")
    print(f"{len(cases)} cases, {len(found)} run")
    return int(any(one["verdict"] in _BAD for one in found))


_Case = tuple[Path, int, str]


def _cases(folder: Path) -> Iterator[_Case]:
    for path in sorted(folder.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for number, case in enumerate(json.loads(archive.read("index.json"))):
                yield path, number, case["test"]


class _Worker:
    """A worker process that runs cases sequentially."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.end, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, folder), daemon=True)
        self.process.start()
        other.close()
        self.case: _Case | None = None
        self._begin = 0.0

    def give(self, case: _Case) -> None:
        """Sends a case to the process."""
        self.case, self._begin = case, time.monotonic()
        self.end.send(case)

    def answer(self, *, is_ready: bool) -> dict[str, Any] | None:
        """The result of the case; None while it runs."""
        if is_ready:
            try:
                return self.end.recv()
            except EOFError:
                return {"verdict": "FAILED", "why": "the process ended"}
        if time.monotonic() - self._begin > _SECONDS:
            return {"verdict": "HUNG", "why": f"longer than {_SECONDS:.0f} s"}
        return None


def _run_all(
    cases: Sequence[_Case], folder: Path, jobs: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Yields the result of each case, in order of completion."""
    waiting, end = list(reversed(cases)), time.monotonic() + seconds
    workers = [_Worker(folder) for _ in range(min(jobs, len(cases)))]
    for worker in workers:
        worker.give(waiting.pop())
    while busy := [worker for worker in workers if worker.case is not None]:
        ready = wait_for([worker.end for worker in busy], timeout=1.0)
        for worker in busy:
            answer = worker.answer(is_ready=worker.end in ready)
            if answer is None:
                continue
            path, number, test = worker.case or (Path(), 0, "")
            worker.case = None
            yield {"test": test, "file": path.name, "number": number, **answer}
            if answer["verdict"] in ("HUNG", "FAILED"):  # its context may be lost
                worker.process.kill()
                workers[workers.index(worker)] = worker = _Worker(folder)
            if waiting and time.monotonic() < end:
                worker.give(waiting.pop())
    for worker in workers:
        worker.process.kill()


def _serve(end: Connection, folder: Path) -> None:
    sys.path.insert(0, str(folder / "runtime.rxm"))
    while True:
        path, number, _ = end.recv()
        with zipfile.ZipFile(path) as archive:
            packed = archive.read(f"{number}.model")
            arrays = np.load(io.BytesIO(archive.read(f"{number}.npz")))
            shapes = json.loads(archive.read("index.json"))[number]["shapes"]
        try:
            end.send(_run(packed, arrays, shapes))
        except Exception as error:
            lines = traceback.format_exc().splitlines()[-6:]
            text = f"{type(error).__name__}: {error}"
            end.send({"verdict": "FAILED", "why": text[:600], "where": lines})


def _run(packed: bytes, arrays: Any, shapes: Any) -> dict[str, Any]:
    from relax_mlir.runtime.cuda.archive import unpack
    from relax_mlir.runtime.cuda.arrays import DeviceArray
    from relax_mlir.runtime.cuda.devices import device
    from relax_mlir.runtime.cuda.executable import CudaExecutable
    from relax_mlir.runtime.cuda.smoke_run import poisoned
    from relax_mlir.runtime.elements import element_type

    contents = unpack(packed)
    if contents.plan.calls_host:
        return {"verdict": "skipped", "why": "calls functions of the host"}
    model = CudaExecutable(contents)
    inputs, expected = (
        [
            arrays[f"{kind}{n}"].view(element_type(p.dtype)).reshape(shape)
            for n, (p, shape) in enumerate(zip(parameters, group, strict=True))
        ]
        for kind, parameters, group in zip(
            ("input", "output"),
            (model.signature.inputs, model.signature.outputs),
            shapes,
            strict=True,
        )
    )
    begin = time.monotonic()
    outputs = model(*inputs)
    seconds = time.monotonic() - begin
    kinds = [p.dtype for p in model.signature.outputs]
    answer: dict[str, Any] = {
        "kinds": kinds,
        "rules": sorted({kernel.rule for kernel in model.kernels}),
        "seconds": round(seconds, 3),
    }
    written = outputs
    if all(p.dtype in _LENT for p in model.signature.inputs + model.signature.outputs):
        gpu = device(0)
        on_gpu = [DeviceArray.of(array, gpu) for array in inputs]
        targets = [poisoned(gpu, array) for array in outputs]
        model(*on_gpu, out=targets, graph=False)
        written = [target.numpy() for target in targets]
        if not all(map(_agree, written, outputs)):
            return {"verdict": "WRONG", "why": "arrays on the GPU or host", **answer}
        for _ in range(_CALLS):
            model(*on_gpu, out=targets)
            if not all(map(_agree, written, [target.numpy() for target in targets])):
                return {
                    "verdict": "WRONG",
                    "why": "kernels one by one or graph",
                    **answer,
                }
    errors = list(map(_error, written, expected, kinds))
    answer["errors"] = errors
    limits = [_BOUNDS.get(kind, 0.0) for kind in kinds]
    is_rounded = any(b"mma" in text for text in contents.ptx)
    if is_rounded or not {"CublasLt", "Cudnn"}.isdisjoint(answer["rules"]):
        limits = [max(limit, _ROUNDED) if limit > 1e-9 else limit for limit in limits]
    if not all(e <= limit for e, limit in zip(errors, limits, strict=True)):
        return {"verdict": "WRONG", "why": "differs from what was recorded", **answer}
    return {"verdict": "right", **answer}


_LENT = {
    *("float16", "float32", "float64", "bfloat16"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


def _agree(written: np.ndarray, other: np.ndarray) -> bool:
    """Whether two outputs are bitwise equal, except for unwritten (poisoned) elements."""
    size = written.dtype.itemsize
    left, right = (
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size)
        for array in (written, other)
    )
    is_poison = (left == _POISON).all(axis=1)
    return bool(((left == right).all(axis=1) | is_poison).all())


def _error(ours: np.ndarray, theirs: np.ndarray, kind: str) -> float:
    """Maximum error relative to the scale of the expected output; infinite if NaNs differ."""
    if ours.shape != theirs.shape:
        return float("inf")
    if not kind.startswith(("float", "bfloat")):
        return 0.0 if ours.tobytes() == theirs.tobytes() else float("inf")
    a, b = (np.asarray(x).astype(np.float64) for x in (ours, theirs))
    is_finite = np.isfinite(b)
    same = np.array_equal(a[~is_finite], b[~is_finite], equal_nan=True)
    if not same or not np.isfinite(a[is_finite]).all():
        return float("inf")
    a, b = a[is_finite], b[is_finite]
    scale = np.abs(b).max(initial=0.0)
    return (
        float(np.abs(a - b).max(initial=0.0) / scale)
        if scale
        else float(np.abs(a).max(initial=0.0))
    )


if __name__ == "__main__":
    sys.exit(main())

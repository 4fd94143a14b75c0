"""Startup time until a model's first result, and memory use of a run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import child
from benchmarks.baselines import F32, OURS
from benchmarks.cases import read_case, save_case
from benchmarks.report import Report, Row

__all__ = ["get_ready", "memory_of_run", "memory_report", "startup_report"]

_NAME = "resnet50"
_MODEL = "model.onnx"
_THREADS = 2

Found = dict[str, Any]  # Any: numbers, or the text of a problem


def get_ready(runtime: str, folder: str, threads: int) -> Found:
    """Seconds to import a runtime, to prepare the model, and of the first run."""
    baseline, case = F32[runtime], read_case(folder)
    begin = time.perf_counter()
    baseline.version()
    imported = time.perf_counter()
    call = baseline.prepare(case, threads)
    prepared = time.perf_counter()
    call()
    return {
        "import_s": imported - begin,
        "ready_s": prepared - imported,
        "first_s": time.perf_counter() - prepared,
    }


def memory_of_run(runtime: str, folder: str, model: str) -> Found:
    """Peak memory of the process in MB, before and after running the model."""
    case = read_case(folder, model)
    before_mb = child.peak_rss_mb()
    call = F32[runtime].prepare(case, 1)
    for _ in range(3):
        call()
    return {"before_mb": before_mb, "peak_mb": child.peak_rss_mb()}


def startup_report(runtimes: Sequence[str]) -> Report:
    """Measure the startup time with cold and with warm caches."""
    threads = min(_THREADS, len(child.usable_cpus()))
    values: list[Found] = []
    with TemporaryDirectory() as folder:
        child.call(save_case, _NAME, folder)
        for runtime in (OURS, *runtimes):
            with _empty_caches() as caches:
                for state in ("cold", "warm"):
                    arguments = (runtime, folder, threads)
                    found = _try(get_ready, *arguments, threads=threads, caches=caches)
                    values.append({"runtime": runtime, "caches": state, **found})
    note = (
        f"{_NAME}, each line in a new process on {threads} processors: seconds to import, "
        "to compile or load the model, and of the first run. Our goal: ready in 10 s "
        "with cold caches, in 0.5 s with warm ones. All but inductor run without torch, "
        "which tvm-ffi imports if it is installed."
    )
    columns = ("runtime", "caches", "import s", "ready s", "first run s")
    rows = [_row(v, "caches", ("import_s", "ready_s", "first_s"), 2) for v in values]
    return Report("Startup", note, columns, rows, values, 2)


def memory_report(runtimes: Sequence[str]) -> Report:
    """Measure the peak memory of processes that load and run the model."""
    values: list[Found] = []
    with TemporaryDirectory() as folder, _empty_caches() as caches:
        child.call(save_case, _NAME, folder)
        for runtime, file in _files(runtimes):
            arguments = (runtime, folder, file)
            if file == _MODEL:  # warms the kernel cache
                _try(memory_of_run, *arguments, caches=caches)
            found = _try(memory_of_run, *arguments, caches=caches)
            values.append({"runtime": runtime, "file": file, **found})
    note = (
        f"{_NAME}, each line in a process that loads this file and runs it three times, "
        "with warm caches: its peak memory, and the share of Python and numpy. Our goal: "
        "no more than onnxruntime. All but inductor run without torch."
    )
    columns = ("runtime", "file", "peak MB", "Python and numpy MB")
    rows = [_row(v, "file", ("peak_mb", "before_mb"), 0) for v in values]
    return Report("Memory", note, columns, rows, values, 2)


def _files(runtimes: Sequence[str]) -> list[tuple[str, str]]:
    return [(OURS, "model.rxm"), *((r, _MODEL) for r in (OURS, *runtimes))]


@contextmanager
def _empty_caches() -> Iterator[dict[str, str]]:
    """Environment variables that redirect compilation caches to an empty folder."""
    with TemporaryDirectory() as folder:
        yield dict.fromkeys(("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"), folder)


def _try(
    function: Callable[..., Found],
    *arguments: object,
    caches: dict[str, str],
    threads: int = 1,
) -> Found:
    """The result of a child process, or its problem."""
    # tvm-ffi imports torch if it is installed.
    hidden = () if "inductor" in arguments else ("torch",)
    try:
        return child.call(
            function, *arguments, threads=threads, environment=caches, hidden=hidden
        )
    except child.ChildError as problem:
        return {"problem": str(problem)}


def _row(found: Found, second: str, keys: Sequence[str], digits: int) -> Row:
    names = (found["runtime"], found[second])
    if "problem" in found:
        return (*names, found["problem"], *[""] * (len(keys) - 1))
    return (*names, *(f"{found[key]:.{digits}f}" for key in keys))

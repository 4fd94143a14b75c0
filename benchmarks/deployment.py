"""Deployed models in environments without the compiler: sizes, first answers, memory."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import relax_mlir
from benchmarks import child
from benchmarks.cases import save_case
from benchmarks.report import Report, Row
from relax_mlir.compiler.export_wheel import export_wheel

__all__ = ["deployment_report", "export_case"]

_ROOT = Path(__file__).parents[1]
_NAMES = ("mlp_b1", "resnet50")
_ROUNDS = 7
_THREADS = 2

_INPUTS = "import numpy; x = list(numpy.load('{folder}/inputs.npz').values())\n"
# What is imported, and what is run on the inputs up to the first answer.
_PROGRAMS: Mapping[str, tuple[str, str]] = {
    "onnxruntime": (
        "import onnxruntime\n",
        """options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
providers = ["CPUExecutionProvider"]
model = onnxruntime.InferenceSession("{folder}/model.onnx", options, providers)
model.run(None, dict(zip([i.name for i in model.get_inputs()], x)))
""",
    ),
    ".rxm": (
        "from relax_mlir import load\n",
        "load('{folder}/model.rxm', threads={threads})(*x)\n",
    ),
    ".so": (
        "from relax_mlir import load\n",
        "load('{folder}/model.so', threads={threads})(*x)\n",
    ),
    "wheel": ("import {name}_model\n", "{name}_model.run(*x, threads={threads})\n"),
}


def export_case(name: str, folder: str) -> None:
    """Write a network's model, arrays, ``.rxm``, ``.so`` and wheel."""
    save_case(name, folder)
    model, output = Path(folder) / "model.onnx", Path(folder) / "model.so"
    relax_mlir.export(model, output)
    export_wheel(model, folder, name=f"{name}_model")


def deployment_report() -> Report:
    """Measure what deployed models need, beside onnxruntime."""
    rows: list[Row] = []
    values: list[dict[str, object]] = []
    with TemporaryDirectory() as name:
        work = Path(name)
        folders = {model: work / model for model in _NAMES}
        for model, folder in folders.items():
            folder.mkdir()
            child.call(export_case, model, str(folder))
        pythons = _environments(work, folders)
        sizes = {kind: _installed_mb(python) for kind, python in pythons.items()}
        for model, folder in folders.items():
            for kind, found in _measured(pythons, model, folder).items():
                files = {"onnxruntime": "model.onnx", "wheel": "*.whl"}
                (file,) = folder.glob(files.get(kind, f"model{kind}"))
                numbers = (file.stat().st_size / 1e6, sizes[kind], *found)
                texts = [f"{numbers[0]:.1f}", *(f"{n:.0f}" for n in numbers[1:])]
                rows.append((model, kind, *texts))
                values.append(dict(zip(_COLUMNS, (model, kind, *numbers), strict=True)))
    note = (
        f"New processes in environments of their own, {_THREADS} threads; medians of "
        f"{_ROUNDS} interleaved rounds. Packages: what is installed beside numpy, for wheels "
        "with both models. Import and first answer: milliseconds from the start of the process "
        "to its end, beyond a process that imports numpy and loads the inputs. Peak: memory of "
        "the process. `.so` and wheel have code for three kinds of processors. onnxruntime "
        f"{version('onnxruntime')}."
    )
    return Report("Deployment", note, _COLUMNS, rows, values, 2)


_COLUMNS = (
    *("model", "file", "file MB", "packages MB"),
    *("import ms", "first answer ms", "peak MB"),
)


def _environments(work: Path, folders: Mapping[str, Path]) -> dict[str, Path]:
    """The interpreter of an environment for each kind of file."""
    _pip(sys.executable, "wheel", "--no-deps", "-w", work, _ROOT / "packaging/runtime")
    models = [next(folder.glob("*.whl")) for folder in folders.values()]
    (runtime,) = work.glob("*.whl")
    needed = {"onnxruntime": ["onnxruntime"], ".rxm": [runtime], "wheel": models}
    made: dict[str, Path] = {}
    for kind, packages in needed.items():
        folder = work / f"environment{kind}"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", folder], check=True
        )
        made[kind] = folder / "bin" / "python"
        _pip(made[kind], "install", *packages)
    return {kind: made[".rxm" if kind == ".so" else kind] for kind in _PROGRAMS}


def _pip(python: str | Path, command: str, *arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", python, command, "--quiet"]
    subprocess.run([*pip, *arguments], check=True)


def _installed_mb(python: Path) -> float:
    """Size of an environment's packages without numpy."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    total = sum(
        path.stat().st_size
        for path in packages.rglob("*")
        if path.is_file()
        and not path.relative_to(packages).parts[0].startswith("numpy")
    )
    return total / 1e6


def _measured(
    pythons: Mapping[str, Path], model: str, folder: Path
) -> dict[str, tuple[float, float, float]]:
    """Milliseconds of the import and of the first answer, and peak megabytes, by kind."""
    fields = {"name": model, "folder": folder, "threads": _THREADS}
    times: dict[tuple[str, int], list[float]] = {}
    peaks: dict[str, list[float]] = {}
    for _ in range(_ROUNDS + 1):  # the first one warms caches
        for kind, parts in _PROGRAMS.items():
            texts = ["".join((_INPUTS, *parts)[: n + 1]) for n in range(3)]
            runs = [_run(pythons[kind], t.format(**fields)) for t in texts]
            for count, (seconds, _) in enumerate(runs):
                times.setdefault((kind, count), []).append(seconds)
            peaks.setdefault(kind, []).append(runs[-1][1])
    median = {key: statistics.median(found[1:]) for key, found in times.items()}
    return {
        kind: (
            1e3 * (median[kind, 1] - median[kind, 0]),
            1e3 * (median[kind, 2] - median[kind, 0]),
            statistics.median(peaks[kind][1:]),
        )
        for kind in _PROGRAMS
    }


_PEAK = "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"


def _run(python: Path, text: str) -> tuple[float, float]:
    """Seconds that a program takes, and its peak memory in MB."""
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": str(_THREADS)}
    command = [python, "-c", text + _PEAK]
    start = time.perf_counter()
    peak_kb = subprocess.check_output(command, env=environment)
    return time.perf_counter() - start, int(peak_kb) / 1e3

"""Classify pictures of clothes: a trained network, from ONNX to machine code and answers."""

import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import relax_mlir
from models import fashion_mlp

SHOWN = 4  # pictures, two a row
CALLS = 2000  # for the latency


def main() -> None:
    """Compile the network, classify the shipped test pictures, and check the answers."""
    console = Console()
    images, labels = fashion_mlp.load_images()

    start = time.perf_counter()
    model = relax_mlir.compile(fashion_mlp.path())
    compile_ms = (time.perf_counter() - start) * 1e3

    (logits,) = model(images)
    answers = logits.argmax(axis=1)

    console.print(_pictures(images, labels, answers))
    one, all_ = _latency_us(model, images[:1]), _latency_us(model, images)
    for name, fact in (
        ("model", f"{fashion_mlp.path().name}: {model.signature}"),
        ("accuracy", f"{np.mean(answers == labels):.1%} of {len(labels)} pictures"),
        ("compiled", f"in {compile_ms:.0f} ms"),
        ("latency", f"{one:.1f} us for one picture, {all_ / 1e3:.2f} ms for all"),
        ("checked", _compare(images, logits)),
    ):
        console.print(f"{name:10} {fact}", markup=False, soft_wrap=True)


def _pictures(images: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> Table:
    """A few pictures with what the network says they are."""
    table = Table.grid(padding=(0, 2))
    names = fashion_mlp.CLASS_NAMES
    for first in range(0, SHOWN, 2):
        shown = range(first, first + 2)
        table.add_row(*(_picture(images[i]) for i in shown))
        marks = (
            "[green]yes[/]" if answers[i] == labels[i] else "[red]no[/]" for i in shown
        )
        table.add_row(
            *(
                f"{names[answers[i]]} ({mark})"
                for i, mark in zip(shown, marks, strict=True)
            )
        )
    return table


def _picture(image: np.ndarray) -> str:
    """28 x 28 pixels as 14 lines of characters, darker for more ink."""
    shades = " .:-=+*#%@"
    rows = image.reshape(28, 28)[::2]
    return "\n".join("".join(shades[int(v * 9.99)] for v in row) for row in rows)


def _latency_us(model: relax_mlir.Executable, images: np.ndarray) -> float:
    """Median time of a call."""
    times = []
    for _ in range(max(20, CALLS // len(images))):
        start = time.perf_counter()
        model(images)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def _compare(images: np.ndarray, logits: np.ndarray) -> str:
    """Whether onnxruntime gives the same answers, where it is installed."""
    try:
        import onnxruntime
    except ImportError:
        return "not against onnxruntime: it is not installed"
    session = onnxruntime.InferenceSession(
        str(fashion_mlp.path()), providers=["CPUExecutionProvider"]
    )
    (theirs,) = session.run(None, {"x": images})
    same = np.array_equal(theirs.argmax(1), logits.argmax(1))
    error = np.abs(theirs - logits).max() / np.abs(theirs).max()
    if not same:
        raise SystemExit(
            f"onnxruntime gives other answers (largest difference {error:.1e})"
        )
    return f"every answer equals onnxruntime's (largest difference {error:.1e} of the scale)"


if __name__ == "__main__":
    main()

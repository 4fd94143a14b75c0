"""Image classification: a trained network, from ONNX to machine code and predictions."""

import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import relax_mlir
from models import fashion_mlp

SHOWN = 4  # images, two per row
CALLS = 2000  # for the latency


def main() -> None:
    """Compile the network, classify the shipped test images, and check the predictions."""
    console = Console()
    images, labels = fashion_mlp.load_images()

    start = time.perf_counter()
    model = relax_mlir.compile(fashion_mlp.path())
    compile_ms = (time.perf_counter() - start) * 1e3

    (logits,) = model(images)
    predictions = logits.argmax(axis=1)

    console.print(_image_table(images, labels, predictions))
    one, all_ = _latency_us(model, images[:1]), _latency_us(model, images)
    for name, fact in (
        ("model", f"{fashion_mlp.path().name}: {model.signature}"),
        ("accuracy", f"{np.mean(predictions == labels):.1%} of {len(labels)} images"),
        ("compiled", f"in {compile_ms:.0f} ms"),
        ("latency", f"{one:.1f} us for one image, {all_ / 1e3:.2f} ms for all"),
        ("checked", _compare(images, logits)),
    ):
        console.print(f"{name:10} {fact}", markup=False, soft_wrap=True)


def _image_table(
    images: np.ndarray, labels: np.ndarray, predictions: np.ndarray
) -> Table:
    """A few images with their predicted classes."""
    table = Table.grid(padding=(0, 2))
    names = fashion_mlp.CLASS_NAMES
    for first in range(0, SHOWN, 2):
        shown = range(first, first + 2)
        table.add_row(*(_ascii_image(images[i]) for i in shown))
        marks = (
            "[green]yes[/]" if predictions[i] == labels[i] else "[red]no[/]"
            for i in shown
        )
        table.add_row(
            *(
                f"{names[predictions[i]]} ({mark})"
                for i, mark in zip(shown, marks, strict=True)
            )
        )
    return table


def _ascii_image(image: np.ndarray) -> str:
    """An image [28, 28] as 14 lines of ASCII art."""
    shades = " .:-=+*#%@"
    rows = image.reshape(28, 28)[::2]
    return "\n".join("".join(shades[int(v * 9.99)] for v in row) for row in rows)


def _latency_us(model: relax_mlir.Executable, images: np.ndarray) -> float:
    """Median latency of a call, in microseconds."""
    times = []
    for _ in range(max(20, CALLS // len(images))):
        start = time.perf_counter()
        model(images)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def _compare(images: np.ndarray, logits: np.ndarray) -> str:
    """Compare the predictions with onnxruntime's, if it is installed."""
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
            f"onnxruntime gives other predictions (largest difference {error:.1e})"
        )
    return f"all predictions equal onnxruntime's (largest difference {error:.1e} of the scale)"


if __name__ == "__main__":
    main()

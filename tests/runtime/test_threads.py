"""Threads: the same bits whatever their number, and no more of them than are allowed."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import relax_mlir
from models import zoo
from relax_mlir.compiler import driver
from relax_mlir.passes.schedule import apply
from relax_mlir.runtime.executable import Executable
from tests.frontends.onnx.differential import parse

MOST = 5  # more than most machines that test have processors, and odd

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Case:
    """A graph of few kernels, large enough that threads share each.

    Attributes:
        text: of the graph.
        inputs: element types and shapes of what it is called with.
        weights: the same of what is constant, by name.
        values: constants by name.
    """

    text: str
    inputs: Sequence[tuple[str, tuple[int, ...]]]
    weights: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    values: dict[str, list[int]] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        """The graph with its constants."""
        model = parse(self.text)
        arrays = {n: _drawn(t, s) for n, (t, s) in self.weights.items()}
        arrays |= {n: np.array(v) for n, v in self.values.items()}
        for name, array in arrays.items():
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return model

    def arrays(self) -> list[np.ndarray]:
        """What to call it with."""
        return [_drawn(kind, shape, n) for n, (kind, shape) in enumerate(self.inputs)]


def _drawn(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 127, shape).astype(kind)


CASES = {
    "winograd": Case(
        """g (float[1, 64, 32, 32] x) => (float[1, 64, 32, 32] y) {
            a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
            b = Relu (a)
            y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b, w) }""",
        [("float32", (1, 64, 32, 32))],
        {"w": ("float32", (64, 64, 3, 3))},
    ),
    "product, packed when compiled": Case(
        "g (float[200, 96] x) => (float[200, 300] y) { y = MatMul (x, w) }",
        [("float32", (200, 96))],
        {"w": ("float32", (96, 300))},
    ),
    "product, packed when run": Case(
        "g (float[200, 96] x, float[96, 300] w) => (float[200, 300] y) {"
        " y = MatMul (x, w) }",
        [("float32", (200, 96)), ("float32", (96, 300))],
    ),
    "product of bytes": Case(
        "g (uint8[200, 96] x) => (int32[200, 300] y) { y = MatMulInteger (x, w) }",
        [("uint8", (200, 96))],
        {"w": ("int8", (96, 300))},
    ),
    "product of bytes, packed when run": Case(
        "g (uint8[200, 96] x, int8[96, 300] w) => (int32[200, 300] y) {"
        " y = MatMulInteger (x, w) }",
        [("uint8", (200, 96)), ("int8", (96, 300))],
    ),
    "strided convolution": Case(
        """g (float[1, 16, 33, 33] x) => (float[1, 40, 17, 17] y) {
            y = Conv <kernel_shape = [5, 5], strides = [2, 2], pads = [2, 2, 2, 2]> (x, w)
        }""",
        [("float32", (1, 16, 33, 33))],
        {"w": ("float32", (40, 16, 5, 5))},
    ),
    "depthwise convolution": Case(
        """g (float[1, 64, 64, 64] x) => (float[1, 64, 64, 64] y) {
            y = Conv <kernel_shape = [3, 3], group = 64, pads = [1, 1, 1, 1]> (x, w) }""",
        [("float32", (1, 64, 64, 64))],
        {"w": ("float32", (64, 1, 3, 3))},
    ),
    "largest of windows": Case(
        """g (float[1, 64, 64, 64] x) => (float[1, 64, 32, 32] y) {
            y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
        }""",
        [("float32", (1, 64, 64, 64))],
    ),
    "softmax": Case(
        "g (float[300, 257] x) => (float[300, 257] y) { y = Softmax (x) }",
        [("float32", (300, 257))],
    ),
    "attention": Case(
        """g (float[4, 70, 32] q, float[4, 32, 96] k, float[4, 96, 32] v)
            => (float[4, 70, 32] y) {
            s = MatMul (q, k)
            p = Softmax (s)
            y = MatMul (p, v) }""",
        [
            ("float32", (4, 70, 32)),
            ("float32", (4, 32, 96)),
            ("float32", (4, 96, 32)),
        ],
    ),
    "sums of columns": Case(
        "g (float[64, 30, 57] x) => (float[64, 1, 57] y) { y = ReduceSum (x, axes) }",
        [("float32", (64, 30, 57))],
        values={"axes": [1]},
    ),
    "map": Case(
        "g (float[90001] x, float[90001] z) => (float[90001] y) {"
        " e = Exp (x) y = Mul (e, z) }",
        [("float32", (90001,)), ("float32", (90001,))],
    ),
    "transpose": Case(
        "g (float[300, 400] x) => (float[400, 300] y) { y = Transpose (x) }",
        [("float32", (300, 400))],
    ),
    # A product too small to be shared, and then the steps, which the batch shares.
    "recurrent network": Case(
        """g (float[8, 80, 1] x) => (float[8, 1, 80, 24] y) {
            y = LSTM <hidden_size = 24> (x, w, r) }""",
        [("float32", (8, 80, 1))],
        {"w": ("float32", (1, 96, 1)), "r": ("float32", (1, 96, 24))},
    ),
}

# What one thread computes before another is awake.
SMALL = {
    "small product": Case(
        "g (float[16, 32] x) => (float[16, 64] y) { y = MatMul (x, w) }",
        [("float32", (16, 32))],
        {"w": ("float32", (32, 64))},
    ),
    "small softmax": Case(
        "g (float[16, 64] x) => (float[16, 64] y) { y = Softmax (x) }",
        [("float32", (16, 64))],
    ),
    "small windows": Case(
        """g (float[1, 16, 16, 16] x) => (float[1, 16, 8, 8] y) {
            y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }""",
        [("float32", (1, 16, 16, 16))],
    ),
    "small transpose": Case(
        "g (float[64, 48] x) => (float[48, 64] y) { y = Transpose (x) }",
        [("float32", (64, 48))],
    ),
}

MODELS = ("fashion_mlp", "squeezenet", "bert_tiny", "gpt2_tiny_prefill", "lstm")


@pytest.fixture
def five_threads() -> Iterator[None]:
    """As many threads as a call wants, up to five, on however few processors."""
    relax_mlir.set_max_threads(MOST)
    yield
    relax_mlir.set_max_threads(None)


@cache
def compiled(name: str) -> Executable:
    return driver.compile(relax_mlir.import_onnx((CASES | SMALL)[name].model()))


def with_threads(model: Executable, threads: int) -> Executable:
    """The same code for another number of threads."""
    return Executable.of_contents(model.contents(), "a test", threads)


def bits_of(arrays: Arrays) -> list[bytes]:
    return [np.ascontiguousarray(a).tobytes() for a in arrays]


def workers() -> list[Path]:
    """The threads of the pool in this process."""
    found: list[Path] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if (task / "comm").read_text() == "relax_mlir\n":
                found.append(task)
    return found


def worked_ns() -> int:
    """How long the threads of the pool have had a processor."""
    return sum(int((w / "schedstat").read_text().split()[0]) for w in workers())


def worked_until_asleep_ns() -> int:
    """The same, when all sleep after their last work."""
    deadline = time.monotonic() + 10
    while any(") S " not in (w / "stat").read_text() for w in workers()):
        assert time.monotonic() < deadline, "a thread of the pool does not fall asleep"
        time.sleep(0.001)
    return worked_ns()


def assert_is_shared(model: Executable, inputs: Arrays) -> None:
    """Fail if the pool has nothing to do in a call."""
    before = worked_until_asleep_ns()
    deadline = time.monotonic() + 10
    while worked_ns() == before:
        assert time.monotonic() < deadline, f"one thread computes {model.kernels}"
        model(*inputs)


def assert_same_bits(model: Executable, inputs: Arrays) -> None:
    expected = bits_of(with_threads(model, 1)(*inputs))
    for threads in (1, 2, MOST):
        runner = with_threads(model, threads)
        for _ in range(3):
            assert bits_of(runner(*inputs)) == expected, f"{threads} threads"


@pytest.mark.slow
@pytest.mark.usefixtures("five_threads")
@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_the_same_bits_on_any_number_of_threads(name: str) -> None:
    model, inputs = compiled(name), CASES[name].arrays()

    assert_same_bits(model, inputs)
    assert_is_shared(with_threads(model, MOST), inputs)


@pytest.mark.slow
@pytest.mark.usefixtures("five_threads")
@pytest.mark.parametrize("name", SMALL)
def test_small_kernels_are_not_worth_a_thread(name: str) -> None:
    model, inputs = with_threads(compiled(name), MOST), SMALL[name].arrays()
    before = worked_until_asleep_ns()

    for _ in range(20):
        model(*inputs)

    assert worked_until_asleep_ns() == before


@pytest.mark.slow
def test_the_cases_are_of_all_rules() -> None:
    used = {call.rule for name in CASES for call in compiled(name).kernels}

    assert used == {rule.__name__ for rule in apply._RULES}


@pytest.mark.slow
@pytest.mark.usefixtures("five_threads")
@pytest.mark.parametrize("name", MODELS)
def test_models_compute_the_same_bits_on_any_number_of_threads(name: str) -> None:
    entry = zoo.entry(name)
    assert isinstance(entry, zoo.Entry)
    model = driver.compile(relax_mlir.import_onnx(entry.build()))

    assert_same_bits(model, list(entry.inputs().values()))


@pytest.mark.slow
@pytest.mark.usefixtures("five_threads")
def test_callers_at_once_compute_the_same_bits_with_few_threads() -> None:
    name = "product, packed when run"
    model, inputs = with_threads(compiled(name), 2), CASES[name].arrays()
    expected = bits_of(model(*inputs))
    gate = threading.Barrier(8)

    def call(_: int) -> list[list[bytes]]:
        gate.wait()
        return [bits_of(model(*inputs)) for _ in range(20)]

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(call, range(8)))

    assert found == [[expected] * 20] * 8
    assert len(workers()) < MOST


def test_as_many_threads_as_processors_unless_told() -> None:
    assert relax_mlir.get_max_threads() <= len(os.sched_getaffinity(0))

    relax_mlir.set_max_threads(3)
    assert relax_mlir.get_max_threads() == 3

    relax_mlir.set_max_threads(None)
    assert relax_mlir.get_max_threads() <= len(os.sched_getaffinity(0))


def test_what_is_no_number_of_threads_is_refused() -> None:
    for count in (0, -1, 1025):
        with pytest.raises(
            ValueError, match=rf"max_threads: expected 1 to 1024, got {count}"
        ):
            relax_mlir.set_max_threads(count)
    with pytest.raises(TypeError, match="integer"):
        relax_mlir.set_max_threads(2.5)  # pyright: ignore[reportArgumentType]

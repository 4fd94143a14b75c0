"""Runtime checks on a real GPU, with torch and cupy: ``python device_checks.py FOLDER``.

Needs no compiler: ``FOLDER`` holds ``runtime.rxm``, which is the model of ``example.py``,
and ``wide.rxm``, the same model with 1024 columns, long enough to be seen on a stream.
Prints a line per check; exits with 1 if one fails.
"""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_COLUMNS, _WIDE = 8, 1024
_BOUND = 2e-5
_CHECKS: list[Callable[[Any, Any], object]] = []
# Any: torch, and a model, which are there on a machine with a GPU only.


def check(function: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    """Registers a check, which :func:`main` calls with torch and the wide model."""
    _CHECKS.append(function)
    return function


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Reference of the model: a matmul, and twice a softmax."""
    y = x.astype(np.float64) @ w
    for _ in range(2):
        y = np.exp(y - y.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
    return y


def inputs(n: int, columns: int = _WIDE, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(n + seed)
    x, w = rng.standard_normal((n, columns)), rng.standard_normal((columns, columns))
    return [(a / columns**0.5).astype(np.float32) for a in (x, w)]


def agree(ours: Any, x: np.ndarray, w: np.ndarray) -> None:
    wanted = expected(x, w)
    ours = ours.cpu().numpy() if hasattr(ours, "cpu") else np.asarray(ours)
    assert ours.shape == wanted.shape, (ours.shape, wanted.shape)
    error = np.abs(ours - wanted).max(initial=0.0) / wanted.max(initial=1e-30)
    assert error < _BOUND, error


def lent(torch: Any, *arrays: np.ndarray) -> list[Any]:
    return [torch.from_numpy(a).cuda() for a in arrays]


@check
def arrays_of_numpy(torch: Any, model: Any) -> object:
    for n in (0, 1, 7, 300, 1025):
        x, w = inputs(n)
        agree(model(x, w)[0], x, w)
    return "sizes 0, 1, 7, 300, 1025"


@check
def tensors_of_torch_are_not_copied(torch: Any, model: Any) -> object:
    x, w = inputs(256)
    a, b = lent(torch, x, w)
    (y,) = model(a, b)
    for back in (torch.from_dlpack(y), torch.as_tensor(y, device="cuda")):
        assert back.data_ptr() == y.address
        agree(back, x, w)
    out = torch.full((256, _WIDE), float("nan"), device="cuda")
    (same,) = model(a, b, out=[out])
    assert same is out
    agree(out, x, w)
    return f"at {y.address:#x}"


@check
def inputs_that_are_not_row_major(torch: Any, model: Any) -> object:
    x, w = inputs(256)
    a, b = lent(torch, np.ascontiguousarray(x.T), np.ascontiguousarray(w.T))
    (y,) = model(a.T, b.T)
    agree(torch.from_dlpack(y), x, w)
    flat = torch.zeros(x.size + 1, device="cuda")
    flat[1:] = torch.from_numpy(x.ravel())
    shifted = flat[1:].view(x.shape)
    assert shifted.data_ptr() % 16
    agree(torch.from_dlpack(model(shifted, b.T)[0]), x, w)
    return "transposed, and 4 bytes off"


@check
def arrays_of_cupy(torch: Any, model: Any) -> object:
    cupy = import_module("cupy")

    x, w = inputs(64)
    (y,) = model(cupy.asarray(x), cupy.asarray(w))
    agree(cupy.asnumpy(cupy.from_dlpack(y)), x, w)
    agree(cupy.asnumpy(cupy.asarray(y)), x, w)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        (y,) = model(cupy.asarray(x), cupy.asarray(w), stream=stream)
        agree(cupy.asnumpy(cupy.asarray(y)), x, w)
    return cupy.__version__


def _keep_busy(torch: Any, big: Any) -> None:
    """Enqueues some milliseconds of work on the current stream."""
    for _ in range(4):
        torch.mm(big, big)


@check
def a_stream_of_torch_is_in_order(torch: Any, model: Any) -> object:
    """Late inputs and a reader on a stream, without host synchronization."""
    x, w = inputs(512)
    a, b = lent(torch, x, w)
    big = torch.randn(8192, 8192, device="cuda")
    (warm,) = model(a, b)
    del warm
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _turn in range(6):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(a)
            _keep_busy(torch, big)
            late.copy_(a)
            (y,) = model(late, b, stream=stream)
            kept = torch.from_dlpack(y).clone()
            late.fill_(float("nan"))  # behind the call
        stream.synchronize()
        agree(kept, x, w)
    return "6 turns"


@check
def results_are_waited_for_on_another_stream(torch: Any, model: Any) -> object:
    x, w = inputs(512)
    a, b = lent(torch, x, w)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    big = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    for _ in range(6):
        with torch.cuda.stream(first):
            _keep_busy(torch, big)
            late = a * 1
            (y,) = model(late, b, stream=first)
        with torch.cuda.stream(second):
            kept = torch.from_dlpack(y).clone()
        second.synchronize()
        agree(kept, x, w)
    return "through DLPack's stream"


@check
def graphs_and_captured_calls(torch: Any, model: Any) -> object:
    x, w = inputs(128)
    a, b = lent(torch, x, w)
    out = torch.empty(128, _WIDE, device="cuda")
    step = model.captured(a, b, out=[out])
    for seed in range(5):
        x, _ = inputs(128, seed=seed)
        a.copy_(torch.from_numpy(x))
        for call in (
            step,
            lambda: model(a, b, out=[out]),
            lambda: model(a, b, out=[out], graph=False),
        ):
            out.fill_(float("nan"))
            call()
            agree(out, x, w)
    return "5 inputs, 3 ways"


@check
def a_stream_under_capture_is_refused(torch: Any, model: Any) -> object:
    x, w = inputs(128)
    a, b = lent(torch, x, w)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    try:
        with torch.cuda.graph(graph, stream=stream):
            model(a, b, stream=stream)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    else:
        raise AssertionError("a captured stream is taken")
    torch.cuda.synchronize()
    agree(torch.from_dlpack(model(a, b)[0]), x, w)
    return text[:160]


@check
def threads_call_one_model(torch: Any, model: Any) -> object:
    failed: list[BaseException] = []

    def calls(seed: int) -> None:
        try:
            for turn in range(30):
                x, w = inputs(20 + 7 * (turn % 5), seed=seed)
                if turn % 2:
                    agree(model(x, w)[0], x, w)
                else:
                    agree(torch.from_dlpack(model(*lent(torch, x, w))[0]), x, w)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return "8 threads, 30 calls each"


@check
def memory_does_not_grow(torch: Any, model: Any) -> object:
    x, w = inputs(2048)
    a, b = lent(torch, x, w)

    def round_of_calls() -> int:
        for n in range(1, 2049, 64):
            model(a[:n], b)
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    before = [round_of_calls() for _ in range(3)][-1]
    after = [round_of_calls() for _ in range(5)][-1]
    assert before - after < 1 << 22, (before, after)
    return f"{before - after} bytes in 160 calls of 32 sizes"


@check
def memory_that_is_not_there(torch: Any, model: Any) -> object:
    errors = import_module("relax_mlir.errors")
    _, w = inputs(1)
    (b,) = lent(torch, w)
    free = torch.cuda.mem_get_info()[0]
    rows = int(free * 0.6) // (4 * _WIDE)
    a = torch.empty(rows, _WIDE, device="cuda")
    try:
        model(a, b)
    except errors.OutOfMemoryError as error:
        text = str(error)
    else:
        raise AssertionError("no OutOfMemoryError")
    del a
    torch.cuda.empty_cache()
    x, w = inputs(32)
    agree(model(x, w)[0], x, w)
    return text[:200]


@check
def kernels_are_measured(torch: Any, model: Any) -> object:
    x, w = inputs(4096)
    profile = model.profile(*lent(torch, x, w))
    return "; ".join(str(profile).splitlines())[:300]


@check
def wrong_arguments(torch: Any, model: Any) -> object:
    x, w = inputs(8)
    a, b = lent(torch, x, w)
    wrong = [(a, b, a), (a.double(), b), (a[:, :5], b), (a[0], b), (a, b.cpu()[:3])]
    texts = [_refusal(model, arguments) for arguments in wrong]
    agree(torch.from_dlpack(model(a, b)[0]), x, w)
    return " | ".join(texts)[:400]


def _refusal(model: Any, arguments: Sequence[Any]) -> str:
    try:
        model(*arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"taken: {[t.shape for t in arguments]}")


@check
def a_model_on_the_gpu_mixes_with_the_host(torch: Any, model: Any) -> object:
    x, w = inputs(40)
    (a,) = lent(torch, x)
    agree(torch.from_dlpack(model(a, w)[0]), x, w)
    return "one input on the GPU, one of numpy"


def _passes(function: Callable[[Any, Any], object], torch: Any, model: Any) -> bool:
    try:
        print("ok    ", function.__name__, "--", function(torch, model), flush=True)
    except Exception:
        print("FAILED", function.__name__, flush=True)
        traceback.print_exc()
        return False
    return True


def main() -> int:
    """Runs all checks."""
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder / "runtime.rxm"))
    torch = import_module("torch")
    loading = import_module("relax_mlir.runtime.cuda.loading")

    model = loading.load(folder / "wide.rxm")
    print(torch.cuda.get_device_name(), torch.__version__)
    failed = sum(not _passes(function, torch, model) for function in _CHECKS)
    print(f"{len(_CHECKS)} checks, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

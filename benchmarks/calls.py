"""Call overhead: latency of models with four elements, by calling convention."""

from collections.abc import Callable

import numpy as np
import onnx
import tvm_ffi
from onnx import parser

import relax_mlir
from benchmarks import child
from benchmarks.report import Report
from relax_mlir.tools.timing import Spread, onnxruntime_call, time_calls

__all__ = ["call_times", "calls_report"]

_ONE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x) => (float[4] z) { z = Neg (x) }
"""
_TWO = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x, float[4] y) => (float[4] z) { z = Add (x, y) }
"""


def calls_report(rounds: int) -> Report:
    """Measure call overhead in a separate process."""
    found = child.call(call_times, rounds)
    rows = [(name, *(f"{t:.2f}" for t in times)) for name, times in found.items()]
    note = (
        "Microseconds per call of a model that computes four numbers. Goal: 1 with one "
        "preallocated input and output."
    )
    columns = ("call", "median us", "p10", "p90")
    return Report("Calls", note, columns, rows, found)


def call_times(rounds: int) -> dict[str, list[float]]:
    """Median, 10th and 90th percentile by calling convention, in microseconds."""
    calls = {**_of_one(parser.parse_model(_ONE)), **_of_two(parser.parse_model(_TWO))}
    found: dict[str, list[float]] = {}
    for name, times in zip(
        calls, time_calls(*calls.values(), rounds=rounds), strict=True
    ):
        spread = Spread.of(1e6 * times)
        found[name] = [spread.median, spread.p10, spread.p90]
    return found


def _of_one(model: onnx.ModelProto) -> dict[str, Callable[[], object]]:
    """Calls of a model with one input and one output."""
    main = relax_mlir.compile(model.SerializeToString())["main"]
    x, z = (tvm_ffi.from_dlpack(np.ones(4, np.float32)) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {
        "main(input, output)": lambda: main(x, z),
    }
    bound = _bound(model)
    if bound is not None:
        calls["onnxruntime, input and output bound"] = bound
    return calls


def _bound(model: onnx.ModelProto) -> Callable[[], object] | None:
    """onnxruntime with bound arrays; None if it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding, z = session.io_binding(), np.ones(4, np.float32)
    binding.bind_cpu_input("x", np.ones(4, np.float32))
    binding.bind_output("z", "cpu", 0, np.float32, z.shape, z.ctypes.data)

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        return z

    return call


def _of_two(model: onnx.ModelProto) -> dict[str, Callable[[], object]]:
    """Calls of a model with two inputs and one output."""
    exe = relax_mlir.compile(model.SerializeToString())
    x, y, z = (np.ones(4, np.float32) for _ in range(3))
    tensors = [tvm_ffi.from_dlpack(a) for a in (x, y, z)]
    main = exe["main"]
    calls: dict[str, Callable[[], object]] = {
        "main(two inputs, output)": lambda: main(*tensors),
        "main(two inputs)": lambda: main(*tensors[:2]),
        "exe(two arrays, out=)": lambda: exe(x, y, out=[z]),
        "exe(two arrays)": lambda: exe(x, y),
        "exe(two named arrays)": lambda: exe(x=x, y=y),
    }
    theirs = onnxruntime_call(model.SerializeToString(), threads=1)
    if theirs is not None:
        calls["onnxruntime, run(two arrays)"] = lambda: theirs({"x": x, "y": y})
    return calls

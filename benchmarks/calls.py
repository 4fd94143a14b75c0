"""What a call costs beside the work: a model of four additions, called in every way.

``python -m benchmarks.calls``. Microseconds a call, the median of rounds with the 10th and
90th percentile; onnxruntime's in the same process, where it is installed.
"""

from collections.abc import Callable

import numpy as np
import onnx
import tvm_ffi
from onnx import parser
from rich.console import Console
from rich.table import Table

import relax_mlir
from relax_mlir.tools.timing import Spread, onnxruntime_call, time_calls

_MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x, float[4] y) => (float[4] z) { z = Add (x, y) }
"""


def main() -> None:
    """Measure and print the table."""
    calls = _calls(parser.parse_model(_MODEL))
    table = Table("call", "median us", "p10", "p90")
    for name, times in zip(calls, time_calls(*calls.values()), strict=True):
        spread = Spread.of(1e6 * times)
        shown = (spread.median, spread.p10, spread.p90)
        table.add_row(name, *(f"{t:.2f}" for t in shown))
    Console().print(table)


def _calls(model: onnx.ModelProto) -> dict[str, Callable[[], object]]:
    exe = relax_mlir.compile(relax_mlir.import_onnx(model))
    x, y, z = (np.ones(4, np.float32) for _ in range(3))
    tensors = [tvm_ffi.from_dlpack(a) for a in (x, y, z)]
    main = exe["main"]
    calls: dict[str, Callable[[], object]] = {
        "main(tensors), outputs given": lambda: main(*tensors),
        "main(tensors)": lambda: main(*tensors[:2]),
        "exe(arrays, out=)": lambda: exe(x, y, out=[z]),
        "exe(arrays)": lambda: exe(x, y),
        "exe(named arrays)": lambda: exe(x=x, y=y),
    }
    theirs = onnxruntime_call(model.SerializeToString(), threads=1)
    if theirs is not None:
        calls["onnxruntime, run(arrays)"] = lambda: theirs({"x": x, "y": y})
    return calls


if __name__ == "__main__":
    main()

"""The runtimes by name and precision: ours and the baselines."""

from collections.abc import Mapping

from benchmarks.baselines.baseline import Baseline, Call, Case
from benchmarks.baselines.inductor import Inductor
from benchmarks.baselines.onnxruntime import OnnxRuntime
from benchmarks.baselines.openvino import OpenVino
from benchmarks.baselines.ours import Ours

__all__ = ["BF16", "DIRECT", "F32", "OURS", "Baseline", "Call", "Case"]

OURS = "relax_mlir"
DIRECT = "relax_mlir, winograd=never"

F32: Mapping[str, Baseline] = {
    OURS: Ours(),
    DIRECT: Ours(winograd="never"),
    "onnxruntime": OnnxRuntime(),
    "openvino": OpenVino("f32"),
    "inductor": Inductor(),
}

BF16: Mapping[str, Baseline] = {OURS: Ours("bf16"), "openvino": OpenVino("bf16")}

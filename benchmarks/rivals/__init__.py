"""The runtimes that are measured, by name, and the precision each computes in."""

from collections.abc import Mapping

from benchmarks.rivals.inductor import Inductor
from benchmarks.rivals.onnxruntime import OnnxRuntime
from benchmarks.rivals.openvino import OpenVino
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.rival import Call, Case, Rival

__all__ = ["BF16", "DIRECT", "F32", "OURS", "Call", "Case", "Rival"]

OURS = "relax_mlir"
DIRECT = "relax_mlir, winograd=never"

F32: Mapping[str, Rival] = {
    OURS: Ours(),
    DIRECT: Ours(winograd="never"),
    "onnxruntime": OnnxRuntime(),
    "openvino": OpenVino("f32"),
    "inductor": Inductor(),
}

BF16: Mapping[str, Rival] = {OURS: Ours("bf16"), "openvino": OpenVino("bf16")}

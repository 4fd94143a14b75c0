"""Baseline: OpenVINO in a given precision; by default it would choose the fastest."""

import importlib
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.baselines.baseline import Call, Case

__all__ = ["OpenVino"]


@dataclass(frozen=True)
class OpenVino:
    """OpenVINO compiled for latency; inputs and outputs are shared, not copied.

    Attributes:
        precision: ``f32`` or ``bf16``.
    """

    precision: str

    def version(self) -> str:
        """The installed version."""
        importlib.import_module("openvino")
        return version("openvino")

    def prepare(self, case: Case, threads: int) -> Call:
        """Compile a model."""
        openvino: Any = importlib.import_module("openvino")  # Any: optional
        options = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        compiled = openvino.Core().compile_model(str(case.model), "CPU", options)
        request = compiled.create_infer_request()
        for name, array in case.inputs.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        count = len(case.outputs)

        def call() -> list[np.ndarray]:
            request.infer(share_outputs=True)
            return [request.get_output_tensor(number).data for number in range(count)]

        return call

"""Baseline: onnxruntime, with default optimizations and bound arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines.baseline import Call, Case

__all__ = ["OnnxRuntime", "reference_outputs"]


@dataclass(frozen=True)
class OnnxRuntime:
    """onnxruntime with inputs and outputs bound once, so that calls do not copy."""

    def version(self) -> str:
        """The installed version."""
        import onnxruntime

        return onnxruntime.__version__

    def prepare(self, case: Case, threads: int) -> Call:
        """Load a model."""
        session = _session(case.model, threads, optimized=True)
        binding = session.io_binding()
        for name, array in case.inputs.items():
            binding.bind_cpu_input(name, array)
        for output, array in zip(session.get_outputs(), case.outputs, strict=True):
            address, shape = array.ctypes.data, array.shape
            binding.bind_output(output.name, "cpu", 0, array.dtype, shape, address)

        def call() -> list[np.ndarray]:
            session.run_with_iobinding(binding)
            return list(case.outputs)

        return call


def reference_outputs(
    model: Path, inputs: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Reference outputs by onnxruntime without optimizations.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    return _session(model, 1, optimized=False).run(None, dict(inputs))


def _session(model: Path, threads: int, *, optimized: bool) -> Any:
    """An inference session (Any: its results may be more than arrays)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    if not optimized:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"]
    )

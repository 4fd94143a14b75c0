"""Baseline: torch's compiler, inductor, with frozen weights."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.baselines.baseline import Call, Case

__all__ = ["Inductor"]


@dataclass(frozen=True)
class Inductor:
    """TorchInductor with ``freezing``, which prepacks weights."""

    def version(self) -> str:
        """The installed version."""
        return importlib.import_module("torch").__version__

    def prepare(self, case: Case, threads: int) -> Call:
        """Translate an ONNX model to torch, and compile it."""
        torch: Any = importlib.import_module("torch")  # Any: optional
        translation = importlib.import_module("benchmarks.onnx_to_torch")
        torch.set_num_threads(threads)
        dynamo: Any = importlib.import_module("torch._dynamo")
        dynamo.config.allow_rnn = True  # LSTM and GRU use torch's kernels
        module = translation.to_torch(case.model)
        compiled = torch.compile(module, options={"freezing": True})
        tensors = [torch.from_numpy(case.inputs[name]) for name in module.input_names]

        def call() -> list[np.ndarray]:
            if torch.get_num_threads() != threads:  # the setting is global
                torch.set_num_threads(threads)
            with torch.inference_mode():
                return [tensor.numpy() for tensor in compiled(*tensors)]

        return call

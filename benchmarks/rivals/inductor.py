"""torch's compiler, inductor, on the same graph with frozen weights."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.rivals.rival import Call, Case

__all__ = ["Inductor"]


@dataclass(frozen=True)
class Inductor:
    """Compiled with ``freezing``, so that weights are packed beforehand."""

    def version(self) -> str:
        """Of the package."""
        return importlib.import_module("torch").__version__

    def prepare(self, case: Case, threads: int) -> Call:
        """Translate an ONNX model to torch, and compile it for as many threads."""
        torch: Any = importlib.import_module("torch")  # Any: an extra
        translation = importlib.import_module("benchmarks.onnx_to_torch")
        torch.set_num_threads(threads)
        dynamo: Any = importlib.import_module("torch._dynamo")
        dynamo.config.allow_rnn = True  # LSTM and GRU are left to torch's kernels
        module = translation.to_torch(case.model)
        compiled = torch.compile(module, options={"freezing": True})
        tensors = [torch.from_numpy(case.inputs[name]) for name in module.input_names]

        def call() -> list[np.ndarray]:
            if torch.get_num_threads() != threads:  # one setting serves the process
                torch.set_num_threads(threads)
            with torch.inference_mode():
                return [tensor.numpy() for tensor in compiled(*tensors)]

        return call

"""Our compiler, as a runtime of the benchmarks."""

import importlib
import inspect
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.baselines.baseline import Call, Case

__all__ = ["Ours", "has_precisions"]


@dataclass(frozen=True)
class Ours:
    """Our compiler, called through its tvm-ffi function with preallocated arrays.

    Attributes:
        precision: the precision of matmuls and convolutions.
        winograd: the Winograd policy.
    """

    precision: str = "f32"
    winograd: str = "auto"

    def version(self) -> str:
        """The installed version."""
        importlib.import_module("relax_mlir")
        return version("relax_mlir")

    def prepare(self, case: Case, threads: int) -> Call:
        """Compile an ONNX model, or load a saved one."""
        import tvm_ffi

        import relax_mlir

        # Any: keyword arguments of `compile`, which older versions lack.
        options: dict[str, Any] = {}
        if self.precision != "f32":
            options["precision"] = self.precision
        if self.winograd != "auto":
            options["winograd"] = self.winograd
        if case.model.suffix == ".rxm":
            model = relax_mlir.load(case.model, threads=threads)
        else:
            model = relax_mlir.compile(case.model, threads=threads, **options)
        main = model["main"]
        arrays = [*(case.inputs[name] for name in model.input_names), *case.outputs]
        tensors = [tvm_ffi.from_dlpack(array) for array in arrays]

        def call() -> list[np.ndarray]:
            main(*tensors)
            return list(case.outputs)

        return call


def has_precisions() -> bool:
    """Whether ``relax_mlir.compile`` has the argument ``precision``."""
    import relax_mlir

    return "precision" in inspect.signature(relax_mlir.compile).parameters

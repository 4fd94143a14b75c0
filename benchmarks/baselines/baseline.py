"""Interface of the runtimes of the benchmarks, ours included."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

__all__ = ["Baseline", "Call", "Case"]

Call = Callable[[], Sequence[np.ndarray]]
"""A run on prepared inputs; returns the outputs."""


@dataclass(frozen=True)
class Case:
    """A model with its inputs and outputs.

    Attributes:
        model: an ONNX file; for ours also a compiled model.
        inputs: inputs by name.
        outputs: arrays with the shapes of the results, for runtimes that write to given ones.
    """

    model: Path
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[np.ndarray]


class Baseline(Protocol):
    """A runtime; it is imported inside of functions, because it is optional."""

    def version(self) -> str:
        """The installed version.

        Raises:
            ImportError: the runtime is not installed.
        """
        ...

    def prepare(self, case: Case, threads: int) -> Call:
        """Load or compile a model, and bind its inputs.

        Raises:
            ImportError: the runtime is not installed.
            Exception: the runtime cannot run the model.
        """
        ...

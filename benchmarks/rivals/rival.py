"""What the benchmarks ask of every runtime, ours included."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

__all__ = ["Call", "Case", "Rival"]

Call = Callable[[], Sequence[np.ndarray]]
"""One run on inputs that are in place; returns the outputs."""


@dataclass(frozen=True)
class Case:
    """A model with what it is run on.

    Attributes:
        model: an ONNX file; for ours also what a compiled model was saved as.
        inputs: by name.
        outputs: arrays that fit the results, for runtimes that write into given ones.
    """

    model: Path
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[np.ndarray]


class Rival(Protocol):
    """A runtime; its module imports it in functions, for it may be absent."""

    def version(self) -> str:
        """What is installed.

        Raises:
            ImportError: it is not.
        """
        ...

    def prepare(self, case: Case, threads: int) -> Call:
        """Load or compile a model, and put its inputs where its calls read them.

        Raises:
            ImportError: it is not installed.
            Exception: it cannot run the model.
        """
        ...

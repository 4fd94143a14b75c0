"""Pass pipelines: their text, running them, and watching them run."""

from relax_mlir.pipeline.instruments import (
    Instrument,
    Journal,
    PrintIR,
    Reproducer,
    Step,
    Timing,
)
from relax_mlir.pipeline.pipeline import Pipeline, opt

__all__ = [
    "Instrument",
    "Journal",
    "Pipeline",
    "PrintIR",
    "Reproducer",
    "Step",
    "Timing",
    "opt",
]

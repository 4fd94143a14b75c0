"""Pass pipelines: their text, running them, and watching them run."""

from relax_mlir.pipeline.instruments import (
    Instrument,
    Journal,
    PassCounter,
    PrintIR,
    Progress,
    Reproducer,
    Step,
    Timing,
)
from relax_mlir.pipeline.pipeline import Pipeline, opt

__all__ = [
    "Instrument",
    "Journal",
    "PassCounter",
    "Pipeline",
    "PrintIR",
    "Progress",
    "Reproducer",
    "Step",
    "Timing",
    "opt",
]

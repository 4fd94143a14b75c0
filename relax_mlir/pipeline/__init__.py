"""Pass pipelines: parsing, execution and instrumentation."""

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
from relax_mlir.pipeline.pass_instruments import (
    DumpIR,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from relax_mlir.pipeline.pipeline import Pipeline, opt
from relax_mlir.pipeline.python_passes import (
    DataflowBlockPass,
    FunctionPass,
    ModulePass,
    PrintIRPass,
    Sequential,
    dataflowblock_pass,
    function_pass,
    module_pass,
)

__all__ = [
    "DataflowBlockPass",
    "DumpIR",
    "FunctionPass",
    "Instrument",
    "Journal",
    "ModulePass",
    "PassCounter",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "Pipeline",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintIR",
    "PrintIRPass",
    "Progress",
    "Reproducer",
    "Sequential",
    "Step",
    "Timing",
    "dataflowblock_pass",
    "function_pass",
    "module_pass",
    "opt",
    "pass_instrument",
]

"""Who is told of passes: ``tvm.ir.instrument``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.pass_context import PassInstrument
from relax_mlir.pipeline import (
    DumpIR,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
)
from relax_mlir.pipeline.pass_instruments import pass_instrument

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]

check_exports(globals())

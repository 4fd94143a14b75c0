"""Pass instruments: ``tvm.ir.instrument``."""

from relax_mlir.pipeline import (
    DumpIR,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
)
from relax_mlir.pipeline.pass_instruments import pass_instrument
from relax_mlir.rewrite.pass_context import PassInstrument
from relax_mlir.support.argument_types import check_exports

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

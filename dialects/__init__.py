"""The MLIR dialects of the compiler: ``relax`` and ``tir``.

``relax`` holds graphs of tensor operations, ``tir`` holds tensor programs. Both are
defined in Python (:mod:`relax_mlir.dialects.ext`) and loaded once per context.
"""

from mlir import ir
from mlir.dialects._ods_common import _cext

if __name__ != "relax_mlir.dialects":
    raise ImportError(
        f"`{__name__}`: expected the name `relax_mlir.dialects`. Hint: import it by that name, "
        "which loads its operations once",
        name=__name__,
    )

_cext.globals.append_dialect_search_prefix("relax_mlir.dialects")


def load(context: ir.Context) -> None:
    """Load both dialects into ``context``; later calls do nothing."""
    from relax_mlir.dialects.ext import load_dialects
    from relax_mlir.dialects.relax import Relax
    from relax_mlir.dialects.tir import Tir

    if not context.is_registered_operation("relax.constant"):
        load_dialects((Relax, Tir), context)

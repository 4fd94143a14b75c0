"""The tensor programs that operators become, made by ``topi`` as TVM makes them.

One module per family has a table ``RULES`` from operators to functions that replace a call.
"""

from collections.abc import Mapping

from relax_mlir.relax.transform.legalize_ops import (
    creation,
    elementwise,
    indexing,
    linear_algebra,
    manipulation,
    neural,
    reduction,
    windows,
)
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc

__all__ = ["RULES", "LegalizeFunc"]

_FAMILIES = (
    *(creation, elementwise, indexing, linear_algebra, manipulation),
    *(neural, reduction, windows),
)

RULES: Mapping[str, LegalizeFunc] = {
    f"relax.{name}": rule for family in _FAMILIES for name, rule in family.RULES.items()
}

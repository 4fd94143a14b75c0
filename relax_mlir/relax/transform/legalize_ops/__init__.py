"""The tensor programs that operators become, made by ``topi`` as TVM makes them.

One module per family has a table ``RULES`` from operators to functions that replace a call.
"""

from collections.abc import Mapping

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.transform.legalize_ops import (
    creation,
    elementwise,
    indexing,
    linear_algebra,
    manipulation,
    neural,
    quantization,
    reduction,
    vision,
    windows,
)
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc
from relax_mlir.relax.transform.legalize_ops.common import register_legalize
from relax_mlir.relax.transform.legalize_ops.coverage import within_coverage

__all__ = ["RULES", "LegalizeFunc", "register_legalize"]

_FAMILIES = (
    *(creation, elementwise, indexing, linear_algebra, manipulation),
    *(neural, quantization, reduction, vision, windows),
)

# What operators become if nothing else is registered of them as `FLegalize`.
RULES: Mapping[str, LegalizeFunc] = {
    f"relax.{name}": within_coverage(name, rule)
    for family in _FAMILIES
    for name, rule in family.RULES.items()
}
for _name, _rule in RULES.items():
    register_legalize(_name, _rule)

check_exports(globals())

"""Legalization rules from operators to the tensor programs that TVM's ``topi`` defines.

Each module of an operator family has a table ``RULES`` from operator names to functions
that replace a call.
"""

from collections.abc import Mapping

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.transform.legalize_ops import (
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
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc
from relax_mlir.tvm.relax.transform.legalize_ops.common import register_legalize
from relax_mlir.tvm.relax.transform.legalize_ops.coverage import within_coverage

__all__ = ["LEGALIZE_RULES", "LegalizeFunc", "register_legalize"]

_FAMILIES = (
    *(creation, elementwise, indexing, linear_algebra, manipulation),
    *(neural, quantization, reduction, vision, windows),
)

# The default `FLegalize` of each operator.
LEGALIZE_RULES: Mapping[str, LegalizeFunc] = {
    f"relax.{name}": within_coverage(name, rule)
    for family in _FAMILIES
    for name, rule in family.RULES.items()
}
for _name, _rule in LEGALIZE_RULES.items():
    register_legalize(_name, _rule)

check_exports(globals())

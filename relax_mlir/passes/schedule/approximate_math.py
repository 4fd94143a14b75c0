"""``schedule-approximate-math``: powers of two that may be rough are one instruction."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, replace, walk
from relax_mlir.schedules.emit import lane_of, op

__all__ = ["ApproximateMath"]

_POWER = "llvm.nvvm.ex2.approx.ftz"  # with 2 units in the last place


@dataclass(frozen=True)
class ApproximateMath(Pass):
    """Write ``math.exp2`` of f32 that may be approximate as the instruction of NVIDIA's GPUs.

    Numbers below 2**-126 become 0. LLVM's own way keeps them, for three instructions more.
    """

    def run(self, module: IRModule) -> None:
        for operation in list(walk(module.mlir.operation)):
            if _may_be_rough(operation):
                (power,) = operation.operation.operands
                with ir.InsertionPoint(operation), operation.location:
                    replacement = _by_lane(power)
                replace(operation, replacement)


def _may_be_rough(operation: ir.OpView) -> bool:
    if operation.operation.name != "math.exp2":
        return False
    type_ = operation.operation.results[0].type
    is_plain = not isinstance(type_, ir.VectorType) or type_.rank == 1
    is_f32 = isinstance(element_of(type_), ir.F32Type)
    flags = str(operation.attributes["fastmath"])
    return is_plain and is_f32 and ("afn" in flags or "<fast>" in flags)


def _by_lane(power: ir.Value) -> ir.Value:
    """Two to the power of a number, or of each lane."""
    if not isinstance(power.type, ir.VectorType):
        return _instruction(power)
    (lanes,) = power.type.shape
    each = [_instruction(lane_of(power, n)) for n in range(lanes)]
    return op("vector.from_elements", power.type, *each)


def _instruction(power: ir.Value) -> ir.Value:
    none = ir.DenseI32ArrayAttr.get([])
    return op(
        "llvm.call_intrinsic",
        power.type,
        power,
        intrin=ir.StringAttr.get(_POWER),
        op_bundle_sizes=none,
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 0]),
    )

"""``schedule-approximate-math``: hardware approximations of ``exp2`` on NVIDIA GPUs."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import Pass, replace
from relax_mlir.schedules.builder import extract_lane, op

__all__ = ["ApproximateMath"]

_EXP2 = "llvm.nvvm.ex2.approx.ftz"  # within 2 ulp


@dataclass(frozen=True)
class ApproximateMath(Pass):
    """Lower f32 ``math.exp2`` with fast-math flag ``afn`` to NVIDIA's ``ex2.approx``.

    It flushes subnormals to zero. LLVM's own lowering keeps them, for three more instructions.
    """

    def run(self, module: IRModule) -> None:
        for operation in list(walk(module.mlir.operation)):
            if _may_approximate(operation):
                (power,) = operation.operation.operands
                with ir.InsertionPoint(operation), operation.location:
                    replacement = _by_lane(power)
                replace(operation, replacement)


def _may_approximate(operation: ir.OpView) -> bool:
    if operation.operation.name != "math.exp2":
        return False
    type_ = operation.operation.results[0].type
    is_plain = not isinstance(type_, ir.VectorType) or type_.rank == 1
    is_f32 = isinstance(element_of(type_), ir.F32Type)
    flags = str(operation.attributes["fastmath"])
    return is_plain and is_f32 and ("afn" in flags or "<fast>" in flags)


def _by_lane(power: ir.Value) -> ir.Value:
    """exp2 of a scalar, or of each lane."""
    if not isinstance(power.type, ir.VectorType):
        return _instruction(power)
    (lanes,) = power.type.shape
    each = [_instruction(extract_lane(power, n)) for n in range(lanes)]
    return op("vector.from_elements", power.type, *each)


def _instruction(power: ir.Value) -> ir.Value:
    none = ir.DenseI32ArrayAttr.get([])
    return op(
        "llvm.call_intrinsic",
        power.type,
        power,
        intrin=ir.StringAttr.get(_EXP2),
        op_bundle_sizes=none,
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 0]),
    )

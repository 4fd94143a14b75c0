"""``schedule-report-masked``: reports the span of masked accesses to the runtime, for tests."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.builder import op

__all__ = ["ReportMasked"]

_REPORT = "relax_rt2_masked_access"
# Operand numbers of the address and the vector.
_ACCESSES = {"llvm.intr.masked.load": (0, None), "llvm.intr.masked.store": (1, 0)}


@dataclass(frozen=True)
class ReportMasked(Pass):
    """Report to the runtime the bytes that masked accesses would touch without their masks.

    For tests with guard pages: disabled lanes cause no fault, but make the access slow on
    unmapped pages, and a fault on machines without such masks.
    """

    def run(self, module: IRModule) -> None:
        found = [
            o for o in walk(module.mlir.operation) if o.operation.name in _ACCESSES
        ]
        for operation in found:
            _report(operation)
        if found:
            _declare(module)


def _report(operation: ir.OpView) -> None:
    place, vector = _ACCESSES[operation.operation.name]
    value = operation.results[0] if vector is None else operation.operands[vector]
    type_ = ir.VectorType(value.type)
    (lanes,), element_bytes = type_.shape, -(-type_.element_type.width // 8)
    with ir.InsertionPoint(operation), operation.location:
        i64 = ir.IntegerType.get_signless(64)
        span = ir.IntegerAttr.get(i64, lanes * element_bytes)
        bytes_ = op("llvm.mlir.constant", i64, value=span)
        ir.Operation.create(
            "llvm.call",
            operands=[operation.operands[place], bytes_],
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(_REPORT),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 0]),
                "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            },
        )


def _declare(module: IRModule) -> None:
    with ir.InsertionPoint.at_block_begin(module.mlir.body), ir.Location.unknown():
        signature = ir.Type.parse("!llvm.func<void (ptr, i64)>")
        ir.Operation.create(
            "llvm.func",
            attributes={
                "sym_name": ir.StringAttr.get(_REPORT),
                "function_type": ir.TypeAttr.get(signature),
                "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
            },
            regions=1,
        )

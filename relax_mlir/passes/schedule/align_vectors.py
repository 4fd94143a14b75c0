"""``schedule-align-vectors``: alignment attributes of vector loads and stores."""

import math
from dataclasses import dataclass

from mlir import ir

from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.divisibility import known_divisor
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES

__all__ = ["AlignVectors"]

_BUFFER = {"vector.load": 0, "vector.store": 1}  # the operand that is the buffer


@dataclass(frozen=True)
class AlignVectors(Pass):
    """Annotate vector loads and stores with the alignment that their indices imply.

    A GPU issues one 16-byte access only at addresses aligned to 16 bytes. Every buffer
    argument of a kernel is aligned so.
    """

    def run(self, module: IRModule) -> None:
        i64 = ir.IntegerType.get_signless(64)
        for operation in walk(module.mlir.operation):
            if operation.operation.name in _BUFFER:
                bytes_ = _alignment(operation)
                operation.attributes["alignment"] = ir.IntegerAttr.get(i64, bytes_)


def _alignment(operation: ir.OpView) -> int:
    """The provable alignment of a vector access in bytes."""
    number = _BUFFER[operation.operation.name]
    buffer, *indices = list(operation.operands)[number:]
    type_ = ir.MemRefType(buffer.type)
    element_bytes = -(-type_.element_type.width // 8)
    strides, offset = type_.get_strides_and_offset()
    known = math.gcd(
        _known(offset), ACCESS_BYTES // math.gcd(element_bytes, ACCESS_BYTES)
    )
    for index, stride in zip(indices, strides, strict=True):
        known = math.gcd(known, known_divisor(index) * _known(stride))
    return math.gcd(known * element_bytes, ACCESS_BYTES)


def _known(stride: int) -> int:
    return 1 if stride == ir.ShapedType.get_dynamic_stride_or_offset() else stride

"""``schedule-align-vectors``: how far the vectors that kernels read and write are aligned."""

import math
from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, walk
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES
from relax_mlir.schedules.multiples import multiple_of

__all__ = ["AlignVectors"]

_BUFFER = {"vector.load": 0, "vector.store": 1}  # the operand that is the buffer


@dataclass(frozen=True)
class AlignVectors(Pass):
    """Tell vectors how they are aligned, as far as their indices show it.

    A GPU reads 16 bytes at once only where they begin at a multiple of 16. Every buffer
    that a kernel gets does.
    """

    def run(self, module: IRModule) -> None:
        i64 = ir.IntegerType.get_signless(64)
        for operation in walk(module.mlir.operation):
            if operation.operation.name in _BUFFER:
                bytes_ = _alignment(operation)
                operation.attributes["alignment"] = ir.IntegerAttr.get(i64, bytes_)


def _alignment(operation: ir.OpView) -> int:
    """The bytes that the place of a vector is surely a multiple of."""
    number = _BUFFER[operation.operation.name]
    buffer, *indices = list(operation.operands)[number:]
    type_ = ir.MemRefType(buffer.type)
    element_bytes = -(-type_.element_type.width // 8)
    strides, offset = type_.get_strides_and_offset()
    known = math.gcd(
        _known(offset), ACCESS_BYTES // math.gcd(element_bytes, ACCESS_BYTES)
    )
    for index, stride in zip(indices, strides, strict=True):
        known = math.gcd(known, multiple_of(index) * _known(stride))
    return math.gcd(known * element_bytes, ACCESS_BYTES)


def _known(stride: int) -> int:
    return 1 if stride == ir.ShapedType.get_dynamic_stride_or_offset() else stride

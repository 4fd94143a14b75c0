"""``relax-split-pads``: replaces implicit convolution padding by explicit pads."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass, pattern, rewrite_greedily

__all__ = ["SplitPads"]


@pattern
def _split_conv(op: Conv1dOp | Conv2dOp | Conv3dOp) -> ir.Value | None:
    """Rewrites conv(x, padding) as conv(pad(x)) if any padding is nonzero."""
    attrs = op.python_attrs()
    padding = attrs.pop("padding")
    if not any(padding):
        return None
    half = len(padding) // 2
    letters = op.layouts(attrs).data
    before = letters.from_plain((0, 0, *padding[:half]))
    after = letters.from_plain((0, 0, *padding[half:]))
    padded = PadOp(op.data, pad_width=pad_widths((*before, *after))).y
    return type(op)(padded, op.weight, padding=[0] * len(padding), **attrs).y


@dataclass(frozen=True)
class SplitPads(Pass):
    """Replaces the implicit padding of convolutions by an explicit pad.

    The padded copy costs one write and one read of the input; in return, none of the reads
    per kernel element needs a bounds check.
    """

    def run(self, module: IRModule) -> None:
        rewrite_greedily(module, _split_conv, rounds=1)

"""``relax-split-pads``: a padded convolution becomes a pad and one without padding."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, pattern, rewrite_greedily

__all__ = ["SplitPads"]


@pattern
def _split_conv(op: Conv1dOp | Conv2dOp | Conv3dOp) -> ir.Value | None:
    """conv(x, padding) is conv(pad(x)) where there is something to pad."""
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
    """Pad before a convolution instead of in it, so that its windows are plain reads.

    The padded copy costs one write and one read of the input; in return no read of the
    convolution, of which there are as many as taps, has to ask whether it is inside.
    """

    def run(self, module: IRModule) -> None:
        rewrite_greedily(module, _split_conv, rounds=1)

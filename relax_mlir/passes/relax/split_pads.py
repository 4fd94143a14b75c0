"""``relax-split-pads``: a padded convolution becomes a pad and one without padding."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax.conv import ConvOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, pattern, rewrite_greedily

__all__ = ["SplitPads"]


@pattern
def _split_conv(op: ConvOp) -> ir.Value | None:
    """conv(x, pads) is conv(pad(x)) where there is something to pad."""
    attrs = op.python_attrs()
    pads = attrs.pop("pads")
    if not any(pads):
        return None
    half = len(pads) // 2
    around = (0, 0, *pads[:half], 0, 0, *pads[half:])
    padded = PadOp(op.x, pads=around).y
    return ConvOp(padded, op.weight, pads=[0] * len(pads), **attrs).y


@dataclass(frozen=True)
class SplitPads(Pass):
    """Pad before a convolution instead of in it, so that its windows are plain reads.

    The padded copy costs one write and one read of the input; in return no read of the
    convolution, of which there are as many as taps, has to ask whether it is inside.
    """

    def run(self, module: IRModule) -> None:
        rewrite_greedily(module, _split_conv, rounds=1)

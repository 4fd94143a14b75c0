"""Rules of operators on regions of pictures."""

from collections.abc import Mapping

from relax_mlir import topi
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc

__all__ = ["RULES"]


def _regions(name: str, *attrs: str) -> LegalizeFunc:
    """The attributes go by name."""
    te_func = getattr(topi.vision, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        values = {attr: call.attrs[attr] for attr in attrs}
        return builder.call_te(te_func, *call.args, **values, primfunc_name_hint=name)

    return rule


_SHARED = ("pooled_size", "spatial_scale", "layout")

RULES: Mapping[str, LegalizeFunc] = {
    "vision.roi_align": _regions(
        "roi_align", *_SHARED, "mode", "sample_ratio", "aligned"
    ),
    "vision.roi_pool": _regions("roi_pool", *_SHARED),
}

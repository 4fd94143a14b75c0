"""Legalization rules of non-maximum suppression and box decoding."""

from collections.abc import Mapping

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, Tuple, TupleGetItem, const
from relax_mlir.objects.prim import Select
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.transform.legalize_ops.calls import LegalizeFunc

__all__ = ["RULES"]


def _keyword_rule(name: str, *attrs: str) -> LegalizeFunc:
    """A rule that passes attributes by keyword."""
    te_func = getattr(topi.vision, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        values = {attr: call.attrs[attr] for attr in attrs}
        return builder.call_te(te_func, *call.args, **values, primfunc_name_hint=name)

    return rule


def _all_class_nms(builder: BlockBuilder, call: Call) -> Expr:
    """Keeps the valid rows only, for ONNX's output format.

    Calls with another output format keep the operator.
    """
    if call.attrs["output_format"] != "onnx":
        return call
    name = "all_class_non_max_suppression"
    padded = builder.call_te(
        getattr(topi.vision, name), *call.args, primfunc_name_hint=name
    )
    rows, count = (builder.emit(TupleGetItem(padded, i)) for i in (0, 1))
    end = builder.emit(builder.call_te(_slice_end, count, primfunc_name_hint="end"))
    begin, strides = (const(np.full(2, n), "int64") for n in (0, 1))
    valid = builder.emit(op.dynamic_strided_slice(rows, begin, end, strides))
    return Tuple([valid, count])


def _slice_end(count: te.Tensor) -> te.Tensor:
    """Returns the end of a slice of the first ``count`` rows of three fields."""
    three = prim.const(3, "int64")
    return te.compute((2,), lambda i: Select(i.equal(0), count[0], three), name="end")


_FIELDS = ("score_index", "id_index", "score_threshold")
_SUPPRESSION = (
    *("max_output_size", "iou_threshold", "force_suppress", "top_k", "coord_start"),
    *("return_indices", "invalid_to_bottom", "soft_nms_sigma"),
)
_DECODING = ("variances", "clip", "threshold", "keep_background", "apply_softmax")

RULES: Mapping[str, LegalizeFunc] = {
    "vision.all_class_non_max_suppression": _all_class_nms,
    "vision.get_valid_counts": _keyword_rule("get_valid_counts", *_FIELDS),
    "vision.multibox_transform_loc": _keyword_rule(
        "multibox_transform_loc", *_DECODING
    ),
    "vision.non_max_suppression": _keyword_rule(
        "non_max_suppression", *_FIELDS, *_SUPPRESSION
    ),
}

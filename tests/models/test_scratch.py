"""After the loops level no kernel keeps a full-size intermediate: a tile or a row at most."""

import math

import pytest
from mlir import ir

import relax_mlir
from models import zoo
from relax_mlir.ir.traversal import walk
from tests.models.zoo_models import zoo_models

_QUICK = {
    "squeezenet",
    "bert_tiny",
    "bert_tiny_decomposed",
    "gpt2_tiny_decode",
    "mlp_b64",
}
_PANEL = 64  # columns of a contraction's panel at most: 4 vectors of 16
_DYNAMIC = 64  # what a size known only at run time is taken for


@pytest.mark.sampled(3)
@pytest.mark.parametrize("entry", zoo_models(quick=_QUICK))
def test_scratch_is_a_tile_or_a_row(entry: zoo.Entry) -> None:
    module = relax_mlir.lower(relax_mlir.import_onnx(entry.build()), to="loops")

    kernels = [f for f in module.func_ops() if "tir.rule" in f.attributes]

    assert kernels
    for kernel in kernels:
        whole = [_size(a.type) for a in kernel.arguments if _is_buffer(a)]
        for op in walk(kernel):
            if op.operation.name in ("memref.alloc", "memref.alloca"):
                type_ = ir.MemRefType(op.results[0].type)
                is_panel = type_.rank == 2 and 0 < type_.shape[1] <= _PANEL
                is_row = sum(n != 1 for n in type_.shape) <= 1
                is_part = is_panel or is_row or _size(type_) < max(whole)
                assert is_part, f"{kernel.name}: {type_}"
                assert _is_in_tile(op), f"{kernel.name}: {type_} is outside of the tile"


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _size(type_: ir.Type) -> int:
    return math.prod(n if n >= 0 else _DYNAMIC for n in ir.MemRefType(type_).shape)


def _is_in_tile(op: ir.OpView) -> bool:
    """Whether each tile of the kernel's one parallel loop has its own."""
    parent = op.operation.parent
    while parent is not None and parent.name != "func.func":
        if "tir.kind" in parent.attributes:
            return True
        parent = parent.parent
    return False

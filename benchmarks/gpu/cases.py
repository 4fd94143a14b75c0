"""GPU benchmark cases: kernels with known FLOPs or bytes, and whole models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx
from onnx import TensorProto, helper

from models import bert, gpt2, resnet50
from models.half import to_float16

__all__ = ["CASES", "Case"]

_OPSET = 23
_BF16, _F16, _F32 = TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT


@dataclass(frozen=True)
class Case:
    """A benchmark case.

    Attributes:
        name: the name of its files and of its row.
        build: builds the model, whose inputs are random.
        baseline: the PyTorch baseline, by its key in ``benchmarks/gpu/measure.py``.
        flops: floating-point operations of a call; 0 if unknown.
        moved_bytes: bytes read and written, for memory-bound cases.
        goal: the minimum ratio to the baseline, or share of the copy bandwidth.
        bounds: exclusive upper bounds of integer inputs, by name.
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    baseline: str
    flops: int = 0
    moved_bytes: int = 0
    goal: float = 1.0
    bounds: Mapping[str, int] = field(default_factory=dict)


def _one_node(
    kind: str, element: int, shapes: Sequence[Sequence[int]], **attributes: Any
) -> onnx.ModelProto:
    """A model of one operator; all tensors have one element type."""
    names = [chr(ord("a") + n) for n in range(len(shapes) - 1)]
    *inputs, output = (
        helper.make_tensor_value_info(name, element, shape)
        for name, shape in zip((*names, "y"), shapes, strict=True)
    )
    node = helper.make_node(kind, names, ["y"], **attributes)
    graph = helper.make_graph([node], kind.lower(), inputs, [output])
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def _matmul(m: int, k: int, n: int, element: int) -> onnx.ModelProto:
    shapes = (m, k), (k, n), (m, n)
    return _one_node("MatMul", element, shapes)


def _square(size: int) -> Case:
    build = partial(_matmul, size, size, size, _BF16)
    return Case(f"gemm_bf16_{size}", build, "matmul", flops=2 * size**3, goal=0.9)


def _vector(size: int) -> Case:
    build = partial(_matmul, 1, size, size, _F16)
    moved = 2 * size * size
    return Case(f"gemv_f16_{size}", build, "matmul", moved_bytes=moved, goal=0.85)


def _rows(name: str, kind: str, rows: int, columns: int) -> Case:
    shapes = [(rows, columns)] + [(columns,)] * 2 * (kind == "LayerNormalization")
    build = partial(_one_node, kind, _F32, [*shapes, (rows, columns)], axis=-1)
    moved = 8 * rows * columns
    return Case(name, build, name.partition("_")[0], moved_bytes=moved, goal=0.85)


def _attention(
    name: str, tokens: int, size: int, heads: int, keys: int, *, is_causal: bool
) -> Case:
    """Attention with batch 4 and ``keys`` heads of keys and values."""
    shapes = [(4, count, tokens, size) for count in (heads, keys, keys, heads)]
    build = partial(_one_node, "Attention", _F16, shapes, is_causal=int(is_causal))
    baseline = "causal_attention" if is_causal else "attention"
    # Both matmuls; causal attention computes half of the scores.
    flops = 4 * 4 * heads * tokens * tokens * size // (2 if is_causal else 1)
    return Case(name, build, baseline, flops=flops, goal=0.6)


def _in_f16(build: Callable[..., onnx.ModelProto], **sizes: int) -> onnx.ModelProto:
    return to_float16(build(**sizes))


CASES = (
    _square(4096),
    _square(8192),
    _vector(8192),
    _rows("softmax_f32", "Softmax", 16384, 8192),
    _rows("layernorm_f32", "LayerNormalization", 16384, 8192),
    _attention("attention_f16", 4096, 128, 16, 16, is_causal=False),
    _attention("attention_causal_f16", 4096, 128, 16, 16, is_causal=True),
    _attention("attention_grouped_f16", 4096, 128, 32, 8, is_causal=True),
    Case("resnet50_1", partial(_in_f16, resnet50.build, batch=1), "network"),
    Case("resnet50_32", partial(_in_f16, resnet50.build, batch=32), "network"),
    Case(
        "bert_base",
        partial(_in_f16, bert.build, batch=1, seq=128),
        "network",
        bounds={"input_ids": 30522, "attention_mask": 2, "token_type_ids": 2},
    ),
    Case(
        "gpt2_decode",
        partial(_in_f16, gpt2.build, tokens=1, past=127),
        "network",
        bounds={"input_ids": 50257},
    ),
)

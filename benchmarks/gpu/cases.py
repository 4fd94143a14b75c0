"""What is measured on a GPU: kernels of known work, and whole models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx
from onnx import TensorProto, helper

from models import bert, gpt2, resnet50
from models.half import half

__all__ = ["CASES", "Case"]

_OPSET = 23
_BF16, _F16, _F32 = TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT


@dataclass(frozen=True)
class Case:
    """One thing that is measured.

    Attributes:
        name: of its files, and of its row.
        build: makes the model, whose inputs are random.
        rival: what PyTorch does in its place: the name of a function of
            ``benchmarks/gpu/measure.py``.
        flops: multiplications and additions of a call; 0 if they are not told.
        moved_bytes: of a call that waits for memory: what is read and written.
        goal: the least ratio to the rival, or share of the rate of copies.
        bounds: by name of an integer input, what its numbers stay below.
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    rival: str
    flops: int = 0
    moved_bytes: int = 0
    goal: float = 1.0
    bounds: Mapping[str, int] = field(default_factory=dict)


def _one_node(
    kind: str, element: int, shapes: Sequence[Sequence[int]], **attributes: Any
) -> onnx.ModelProto:
    """A model of one operator, of such attributes; all tensors have one element type."""
    names = [chr(ord("a") + n) for n in range(len(shapes) - 1)]
    *inputs, output = (
        helper.make_tensor_value_info(name, element, shape)
        for name, shape in zip((*names, "y"), shapes, strict=True)
    )
    node = helper.make_node(kind, names, ["y"], **attributes)
    graph = helper.make_graph([node], kind.lower(), inputs, [output])
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def _product(rows: int, terms: int, columns: int, element: int) -> onnx.ModelProto:
    shapes = (rows, terms), (terms, columns), (rows, columns)
    return _one_node("MatMul", element, shapes)


def _square(size: int) -> Case:
    build = partial(_product, size, size, size, _BF16)
    return Case(f"gemm_bf16_{size}", build, "product", flops=2 * size**3, goal=0.9)


def _vector(size: int) -> Case:
    build = partial(_product, 1, size, size, _F16)
    moved = 2 * size * size
    return Case(f"gemv_f16_{size}", build, "product", moved_bytes=moved, goal=0.85)


def _rows(name: str, kind: str, rows: int, columns: int) -> Case:
    shapes = [(rows, columns)] + [(columns,)] * 2 * (kind == "LayerNormalization")
    build = partial(_one_node, kind, _F32, [*shapes, (rows, columns)], axis=-1)
    moved = 8 * rows * columns
    return Case(name, build, name.partition("_")[0], moved_bytes=moved, goal=0.85)


def _attention(
    name: str, tokens: int, size: int, heads: int, keys: int, *, is_causal: bool
) -> Case:
    """Attention of a batch of 4; ``keys``: heads of keys and values."""
    shapes = [(4, count, tokens, size) for count in (heads, keys, keys, heads)]
    build = partial(_one_node, "Attention", _F16, shapes, is_causal=int(is_causal))
    rival = "causal_attention" if is_causal else "attention"
    # Products of scores and of values; of a causal one, those of keys that are seen.
    flops = 4 * 4 * heads * tokens * tokens * size // (2 if is_causal else 1)
    return Case(name, build, rival, flops=flops, goal=0.6)


def _of_16_bits(build: Callable[..., onnx.ModelProto], **sizes: int) -> onnx.ModelProto:
    return half(build(**sizes))


CASES = (
    _square(4096),
    _square(8192),
    _vector(8192),
    _rows("softmax_f32", "Softmax", 16384, 8192),
    _rows("layernorm_f32", "LayerNormalization", 16384, 8192),
    _attention("attention_f16", 4096, 128, 16, 16, is_causal=False),
    _attention("attention_causal_f16", 4096, 128, 16, 16, is_causal=True),
    _attention("attention_grouped_f16", 4096, 128, 32, 8, is_causal=True),
    Case("resnet50_1", partial(_of_16_bits, resnet50.build, batch=1), "network"),
    Case("resnet50_32", partial(_of_16_bits, resnet50.build, batch=32), "network"),
    Case(
        "bert_base",
        partial(_of_16_bits, bert.build, batch=1, seq=128),
        "network",
        bounds={"input_ids": 30522, "attention_mask": 2, "token_type_ids": 2},
    ),
    Case(
        "gpt2_decode",
        partial(_of_16_bits, gpt2.build, tokens=1, past=127),
        "network",
        bounds={"input_ids": 50257},
    ),
)

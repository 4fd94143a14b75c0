"""BERT encoder with random weights, in the nodes of torch's exporter."""

import math

import numpy as np
import onnx

from models.graph import Graph

tolerance = 1e-4

_POSITIONS = 512
_EPSILON = 1e-12
_MASKED = float(np.finfo(np.float32).min)  # additive mask value


def build(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocab: int = 30522,
    seq: int | None = None,
    *,
    batch: int = 1,
    decompose_layernorm: bool = False,
) -> onnx.ModelProto:
    """Build a model from three token inputs to ``last_hidden_state``.

    The inputs are ``input_ids``, ``attention_mask`` and ``token_type_ids``.

    Args:
        seq: tokens per row; None leaves ``batch`` and ``sequence`` symbolic.
        batch: the batch size, if `seq` is given.
        decompose_layernorm: nine primitive nodes for each LayerNormalization, as
            exporters wrote before opset 17.
        layers, hidden, heads, vocab: the sizes of the network.

    Source: Devlin et al., BERT, 2018; nodes as torch's TorchScript exporter writes
    them for transformers' BertModel, the Shape chains included.
    """
    sizes = ("batch", "sequence") if seq is None else (batch, seq)
    encoder = _Encoder(hidden, heads, decompose_layernorm)
    g = encoder.g
    names = ("input_ids", "attention_mask", "token_type_ids")
    ids, mask, types = (g.input(name, sizes, np.int64) for name in names)
    x = encoder.embeddings(ids, types, vocab)
    bias = encoder.attention_bias(mask)
    for layer in range(layers):
        x = encoder.layer(x, bias, f"encoder/layer.{layer}")
    g.output("last_hidden_state", x, (*sizes, hidden))
    return g.model()


def inputs(
    seed: int = 0, *, batch: int = 1, seq: int = 128, vocab: int = 30522
) -> dict[str, np.ndarray]:
    """Random tokens; a quarter of the first row is padding, and less of the others."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(seq - seq // 4, seq + 1, (batch, 1))
    lengths[0] = seq - seq // 4
    mask = (np.arange(seq) < lengths).astype(np.int64)
    return {
        "input_ids": rng.integers(1, vocab, (batch, seq)) * mask,
        "attention_mask": mask,
        "token_type_ids": (np.arange(seq) >= lengths // 2).astype(np.int64) * mask,
    }


class _Encoder:
    """Builder of the encoder's parts in one graph."""

    def __init__(self, hidden: int, heads: int, decompose_layernorm: bool) -> None:
        self.g = Graph("bert")
        self.hidden = hidden
        self.heads = heads
        self.decompose_layernorm = decompose_layernorm

    def embeddings(self, ids: str, types: str, vocab: int) -> str:
        """Layer-normalized sum of word, type and position embeddings."""
        g, path = self.g, "embeddings"
        tables = {"word": vocab, "token_type": 2, "position": _POSITIONS}
        word, kind, position = (
            g.normal(f"{path}.{name}_embeddings.weight", (rows, self.hidden), 0.02)
            for name, rows in tables.items()
        )
        every = g.weight(f"{path}.position_ids", np.arange(_POSITIONS)[None])
        length = self._size(ids, 1, path)
        bounds = (g.constant([0]), length, g.constant([1]), g.constant([1]))
        positions = g.node("Slice", every, *bounds, path=path)
        x = g.node("Gather", word, ids, path=f"{path}/word")
        y = g.node("Gather", kind, types, path=f"{path}/token_type")
        x = g.node("Add", x, y, path=f"{path}/token_type")
        y = g.node("Gather", position, positions, path=f"{path}/position")
        x = g.node("Add", x, y, path=f"{path}/position")
        return self.layer_norm(x, f"{path}/LayerNorm")

    def attention_bias(self, mask: str) -> str:
        """Additive mask: 0 where the mask [batch, sequence] is 1, else the least float32."""
        g, path = self.g, "mask"
        mask = g.node("Unsqueeze", mask, g.constant([1]), path=f"{path}/heads")
        mask = g.node("Unsqueeze", mask, g.constant([2]), path=f"{path}/queries")
        mask = g.node("Cast", mask, path=path, to=onnx.TensorProto.FLOAT)
        mask = g.node("Sub", g.constant(1.0), mask, path=path)
        return g.node("Mul", mask, g.constant(_MASKED), path=path)

    def layer(self, x: str, bias: str, path: str) -> str:
        """Post-norm layer: self-attention and feed-forward network with residuals."""
        g, hidden = self.g, self.hidden
        y = self.attention(x, bias, f"{path}/attention/self")
        y = self.linear(y, f"{path}/attention/output/dense", (hidden, hidden))
        y = g.node("Add", y, x, path=f"{path}/attention/output")
        x = self.layer_norm(y, f"{path}/attention/output/LayerNorm")
        y = self.linear(x, f"{path}/intermediate/dense", (hidden, 4 * hidden))
        y = self.gelu(y, f"{path}/intermediate/gelu")
        y = self.linear(y, f"{path}/output/dense", (4 * hidden, hidden))
        y = g.node("Add", y, x, path=f"{path}/output")
        return self.layer_norm(y, f"{path}/output/LayerNorm")

    def attention(self, x: str, bias: str, path: str) -> str:
        """Multi-head attention: softmax(q k^T / sqrt(d) + bias) v."""
        g, size = self.g, self.hidden // self.heads
        q = self.split_heads(x, f"{path}/query", [0, 2, 1, 3])
        k = self.split_heads(x, f"{path}/key", [0, 2, 3, 1])
        v = self.split_heads(x, f"{path}/value", [0, 2, 1, 3])
        scores = g.node("MatMul", q, k, path=f"{path}/scores")
        scores = g.node("Div", scores, g.constant(math.sqrt(size)), path=path)
        scores = g.node("Add", scores, bias, path=path)
        weights = g.node("Softmax", scores, path=path, axis=-1)
        y = g.node("MatMul", weights, v, path=f"{path}/context")
        y = g.node("Transpose", y, path=path, perm=[0, 2, 1, 3])
        return self._reshape(y, (0, 1), [self.hidden], path)

    def split_heads(self, x: str, path: str, perm: list[int]) -> str:
        """Project, split into heads, and transpose."""
        y = self.linear(x, path, (self.hidden, self.hidden))
        y = self._reshape(y, (0, 1), [self.heads, self.hidden // self.heads], path)
        return self.g.node("Transpose", y, path=path, perm=perm)

    def linear(self, x: str, path: str, sizes: tuple[int, int]) -> str:
        """MatMul with an [in, out] weight, then Add with the bias first."""
        weight = self.g.normal(f"{path}.weight", sizes, sizes[0] ** -0.5)
        bias = self.g.normal(f"{path}.bias", sizes[1:], 0.1)
        return self.g.node(
            "Add", bias, self.g.node("MatMul", x, weight, path=path), path=path
        )

    def gelu(self, x: str, path: str) -> str:
        """GELU x (1 + erf(x / sqrt 2)) / 2 in five nodes."""
        g = self.g
        y = g.node("Div", x, g.constant(math.sqrt(2)), path=path)
        y = g.node("Erf", y, path=path)
        y = g.node("Add", y, g.constant(1.0), path=path)
        y = g.node("Mul", x, y, path=path)
        return g.node("Mul", y, g.constant(0.5), path=f"{path}/half")

    def layer_norm(self, x: str, path: str) -> str:
        """Layer normalization, as one node or nine."""
        g = self.g
        weight = g.normal(f"{path}.weight", (self.hidden,), 0.1, mean=1.0)
        bias = g.normal(f"{path}.bias", (self.hidden,), 0.1)
        if not self.decompose_layernorm:
            attributes = {"axis": -1, "epsilon": _EPSILON}
            return g.node(
                "LayerNormalization", x, weight, bias, path=path, **attributes
            )
        mean = g.node("ReduceMean", x, path=f"{path}/mean", axes=[-1])
        centred = g.node("Sub", x, mean, path=path)
        square = g.node("Pow", centred, g.constant(2.0), path=path)
        variance = g.node("ReduceMean", square, path=f"{path}/variance", axes=[-1])
        variance = g.node(
            "Add", variance, g.constant(_EPSILON), path=f"{path}/variance"
        )
        deviation = g.node("Sqrt", variance, path=path)
        y = g.node("Div", centred, deviation, path=path)
        y = g.node("Mul", y, weight, path=path)
        return g.node("Add", y, bias, path=path)

    def _reshape(
        self, x: str, kept: tuple[int, ...], sizes: list[int], path: str
    ) -> str:
        """Reshape to dimensions `kept` of x, read with Shape, followed by `sizes`."""
        g, path = self.g, f"{path}/view"
        parts = [self._size(x, axis, path) for axis in kept]
        parts += [g.constant([size]) for size in sizes]
        return g.node(
            "Reshape", x, g.node("Concat", *parts, path=path, axis=0), path=path
        )

    def _size(self, x: str, axis: int, path: str) -> str:
        """One dimension of x as an int64 [1]: Shape, Gather, Unsqueeze."""
        g, path = self.g, f"{path}/dim{axis}"
        index = g.constant(np.array(axis))
        size = g.node("Gather", g.node("Shape", x, path=path), index, path=path, axis=0)
        return g.node("Unsqueeze", size, g.constant([0]), path=path)

"""GPT-2 with random weights: prefill of a prompt, or decode of one token with a KV cache."""

import math

import numpy as np
import onnx

from models.graph import Graph

tolerance = 1e-4

_POSITIONS = 1024
_EPSILON = 1e-5


def build(
    tokens: int = 128,
    past: int | str = 0,
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocab: int = 50257,
) -> onnx.ModelProto:
    """Build a model from ``input_ids`` [1, tokens] to ``logits`` [1, tokens, vocab].

    The cache of layer i is ``past_k<i>``, ``past_v<i>`` before the call, and ``present_k<i>``,
    ``present_v<i>`` after it, each [1, heads, length, hidden / heads].

    Args:
        tokens: tokens per call.
        past: tokens in the cache; 0 for a model without cache inputs. The name of a
            symbolic size for a cache of any length, with one token per call.
        layers, hidden, heads, vocab: the sizes of the network.

    Raises:
        ValueError: ``past`` is symbolic, and there are several tokens.

    Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019;
    nodes as torch's exporter writes them, the head a transpose of the embeddings.
    """
    if isinstance(past, str) and tokens > 1:
        raise ValueError(f"past: expected a number for {tokens} tokens, got `{past}`")
    decoder = _Decoder(tokens, past, hidden, heads)
    g = decoder.g
    ids = g.input("input_ids", (1, tokens), np.int64)
    caches = [decoder.cache(layer) for layer in range(layers)] if past else []
    words = g.normal("wte.weight", (vocab, hidden), 0.02)
    x = decoder.embeddings(ids, words)
    presents: list[str] = []
    for layer in range(layers):
        x, present = decoder.layer(x, caches[layer] if past else (), f"h.{layer}")
        presents += present
    x = decoder.layer_norm(x, "ln_f")
    head = g.node("Transpose", words, path="lm_head", perm=[1, 0])
    g.output("logits", g.node("MatMul", x, head, path="lm_head"), (1, tokens, vocab))
    after = f"{past} + {tokens}" if isinstance(past, str) else past + tokens
    for number, value in enumerate(presents):
        name = f"present_{'kv'[number % 2]}{number // 2}"
        g.output(name, value, (1, heads, after, hidden // heads))
    return g.model()


def inputs(
    seed: int = 0,
    *,
    tokens: int = 128,
    past: int = 0,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocab: int = 50257,
) -> dict[str, np.ndarray]:
    """Random tokens, and a normally distributed KV cache."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {"input_ids": rng.integers(0, vocab, (1, tokens))}
    shape = (1, heads, past, hidden // heads)
    for layer in range(layers if past else 0):
        for part in "kv":
            arrays[f"past_{part}{layer}"] = rng.standard_normal(shape, np.float32)
    return arrays


class _Decoder:
    """Builder of the decoder's parts in one graph."""

    def __init__(self, tokens: int, past: int | str, hidden: int, heads: int) -> None:
        self.g = Graph("gpt2", opset=18)
        self.tokens = tokens
        self.past = past
        self.hidden = hidden
        self.heads = heads
        self.mask = ""
        if tokens > 1 and not isinstance(past, str):
            self.mask = self._causal_mask(past)

    def _causal_mask(self, past: int) -> str:
        """Additive causal mask: -inf above the diagonal that starts after the cache, else 0."""
        g, shape = self.g, (self.tokens, past + self.tokens)
        whole = g.weight("mask", np.full(shape, -np.inf, np.float32))
        diagonal = g.constant(np.array(past + 1))
        return g.node("Trilu", whole, diagonal, path="mask", upper=1)

    def cache(self, layer: int) -> tuple[str, ...]:
        """KV cache inputs of a layer."""
        shape = (1, self.heads, self.past, self.hidden // self.heads)
        return tuple(self.g.input(f"past_{part}{layer}", shape) for part in "kv")

    def embeddings(self, ids: str, words: str) -> str:
        """Sum of word and position embeddings."""
        g = self.g
        table = g.normal("wpe.weight", (_POSITIONS, self.hidden), 0.02)
        if isinstance(self.past, str):
            positions = g.node("Shape", "past_k0", path="positions", start=2, end=3)
        else:
            known = np.arange(self.past, self.past + self.tokens)
            positions = g.weight("positions", known)
        word = g.node("Gather", words, ids, path="wte")
        position = g.node("Gather", table, positions, path="wpe")
        return g.node("Add", word, position, path="embeddings")

    def layer(
        self, x: str, cache: tuple[str, ...], path: str
    ) -> tuple[str, tuple[str, ...]]:
        """Pre-norm layer: attention and feed-forward network with residuals."""
        g, hidden = self.g, self.hidden
        y = self.layer_norm(x, f"{path}/ln_1")
        y, present = self.attention(y, cache, f"{path}/attn")
        x = g.node("Add", x, y, path=f"{path}/attn")
        y = self.layer_norm(x, f"{path}/ln_2")
        y = self.linear(y, f"{path}/mlp/c_fc", (hidden, 4 * hidden))
        y = self.gelu(y, f"{path}/mlp/act")
        y = self.linear(y, f"{path}/mlp/c_proj", (4 * hidden, hidden))
        return g.node("Add", x, y, path=f"{path}/mlp"), present

    def attention(
        self, x: str, cache: tuple[str, ...], path: str
    ) -> tuple[str, tuple[str, ...]]:
        """Causal attention softmax(q k^T / sqrt(d) + mask) v, and the updated k and v."""
        g, hidden = self.g, self.hidden
        y = self.linear(x, f"{path}/c_attn", (hidden, 3 * hidden))
        parts = g.split(y, [hidden] * 3, f"{path}/c_attn")
        q, *kv = (
            self.split_heads(part, f"{path}/{name}")
            for part, name in zip(parts, "qkv", strict=True)
        )
        if cache:
            kv = [
                g.node("Concat", old, new, path=f"{path}/{name}", axis=2)
                for old, new, name in zip(cache, kv, "kv", strict=True)
            ]
        k, v = kv
        transposed = g.node("Transpose", k, path=f"{path}/turned", perm=[0, 1, 3, 2])
        scores = g.node("MatMul", q, transposed, path=f"{path}/scores")
        scale = g.constant((hidden // self.heads) ** -0.5)
        scores = g.node("Mul", scores, scale, path=path)
        if self.mask:
            scores = g.node("Add", scores, self.mask, path=f"{path}/masked")
        weights = g.node("Softmax", scores, path=path, axis=-1)
        y = g.node("MatMul", weights, v, path=f"{path}/context")
        y = g.node("Transpose", y, path=path, perm=[0, 2, 1, 3])
        y = g.node("Reshape", y, g.constant([1, self.tokens, hidden]), path=path)
        return self.linear(y, f"{path}/c_proj", (hidden, hidden)), (k, v)

    def split_heads(self, x: str, path: str) -> str:
        """[1, tokens, hidden] to [1, heads, tokens, hidden / heads]."""
        g, sizes = self.g, [1, self.tokens, self.heads, self.hidden // self.heads]
        y = g.node("Reshape", x, g.constant(sizes), path=path)
        return g.node("Transpose", y, path=path, perm=[0, 2, 1, 3])

    def linear(self, x: str, path: str, sizes: tuple[int, int]) -> str:
        """MatMul with an [in, out] weight, then Add with the bias."""
        g = self.g
        weight = g.normal(f"{path}.weight", sizes, 0.02)
        bias = g.normal(f"{path}.bias", sizes[1:], 0.02)
        return g.node("Add", g.node("MatMul", x, weight, path=path), bias, path=path)

    def gelu(self, x: str, path: str) -> str:
        """GELU by tanh, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, in eight nodes."""
        g = self.g
        y = g.node("Pow", x, g.constant(3.0), path=path)
        y = g.node("Mul", y, g.constant(0.044715), path=f"{path}/cubic")
        y = g.node("Add", x, y, path=f"{path}/cubic")
        y = g.node("Mul", y, g.constant(math.sqrt(2 / math.pi)), path=f"{path}/scale")
        y = g.node("Tanh", y, path=path)
        y = g.node("Add", y, g.constant(1.0), path=path)
        half = g.node("Mul", x, g.constant(0.5), path=f"{path}/half")
        return g.node("Mul", half, y, path=path)

    def layer_norm(self, x: str, path: str) -> str:
        """Layer normalization."""
        g = self.g
        weight = g.normal(f"{path}.weight", (self.hidden,), 0.1, mean=1.0)
        bias = g.normal(f"{path}.bias", (self.hidden,), 0.1)
        attributes = {"axis": -1, "epsilon": _EPSILON}
        return g.node("LayerNormalization", x, weight, bias, path=path, **attributes)

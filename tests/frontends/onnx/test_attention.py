"""Standard Attention: heads, masks, KV cache, and fully masked queries."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError
from relax_mlir.runtime.executable import Executable
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples

_HIDDEN = -np.inf


@dataclass(frozen=True)
class Form:
    """Of an attention.

    Attributes:
        heads: of queries; shared: of keys.
        queries, keys: new ones; past: how many are remembered; None for no memory.
        is_flat: whether heads stand side by side.
        mask: ``bool``, ``float`` or nothing; mask_shape: of it.
        lengths: of the sequences that are no padding.
        depth: numbers of a head; width: of values.
        names: of sizes that are open: of queries and keys, and of what is remembered.
    """

    heads: int = 4
    shared: int = 4
    queries: int = 5
    keys: int = 5
    past: int | None = None
    is_flat: bool = False
    mask: str = ""
    mask_shape: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    opset: int = 24
    depth: int = 6
    width: int = 8
    dtype: Any = np.float32
    names: tuple[str, str] | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Its inputs in order, with batch 2."""
        rng = np.random.default_rng(0)

        def drawn(heads: int, count: int, size: int) -> np.ndarray:
            shape: tuple[int, ...] = (2, heads, count, size)
            if self.is_flat:
                shape = (2, count, heads * size)
            return rng.standard_normal(shape).astype(self.dtype)

        made = {
            "q": drawn(self.heads, self.queries, self.depth),
            "k": drawn(self.shared, self.keys, self.depth),
            "v": drawn(self.shared, self.keys, self.width),
        }
        if self.mask:
            seen = rng.random(self.mask_shape) < 0.6
            seen[..., :1, :] = False  # for the first query, or for all
            made["mask"] = seen
            if self.mask == "float":
                added = rng.standard_normal(self.mask_shape)
                made["mask"] = np.where(seen, added, _HIDDEN).astype(self.dtype)
        if self.past is not None:
            for name, size in (("pk", self.depth), ("pv", self.width)):
                shape = (2, self.shared, self.past, size)
                made[name] = rng.standard_normal(shape).astype(self.dtype)
        if self.lengths:
            made["lengths"] = np.array(self.lengths, np.int64)
        return made

    def model(self, outputs: int = 1, **attrs: Any) -> ModelProto:
        """A model of one node."""
        order = ("q", "k", "v", "mask", "pk", "pv", "lengths")
        arrays = self.arrays()
        inputs = [name if name in arrays else "" for name in order]
        while not inputs[-1]:
            inputs.pop()
        if self.is_flat:
            attrs |= {"q_num_heads": self.heads, "kv_num_heads": self.shared}
        made = [f"y{n}" for n in range(outputs)]
        node = helper.make_node("Attention", inputs, made, **attrs)
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(a.dtype), self._shape(name, a)
            )
            for name, a in arrays.items()
        ]
        results = [helper.make_tensor_value_info(n, 0, None) for n in made]
        for result in results:
            result.ClearField("type")
        graph = helper.make_graph([node], "g", values, results)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11)

    def _shape(self, name: str, array: np.ndarray) -> list[int | str]:
        shape: list[int | str] = list(array.shape)
        if self.names is not None and name in ("q", "k", "v"):
            shape[1 if self.is_flat else 2] = self.names[0]
        if self.names is not None and name in ("pk", "pv"):
            shape[2] = self.names[1]
        return shape


def wanted(model: ModelProto, form: Form) -> list[np.ndarray]:
    """Results of the standard's reference implementation."""
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, form.arrays())]


def check(form: Form, outputs: int = 1, **attrs: Any) -> IRModule:
    model = form.model(outputs, **attrs)
    module = import_onnx(model)
    results = reference.run(module, *form.arrays().values())
    compiled = compile(module, threads=1, cache=False)(*form.arrays().values())
    tolerance = {np.float16: 4e-3, ml_dtypes.bfloat16: 4e-2}.get(form.dtype, 1e-5)

    for made in (results, compiled):
        for mine, theirs in zip(made, wanted(model, form), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(
                mine.astype("f4"), theirs.astype("f4"), rtol=0, atol=tolerance
            )
    return module


def programs(module: IRModule) -> list[str]:
    """What products, and what lies between them, become."""
    lowered = lower(module, to="loops")
    rules = [
        f.attributes["tir.rule"].value for f in lowered.func_ops() if is_program(f)
    ]
    return [rule for rule in rules if rule in ("Attention", "Gemm")]


def is_program(function: Any) -> bool:
    return "tir.rule" in function.attributes


_SHARED: dict[str, Any] = {"heads": 4, "shared": 2}


@pytest.mark.parametrize(
    ("form", "attrs"),
    [
        (Form(), {}),
        (Form(), {"scale": 0.3, "softcap": 1.5}),
        (Form(), {"scale": 0.0}),
        (Form(keys=7), {"is_causal": 1}),
        (Form(is_flat=True), {"is_causal": 1}),
        (Form(**_SHARED), {"is_causal": 1}),
        (Form(is_flat=True, **_SHARED), {"is_causal": 1, "softcap": 2.0}),
        (Form(heads=6, shared=1, keys=7), {}),
        (Form(queries=1, keys=3, **_SHARED), {"is_causal": 1}),
        (Form(queries=1, keys=3, is_flat=True, heads=3, shared=1), {"is_causal": 1}),
        (Form(mask="bool", mask_shape=(5, 5)), {}),
        (Form(mask="bool", mask_shape=(2, 4, 5, 5)), {"is_causal": 1}),
        (Form(mask="bool", mask_shape=(2, 1, 1, 5), **_SHARED), {}),
        (Form(mask="float", mask_shape=(2, 1, 5, 5)), {}),
        (Form(mask="float", mask_shape=(4, 5, 5), **_SHARED), {"is_causal": 1}),
        (Form(mask="float", mask_shape=(5, 3)), {}),  # shorter than the keys
        (Form(mask="bool", mask_shape=(5, 5), opset=23), {}),
        (Form(lengths=(3, 5)), {}),
        (Form(queries=3, lengths=(2, 5)), {"is_causal": 1}),
        (Form(lengths=(4, 1), mask="bool", mask_shape=(5, 5)), {"is_causal": 1}),
        (Form(dtype=np.float16), {"is_causal": 1}),
        (Form(dtype=np.float16, mask="float", mask_shape=(5, 5), **_SHARED), {}),
        (Form(dtype=ml_dtypes.bfloat16), {}),
        (Form(dtype=np.float64), {"is_causal": 1}),
        (Form(dtype=np.float16), {"softmax_precision": 1}),
    ],
)
def test_attention_matches_the_standard(form: Form, attrs: dict[str, Any]) -> None:
    check(form, **attrs)


@pytest.mark.parametrize(
    "form",
    [
        Form(past=3),
        Form(queries=1, keys=1, past=7),
        Form(queries=2, keys=5, past=3, is_flat=True),
        Form(past=3, **_SHARED),
        Form(queries=1, keys=1, past=7, **_SHARED),
        Form(queries=1, keys=1, past=7, is_flat=True, **_SHARED),
        Form(queries=1, keys=2, past=7, **_SHARED),
        Form(past=0),
        Form(past=3, mask="float", mask_shape=(5, 8)),
        Form(past=3, names=("s", "p")),
        Form(past=3, names=("s", "p"), is_flat=True, **_SHARED),
    ],
)
def test_attention_continues_from_the_kv_cache(form: Form) -> None:
    check(form, outputs=3, is_causal=1)


@examples(12)
@given(st.data())
def test_many_variants(data: st.DataObject) -> None:
    def one(*choices: Any) -> Any:
        return data.draw(st.sampled_from(choices))

    shared = one(1, 2, 3)
    queries, past, is_padded = one(1, 1, 2, 5), one(None, 0, 3), one(False, True)
    keys = one(queries, 4)
    total = keys + (past or 0)
    mask = one("", "bool", "float")
    rows = one(1, queries)
    form = Form(
        heads=shared * one(1, 2),
        shared=shared,
        queries=queries,
        keys=keys,
        past=past,
        is_flat=one(False, True),
        mask=mask,
        mask_shape=one((rows, total), (2, 1, rows, total)),
        lengths=(1, keys) if is_padded and past is None else (),
    )
    cap = one(0.0, 1.5)

    check(form, outputs=1 if past is None else 3, is_causal=one(0, 1), softcap=cap)


def test_attention_is_one_kernel() -> None:
    assert programs(check(Form(queries=16, keys=16), is_causal=1)) == ["Attention"]
    shared = Form(queries=16, keys=16, is_flat=True, **_SHARED)
    module = check(shared, is_causal=1)
    assert programs(module) == ["Attention"]
    written = str(lower(module, to="tir").func_op("main"))
    assert written.count("relax.call_tir") == 1
    half = Form(queries=16, keys=16, dtype=np.float16, mask="bool", mask_shape=(1, 16))
    assert programs(check(half)) == ["Attention"]


@pytest.mark.parametrize(
    ("form", "outputs", "attrs"),
    [
        (Form(), 4, {}),
        (Form(), 1, {"softmax_precision": 11}),
        (Form(mask="float", mask_shape=(5, 3), names=("s", "p")), 1, {}),
    ],
)
def test_unsupported_attributes_use_the_function_body(
    form: Form, outputs: int, attrs: dict[str, Any]
) -> None:
    """The scores, more bits than operands have, and masks whose length is not known."""
    model = form.model(outputs, **attrs)
    made = compile(import_onnx(model), threads=1, cache=False)
    assert isinstance(made, Executable)

    results = made(*form.arrays().values())

    for mine, theirs in zip(results, wanted(model, form), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        """g (float[2, h, 3, 6] q, float[2, h, 5, 6] k, float[2, h, 5, 8] v)
           => (float[2, h, 3, 8] y) { y = Attention (q, k, v) }""",
        """g (float[2, 3, 24] q, float[2, 5, 24] k, float[2, 5, w] v)
           => (float[2, 3, z] y)
           { y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v) }""",
    ],
)
def test_symbolic_head_sizes_use_the_function_body(text: str) -> None:
    model = parse(text, opset=24, ir=11)
    is_flat = "num_heads" in text
    arrays = Form(queries=3, is_flat=is_flat).arrays()

    (y,) = reference.run(import_onnx(model), *arrays.values())

    (expected,) = wanted(model, Form(queries=3, is_flat=is_flat))
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form(mask="bool", mask_shape=(5, 7)), "input 3: expected up to 5 keys, got 7"),
        (Form(dtype=np.int32), "input 0: expected floats, got int32"),
        (Form(heads=3, shared=2), "multiples of 2, got 3"),
        (Form(is_flat=True, heads=4, shared=4), "`q_num_heads` is missing"),
    ],
)
def test_mismatched_operands_are_rejected(form: Form, message: str) -> None:
    model = form.model()
    if form.is_flat:
        del model.graph.node[0].attribute[:]
    with pytest.raises(ModelError, match=message):
        import_onnx(model)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("q", [5], r"input 0: expected rank 3 or 4, got \[5\]"),
        ("k", [2, 5, 24], "input 1: expected rank 4"),
        ("mask", [1, 1, 1, 5, 5], "input 3: expected rank 1 or 2 or 3 or 4"),
        ("pv", [2, 3, 8], "input 5: expected rank 4"),
    ],
)
def test_wrong_ranks_are_rejected(name: str, shape: list[int], message: str) -> None:
    model = Form(past=3, mask="bool", mask_shape=(5, 8)).model()
    (given,) = [i for i in model.graph.input if i.name == name]
    element = given.type.tensor_type.elem_type
    given.CopyFrom(helper.make_tensor_value_info(name, element, shape))
    with pytest.raises(ModelError, match=message):
        import_onnx(model)


def test_incomplete_kv_cache_is_rejected() -> None:
    model = Form(past=3).model()
    del model.graph.node[0].input[5]
    with pytest.raises(ModelError, match="both or neither"):
        import_onnx(model)

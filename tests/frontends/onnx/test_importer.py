"""Imported models agree with onnxruntime, and have locations."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from mlir.dialects import func
from onnx import TensorProto, helper, numpy_helper

from models import bert, fashion_mlp, zoo
from relax_mlir import IRModule, lower
from relax_mlir.compiler import reference
from relax_mlir.dialects import tensors
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import build, check_onnx, import_onnx
from relax_mlir.ir.size_constraints import constraints_of
from tests.frontends.onnx.differential import assert_same_numbers, parse, random
from tests.models.zoo_models import zoo_models

# Imported, and run by numpy and onnxruntime, in less than 0.25 s each.
QUICK = {
    "fashion_mlp",
    "mlp_b1",
    "bert_tiny",
    "bert_tiny_decomposed",
    "gpt2_tiny_prefill",
    "gpt2_tiny_decode",
    "lstm",
    "gru",
}


def operations(module: IRModule) -> list[str]:
    """The operations of ``main``, without constants and the return."""
    names = [op.operation.name for op in module.func_op("main").entry_block.operations]
    return [n.removeprefix("relax.") for n in names[:-1] if n != "relax.constant"]


def result_shapes(module: IRModule) -> list[tuple[str, ...]]:
    types = module.func_op("main").type.results
    return [tuple(map(str, tensors.shape_of(type_))) for type_ in types]


# `tests/models` compiles these and compares them too.
_COMPARED = {"bert_base", "gpt2_decode", "resnet50"}


@pytest.mark.parametrize("entry", zoo_models(quick=QUICK, like_others=_COMPARED))
def test_model_computes_what_onnxruntime_computes(entry: zoo.Entry) -> None:
    assert_same_numbers(entry.build(), entry.inputs(seed=0), entry.tolerance)


def test_a_path_bytes_and_a_message_give_the_same_module() -> None:
    path = fashion_mlp.path()
    model = onnx.load(path)
    before = model.SerializeToString(deterministic=True)

    modules = [import_onnx(s) for s in (path, str(path), path.read_bytes(), model)]

    assert len({str(module) for module in modules}) == 1
    assert model.SerializeToString(deterministic=True) == before


def test_imported_perceptron_ir() -> None:
    module = import_onnx(fashion_mlp.path())

    main = module.func_op("main")

    assert operations(module) == [
        *("permute_dims", "matmul", "add", "nn_relu"),
        *("permute_dims", "matmul", "add"),
    ]
    assert [a.value for a in main.attributes["relax.input_names"]] == ["x"]
    assert [a.value for a in main.attributes["relax.output_names"]] == ["logits"]
    assert result_shapes(module) == [("n", "10")]
    assert set(module.constants) == {"w0", "b0", "w1"}  # b1 has 10 elements: inline


def test_locations_name_the_node_and_its_operator() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    model.graph.node[0].name = "layer1/relu"
    module = import_onnx(model)

    (relu, _) = list(module.func_op("main").entry_block.operations)

    assert str(relu.location) == 'loc("layer1/relu"("Relu"))'


# Shapes.


def test_unnamed_sizes_get_symbols() -> None:
    model = parse("g (float[n, 3] x, float[2] z) => (float[n, 3] y) { y = Relu (x) }")
    first, second = (v.type.tensor_type.shape.dim for v in model.graph.input)
    first[0].dim_param = "batch size"
    first[1].ClearField("dim_value")
    second[0].dim_value = 0

    module = import_onnx(model)

    inputs = module.func_op("main").type.inputs
    shapes = [tuple(map(str, tensors.shape_of(type_))) for type_ in inputs]
    assert shapes == [("batch_size", "x_1"), ("z_0",)]


def test_size_can_be_an_expression_of_others() -> None:
    model = parse(
        "g (float[past] a, float[new] b, float[k] c) => (float[k] y)"
        "{ t = Concat <axis = 0> (a, b) y = Add (t, c) }"
    )
    model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "past + new"

    assert result_shapes(import_onnx(model)) == [("new + past",)]


def test_an_expression_over_unknown_names_is_one_symbol() -> None:
    model = parse("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "2*k"

    assert result_shapes(import_onnx(model)) == [("_2_k",)]


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ({"x": [4, "n"]}, ("4", "n")),
        ({"x": ["batch", "len"]}, ("batch", "len")),
        ({"x": ["b", 3]}, ("b", "3")),
        ({}, ("b", "n")),
    ],
)
def test_shape_overrides_fix_and_rename_sizes_everywhere(
    shapes: dict[str, Sequence[int | str]], result: tuple[str, ...]
) -> None:
    model = parse("g (float[b, n] x, float[b, n] z) => (float[b, n] y) {y = Add(x, z)}")

    module = import_onnx(model, shapes=shapes)

    assert result_shapes(module) == [result]


def test_shape_overrides_can_be_multiples() -> None:
    """Two parts of n // 2 and three of n // 3 are as long for multiples of 6."""
    model = parse(
        "g (float[1, 1, n] x) => (float[1, 1, m] y)"
        "{ p = MaxPool <kernel_shape = [2], strides = [2]> (x)"
        "  q = MaxPool <kernel_shape = [3], strides = [3]> (x)"
        "  s = Concat <axis = 2> (p, p) t = Concat <axis = 2> (q, q, q)"
        "  y = Add (s, t) }"
    )

    module = import_onnx(model)
    told = import_onnx(model, shapes={"x": [1, 1, "6*h"]})

    assert "3*floordiv(n, 3)" in {str(c.rhs) for c in constraints_of(module)}
    assert result_shapes(told) == [("1", "1", "6*h")]
    assert all(c.relation == ">=" for c in constraints_of(told))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"w": [1]}, r"shapes: there is no input `w`: expected one of `x`, `z`"),
        ({"x": [1]}, r"shapes: `x`: expected 2 sizes, got 1"),
        ({"x": [1, -2]}, r"shapes: `x`: bad size: expected 0 or more, got -2"),
        ({"x": "ab"}, r"shapes: `x`: expected a list of sizes, got 'ab'"),
        ({"x": ["(", 1]}, r"shapes: `x`: cannot read size `\(`"),
        ({"x": [1, 2], "z": [3, 2]}, r"shapes: `b` cannot be both `1` and `3`"),
    ],
)
def test_mismatched_shape_overrides_are_errors(
    shapes: dict[str, Sequence[int | str]], message: str
) -> None:
    model = parse("g (float[b, n] x, float[b, n] z) => (float[b, n] y) {y = Add(x, z)}")

    with pytest.raises(ModelError, match=message):
        import_onnx(model, shapes=shapes)


def test_an_input_without_a_shape_needs_one() -> None:
    model = parse("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")

    with pytest.raises(ModelError, match="input `x` has no shape"):
        import_onnx(model)
    assert result_shapes(import_onnx(model, shapes={"x": [2, "n"]})) == [("2", "n")]


def test_computed_shapes_leave_no_operations() -> None:
    model = bert.build(1, 32, 4, 100)

    module = import_onnx(model)

    assert not {"shape_to_tensor", "concat"} & set(operations(module))


def test_sizes_become_tensors_where_an_operation_reads_them() -> None:
    model = parse(
        "g (float[n, 3] x) => (int64[2] s, int64 k, int32[2] t)"
        "{ s = Shape (x) k = Size (x) t = Cast <to = 6> (s) }"
    )

    module = assert_same_numbers(model, {"x": random(4, 3)})

    assert operations(module) == [
        *("shape_to_tensor", "shape_to_tensor", "reshape", "shape_to_tensor", "astype")
    ]


# Constants.


def test_size_can_go_through_a_float() -> None:
    """As the side of a square of 16 places."""
    model = parse("""g (float[n, 16] x) => (float[n, 4, a] y) {
        c = Constant <value = float {16.0}> () half = Constant <value = float {0.5}> ()
        root = Pow (c, half) side = Cast <to = 7> (root)
        one = Constant <value = int64[1] {1}> ()
        r = Reshape (side, one) k = Neg (one) z = Constant <value = int64[1] {0}> ()
        s = Concat <axis = 0> (z, r, k) y = Reshape (x, s) }""")
    report = check_onnx(model)

    assert not report.later
    assert result_shapes(import_onnx(model)) == [("n", "4", "4")]


@pytest.mark.parametrize(
    "name",
    ["float32", "float64", "float16", "bfloat16", "bool"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
)
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (4, 5)])
def test_constants_of_every_type_keep_their_value(
    name: str, raw: bool, shape: tuple[int, ...]
) -> None:
    number = {"float32": 1, "float64": 11, "float16": 10, "bfloat16": 16, "bool": 9}
    number |= {"int8": 3, "int16": 5, "int32": 6, "int64": 7}
    number |= {"uint8": 2, "uint16": 4, "uint32": 12, "uint64": 13}
    type_ = helper.tensor_dtype_to_np_dtype(number[name])
    values = (np.arange(20)[: int(np.prod(shape))] % 2).astype(type_).reshape(shape)
    if name == "uint64":
        values = values * type_.type(2**64 - 1)
    tensor = _tensor("y", number[name], values, raw)
    graph = helper.make_graph([], "g", [], [_value_info("y", number[name])], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

    (found,) = reference.run(import_onnx(model))

    assert found.dtype == type_
    np.testing.assert_array_equal(found, values)


def _tensor(name: str, number: int, values: np.ndarray, raw: bool) -> TensorProto:
    if raw:
        return numpy_helper.from_array(values, name)
    if values.dtype.itemsize == 2 and values.dtype.kind not in "iu":
        items = values.view(np.uint16).reshape(-1).tolist()  # as bits
        tensor = TensorProto(name=name, data_type=number, dims=values.shape)
        tensor.int32_data.extend(items)
        return tensor
    return helper.make_tensor(name, number, values.shape, values.reshape(-1).tolist())


def _value_info(name: str, number: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, number, None)


def test_constant_names_need_no_escapes() -> None:
    model = parse("g (float[4, 5] x) => (float[4, 5] y) { y = Add (x, w) }")
    tensor = numpy_helper.from_array(random(4, 5), 'a"b\\c\né')
    model.graph.initializer.append(tensor)
    model.graph.node[0].input[1] = tensor.name

    module = import_onnx(model)

    assert IRModule.parse(str(module)).verify() is None
    assert list(module.constants) == ["a_b_c__"]
    np.testing.assert_array_equal(module.constants["a_b_c__"], random(4, 5))


# Inputs and outputs.


def test_outputs_can_be_inputs_or_constants_and_repeat() -> None:
    model = parse(
        "g (float[2] x, float[3] unused) => (float[2] x, float[2] c, float[2] y)"
        "<float[2] c = {1, 2}> { y = Identity (x) }"
    )
    module = import_onnx(model)

    outputs = reference.run(module, random(2), random(3))

    assert operations(module) == []
    np.testing.assert_array_equal(outputs, [random(2), [1, 2], random(2)])


def test_old_models_list_initializers_as_inputs() -> None:
    model = parse(
        "g (float[2, 3] x, float[3] w) => (float[2, 3] y)"
        "<float[3] w = {1, 2, 3}> { y = Mul (x, w) }",
        opset=9,
        ir=3,
    )

    assert_same_numbers(model, {"x": random(2, 3)})


def test_values_fix_inputs_to_constants() -> None:
    model = parse(
        "g (float[n, k] x, int64[2] shape) => (float[a, b] y){ y = Reshape (x, shape) }"
    )
    shape = np.array([3, -1])

    module = import_onnx(model, values={"shape": shape}, shapes={"x": [2, 6]})

    assert result_shapes(module) == [("3", "4")]
    assert len(module.func_op("main").type.inputs) == 1
    with pytest.raises(ModelError, match=r"values: `shape`: expected .* int64"):
        import_onnx(model, values={"shape": shape.astype(np.int32)})
    with pytest.raises(ModelError, match="there is no input `y`"):
        import_onnx(model, values={"y": shape})


def test_dead_nodes_are_not_imported() -> None:
    model = parse(
        "g (float[2] x) => (float[2] y) { z = local.Unknown (x) y = Relu (x) }"
    )

    assert operations(import_onnx(model)) == ["nn_relu"]


def test_nodes_are_sorted_topologically() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu (t) t = Neg (x) }")

    assert operations(import_onnx(model)) == ["negative", "nn_relu"]


def test_unused_optional_outputs_can_be_named() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y, mask = Dropout (x) }")

    assert operations(import_onnx(model)) == []


# Old opsets, functions, bodies.


def test_opset_with_rules_is_not_converted() -> None:
    model = parse(
        "g (float[2, 3, 4] x) => (float[a, b] y)"
        "{ t = Unsqueeze <axes = [0]> (x) s = Softmax <axis = 2> (t)"
        "  u = Squeeze <axes = [0]> (s) y = Flatten (u) }",
        opset=11,
    )

    module = assert_same_numbers(model, {"x": random(2, 3, 4)})

    assert operations(module) == [
        *("reshape", "reshape", "nn_softmax", "reshape", "reshape", "reshape")
    ]


def test_older_opset_is_converted_without_its_weights() -> None:
    """Add broadcasts by attributes in opset 6, for which there is no rule."""
    model = parse(
        "g (float[2, 300] x) => (float[2, 300] y)"
        "{ y = Add <broadcast = 1, axis = 1> (x, w) }",
        opset=6,
    )
    weight = random(300)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))

    module = import_onnx(model)

    (found,) = reference.run(module, random(2, 300))
    np.testing.assert_array_equal(found, random(2, 300) + weight)
    assert module.constants["w"].tobytes() == weight.tobytes()
    assert check_onnx(model).opsets == {"": 6, "local": 1}


def test_failed_conversion_names_opsets_and_gives_a_hint() -> None:
    model = parse(
        "g (float[2, 3] x, float[3] w) => (float[2, 3] y)"
        " { y = Add <broadcast = 1, axis = 1> (x, w) }",
        opset=6,
        ir=3,
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")

    with pytest.raises(
        ModelError,
        match=r"model: .* opset 6 to 7.*'shape' .* missing. Hint: .* opset 7",
    ):
        import_onnx(model)


def test_functions_are_expanded_with_their_attributes() -> None:
    model = parse(
        """g (float[2, 3] x) => (float[2, 3] y)
        { t = local.scaled <factor = 3.0> (x) y = local.scaled (t) }
        <domain: "local", opset_import: ["" : 17]>
        scaled <factor: float = 2.0> (u, offset) => (v)
        { c = Constant <value_float : float = @factor> () v = Mul (u, c) }"""
    )

    module = assert_same_numbers(model, {"x": random(2, 3)})

    assert operations(module) == ["multiply", "multiply"]
    locations = [str(o.location) for o in module.func_op("main").entry_block.operations]
    assert any('"t/v"' in location for location in locations)


def test_operators_without_a_rule_use_the_function_body() -> None:
    """MeanVarianceNormalization is a function, its axes a default."""
    model = parse(
        "g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y)"
        "{ y = MeanVarianceNormalization (x) }"
    )

    assert_same_numbers(model, {"x": random(2, 3, 4, 4)})


def test_function_cannot_call_itself() -> None:
    model = parse(
        """g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        f (u) => (v) { v = local.f (u) }"""
    )

    with pytest.raises(ModelError, match="function calls are nested deeper than"):
        import_onnx(model)


def test_function_expansion_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each doubles the next: 2^40 nodes in forty lines."""
    monkeypatch.setattr(build, "_MAX_EXPANDED", 1000)
    header = '<domain: "local", opset_import: ["" : 17, "local" : 1]>'
    chain = "".join(
        f"{header} f{i} (u) => (v) {{ t = local.f{i + 1} (u) v = local.f{i + 1} (t) }}"
        for i in range(40)
    )
    model = parse(
        f"g (float[2] x) => (float[2] y) {{ y = local.f0 (x) }} {chain}"
        f"{header} f40 (u) => (v) {{ v = Relu (u) }}"
    )

    with pytest.raises(ModelError, match="more than 1000 nodes"):
        import_onnx(model)


@pytest.mark.parametrize(("taken", "operation"), [(1, "nn_relu"), (0, "negative")])
def test_constant_branch_is_inlined(taken: int, operation: str) -> None:
    model = parse(
        """g (float[2] x, bool c) => (float[2] y) { y = If (c) <
            then_branch = t () => (float[2] p) { p = Relu (x) },
            else_branch = e () => (float[2] q) { q = Neg (x) }> }"""
    )

    module = import_onnx(model, values={"c": np.array(bool(taken))})

    assert operations(module) == [operation]


def test_the_mask_of_dropout_is_all_true() -> None:
    model = parse("g (float[2, 3] x) => (bool[2, 3] m) { y, m = Dropout (x) }")

    assert_same_numbers(model, {"x": random(2, 3)})


@pytest.mark.slow
def test_biased_convolution_of_symbolic_sizes_is_one_contraction() -> None:
    text = """
        g (float[1, 2, h, w] x, float[3, 2, 3, 3] k, float[3] b) => (float[1, 3, p, q] y) {
            c = Conv (x, k, b) y = Relu (c)
        }
    """

    module = lower(import_onnx(parse(text)), to="loops")

    rules = [f.attributes["tir.rule"].value for f in module.func_ops() if _has_rule(f)]
    assert rules == ["Gemm"]


def _has_rule(function: func.FuncOp) -> bool:
    return "tir.rule" in function.attributes

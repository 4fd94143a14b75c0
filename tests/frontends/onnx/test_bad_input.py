"""Invalid files, bytes and messages raise only our errors, and never abort the process."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from relax_mlir import RelaxError
from relax_mlir.errors import ModelError, UnsupportedError
from relax_mlir.frontends.onnx import check_onnx, import_onnx
from tests.frontends.onnx import mutations

Damage = Callable[[onnx.ModelProto], object]

GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 4] x) => (float[2, 4] y)
<float[4] w = {1, 2, 3, 4}>
{
   [first] s = Add (x, w)
   [second] t = Relu (s)
   [third] y = Transpose <perm = [0, 1]> (t)
}
"""


def good() -> onnx.ModelProto:
    return parser.parse_model(GOOD)


def _drop_elements(model: onnx.ModelProto) -> None:
    del model.graph.initializer[0].float_data[2:]


def external(model: onnx.ModelProto, **entries: object) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def _set(target: str, value: object) -> Damage:
    """Set a field below the graph: ``node[0].op_type``."""
    *steps, (field, _) = re.findall(r"(\w+)(?:\[(\d+)\])?", target)

    def damage(model: onnx.ModelProto) -> None:
        found: Any = model.graph
        for name, index in steps:
            found = getattr(found, name)
            found = found[int(index)] if index else found
        if isinstance(value, list):
            del getattr(found, field)[:]
            getattr(found, field).extend(value)
        else:
            setattr(found, field, value)

    return damage


BAD: dict[str, tuple[Damage, str]] = {
    "no graph": (lambda m: m.ClearField("graph"), "it has no graph"),
    "no IR version": (lambda m: m.ClearField("ir_version"), "it has no IR version"),
    "new IR version": (
        lambda m: setattr(m, "ir_version", 99),
        "IR version 99 is too new",
    ),
    "no opset": (lambda m: m.ClearField("opset_import"), "it imports no opset"),
    "new opset": (
        lambda m: setattr(m.opset_import[0], "version", 999),
        rf"opset 999 is too new: the newest known is {onnx.defs.onnx_opset_version()}",
    ),
    "negative opset": (
        lambda m: setattr(m.opset_import[0], "version", -1),
        "bad opset of `ai.onnx`: expected 1 or more, got -1",
    ),
    "opset twice": (
        lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 3)),
        "opset of `ai.onnx` is imported twice",
    ),
    "opset of a domain": (
        lambda m: m.graph.node[0].MergeFrom(onnx.NodeProto(domain="acme")),
        r"node `first` \(acme::Add\): the model imports no opset of domain `acme`",
    ),
    "no outputs": (_set("output", []), "the graph has no outputs"),
    "output of nobody": (
        _set("output[0].name", "z"),
        "no node defines the output `z`",
    ),
    "output twice": (
        lambda m: m.graph.output.append(m.graph.output[0]),
        "two outputs are called `y`",
    ),
    "input twice": (
        lambda m: m.graph.input.append(m.graph.input[0]),
        "two inputs are called `x`",
    ),
    "input without a name": (_set("input[0].name", ""), "an input has no name"),
    "initializer twice": (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        "two initializers are called `w`",
    ),
    "value made twice": (
        _set("node[1].output", ["s"]),
        r"node `second` \(Relu\): defines `s`, as node `first` \(Add\) does",
    ),
    "value made and given": (
        _set("node[1].output", ["x"]),
        r"node `second` \(Relu\): defines `x`, which is an input or initializer",
    ),
    "value of nobody": (
        _set("node[1].input", ["S1"]),
        r"node `second` \(Relu\): reads `S1`, which is not defined",
    ),
    "cycle": (
        _set("node[0].input", ["x", "y"]),
        "nodes depend on each other in a cycle: `first`, `third`, `second`",
    ),
    "cycle of one": (
        _set("node[1].input", ["t"]),
        "nodes depend on each other in a cycle: `second`",
    ),
    "too few inputs": (
        _set("node[0].input", ["x"]),
        r"node `first` \(Add\): wrong number of inputs: expected 2, got 1",
    ),
    "left-out input": (
        _set("node[1].input", [""]),
        r"node `second` \(Relu\): input 0 is missing",
    ),
    "no input": (
        lambda m: m.graph.node[1].CopyFrom(
            helper.make_node("Identity", [], ["t"], name="second")
        ),
        r"node `second` \(Identity\): wrong number of inputs: expected 1, got 0",
    ),
    "unknown attribute": (
        _set("node[2].attribute[0].name", "prem"),
        "opset 17 has no attribute `prem`. Did you mean `perm`",
    ),
    "attribute of another type": (
        lambda m: (
            m.graph.node[2].attribute[0].CopyFrom(helper.make_attribute("perm", "text"))
        ),
        "attribute `perm` has the wrong type: expected INTS, got STRING",
    ),
    "attribute twice": (
        lambda m: m.graph.node[2].attribute.append(m.graph.node[2].attribute[0]),
        r"node `third` \(Transpose\): attribute `perm` occurs twice",
    ),
    "attribute that does not fit": (
        _set("node[2].attribute[0].ints", [0, 0]),
        r"node `third` \(Transpose\): bad permutation",
    ),
    "shapes that do not fit": (
        _set("input[0].type.tensor_type.shape.dim[1].dim_value", 3),
        r"node `first` \(Add\): cannot broadcast \[2, 3\] and \[4\]",
    ),
    "types that do not fit": (
        _set("input[0].type.tensor_type.elem_type", TensorProto.INT64),
        r"node `first` \(Add\): operands must have one element type",
    ),
    "unknown element type": (
        _set("input[0].type.tensor_type.elem_type", 77),
        "input `x`: unknown element type 77",
    ),
    "input without a type": (
        lambda m: m.graph.input[0].ClearField("type"),
        "input `x` has no type",
    ),
    "huge input": (
        _set("input[0].type.tensor_type.shape.dim[0].dim_value", 2**50),
        "input `x` is too large",
    ),
    "tensor of an unknown type": (
        _set("initializer[0].data_type", 77),
        "initializer `w`: unknown element type 77",
    ),
    "tensor with few elements": (
        _drop_elements,
        "initializer `w`: data do not fit the shape: expected 4 elements, got 2",
    ),
    "tensor with few bytes": (
        _set("initializer[0].raw_data", b"1234567"),
        "initializer `w`: data do not fit the shape: expected 16 bytes, got 7",
    ),
    "tensor that claims more": (
        _set("initializer[0].dims", [2**35]),
        "initializer `w`: data do not fit the shape: expected 34359738368 elements",
    ),
    "tensor that claims too much": (
        _set("initializer[0].dims", [2**31, 2**31]),
        "initializer `w`: too large: expected up to 1099511627776 elements",
    ),
    "tensor of a negative size": (
        _set("initializer[0].dims", [-4]),
        "initializer `w`: sizes are negative",
    ),
    "external data without a file": (
        lambda m: external(m),
        "initializer `w`: external data file ``",
    ),
    "sequences": (
        lambda m: m.graph.input[0].type.sequence_type.elem_type.CopyFrom(
            onnx.TypeProto()
        ),
        "expected a tensor of numbers, got `x`, a sequence, text or nothing",
    ),
    "strings": (
        _set("input[0].type.tensor_type.elem_type", TensorProto.STRING),
        "expected a tensor of numbers, got `x`, a sequence, text or nothing",
    ),
}

UNSUPPORTED: dict[str, tuple[Damage, str]] = {
    "sparse initializers": (
        lambda m: m.graph.sparse_initializer.add(),
        "sparse initializers are not supported",
    ),
    "tensors in segments": (
        lambda m: m.graph.initializer[0].segment.CopyFrom(
            TensorProto.Segment(begin=0, end=1)
        ),
        "initializer `w`: tensors in segments are not supported",
    ),
}


def as_path(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("way", ["path", "bytes", "message"])
@pytest.mark.parametrize("what", [*BAD, *UNSUPPORTED])
def test_bad_models_are_rejected_from_every_source(
    what: str, way: str, tmp_path: Path
) -> None:
    damage, message = {**BAD, **UNSUPPORTED}[what]
    model = good()
    damage(model)
    source: Path | bytes | onnx.ModelProto = model
    if way == "path":
        source = as_path(model, tmp_path)
    elif way == "bytes":
        source = model.SerializeToString()
    where = "model.onnx" if way == "path" else "model"
    kind = UnsupportedError if what in UNSUPPORTED else ModelError

    with pytest.raises(kind, match=message) as caught:
        import_onnx(source)

    assert str(caught.value).startswith(f"{where}: ")


# Nesting.


def wire(field: int, data: bytes) -> bytes:
    """A field of a message as protobuf writes it."""
    length, size = len(data), bytearray()
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([field << 3 | 2, *size, length]) + data


def nested_bytes(depth: int) -> bytes:
    """A model of Ifs inside Ifs, which protobuf itself would not write."""
    leaf = onnx.GraphProto()
    leaf.node.add(op_type="Identity", input=["x"], output=["y"])
    leaf.output.add(name="y")
    data = leaf.SerializeToString()
    kind = AttributeProto(type=AttributeProto.GRAPH, name="then_branch")
    node = onnx.NodeProto(op_type="If", input=["c"], output=["y"])
    for _ in range(depth):
        attribute = wire(5, kind.SerializeToString() + wire(6, data))
        data = wire(1, node.SerializeToString() + attribute)
        data += onnx.GraphProto(output=leaf.output).SerializeToString()
    model = onnx.ModelProto(ir_version=8)
    model.opset_import.append(helper.make_opsetid("", 17))
    return model.SerializeToString() + wire(7, data)


def test_bytes_nested_deeper_than_protobuf_allows_are_rejected() -> None:
    for depth in (40, 1_000):
        with pytest.raises(ModelError, match="not an ONNX model"):
            import_onnx(nested_bytes(depth))


def test_nested_bodies_are_checked_like_the_graph() -> None:
    with pytest.raises(ModelError, match=r"reads `[cx]`, which is not defined"):
        import_onnx(nested_bytes(30))


def test_deeply_nested_message_is_rejected() -> None:
    model = good()
    graph = model.graph
    for _ in range(70):
        node = graph.node.add(op_type="If", input=["c"])
        graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g

    with pytest.raises(ModelError, match="graphs are nested deeper than 30 levels"):
        import_onnx(model)


# Files.


def test_path_must_be_a_model_file(tmp_path: Path) -> None:
    pointer = tmp_path / "pointer.onnx"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(ModelError, match=r"none\.onnx: there is no such file"):
        import_onnx(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="not a regular file"):
        import_onnx(tmp_path)
    with pytest.raises(ModelError, match="not a regular file"):
        import_onnx(pipe)
    with pytest.raises(ModelError, match=r"pointer\.onnx: it is a Git LFS pointer"):
        import_onnx(pointer)
    with pytest.raises(ModelError, match="cannot be read"):
        import_onnx("a\0b")
    with pytest.raises(TypeError, match="expected a string, a path, bytes or a ModelP"):
        import_onnx(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("data", [b"", b"\0", b"hello world" * 9, b"\x08\x08", b"{}"])
def test_bytes_must_be_a_model(data: bytes) -> None:
    with pytest.raises(ModelError, match="not an ONNX model"):
        import_onnx(data)


def test_every_truncation_is_rejected() -> None:
    data = good().SerializeToString()

    for length in range(len(data)):
        with pytest.raises(ModelError):
            import_onnx(data[:length])


# What is not covered is told at once.


def test_all_operators_without_a_rule_are_named() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
        g (float[2] x) => (float[2] y)
        { [a] s = acme.Magic (x) [b] t = Rellu (s) [c] u = acme.Magic (t)
          [d] v = Swish (u) y = Relu (v) }"""
    )

    report = check_onnx(model)

    assert not report.is_ok
    assert {op: found.nodes for op, found in report.uncovered.items()} == {
        "acme::Magic": ["a", "c"],
        "Rellu": ["b"],
        "Swish": ["d"],
    }
    assert len(report.operators["acme::Magic"]) == 2
    message = "\n".join(
        (
            r"model: there is no rule for 3 operators, used by 4 nodes:",
            r"  `acme::Magic`: 2 nodes, `a`, `c`: the domain `acme` is not part .*",
            r"  `Rellu`: 1 node, `b`: opset 17 has no such operator\. Did you mean .*",
            r"  `Swish`: 1 node, `d`: its rules start at opset 24, the model has 17",
            r"Hint: ",
        )
    )
    with pytest.raises(UnsupportedError, match=message):
        import_onnx(model)


def test_all_problems_are_reported() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z)
        { [a] y = Transpose <perm = [0]> (x) [b] z = Softmax <axis = 5> (x) }"""
    )

    report = check_onnx(model)

    assert [p.message.split(":")[0] for p in report.problems] == [
        "node `a` (Transpose)",
        "node `b` (Softmax)",
    ]
    with pytest.raises(ModelError, match=r"node `a` .* \(1 more problem\)"):
        import_onnx(model)


def test_covered_model_is_reported_as_covered() -> None:
    report = check_onnx(good())

    assert report.is_ok
    assert str(report) == "model: 3 nodes, opset ai.onnx 17\ncan be imported"
    nodes = {"Add": ["first"], "Relu": ["second"], "Transpose": ["third"]}
    assert report.operators == nodes


# Whatever stands in a file.


CHUNKS = [pytest.param(i, marks=() if i < 8 else pytest.mark.slow) for i in range(40)]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_mutated_models_are_imported_or_rejected(chunk: int, tmp_path: Path) -> None:
    models = mutations.base_models()
    refused: list[str] = []
    for seed in range(25 * chunk, 25 * chunk + 25):
        rng = np.random.default_rng(seed)
        model = models[seed % len(models)]
        source: Path | bytes | onnx.ModelProto = mutations.mutated_model(rng, model)
        if seed % 3 == 0:
            source = mutations.mutated_bytes(rng, model.SerializeToString())
        elif seed % 7 == 0:
            source = as_path(source, tmp_path)
        try:
            import_onnx(source)
        except RelaxError as error:
            refused.append(str(error))

    assert len(refused) > 5
    assert all(message.startswith("model") for message in refused)


def test_unmutated_models_are_imported() -> None:
    for model in mutations.base_models():
        assert import_onnx(model).func_ops()


def test_declared_shape_allocates_no_array() -> None:
    """A terabyte of zeros in a few bytes stays an operation."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g () => (float[a, b] y)
        { s = Constant <value_ints = [1048576, 262144]> () y = ConstantOfShape (s) }"""
    )

    module = import_onnx(model)

    assert not module.constants
    zero = numpy_helper.from_array(np.zeros(0, np.int64), "s")
    del model.graph.node[0]
    model.graph.initializer.append(zero)
    assert import_onnx(model).func_ops()

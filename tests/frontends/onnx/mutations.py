"""Small models, and seeded mutations of models and their inputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

_MODELS = (
    # A perceptron, its weights as raw bytes and as typed fields.
    """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 4] x) => (float[n, 3] y)
    <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] b = {1, 2, 3}>
    {
       h = Gemm <alpha = 0.5> (x, w, b)
       r = Relu (h)
       y = Softmax <axis = -1> (r)
    }
    """,
    # A shape computed in the graph.
    """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, seq, 8] x) => (float[a, b, c, d] y)
    {
       s = Shape (x)
       i = Constant <value = int64[2] {0, 1}> ()
       head = Gather <axis = 0> (s, i)
       tail = Constant <value_ints = [2, -1]> ()
       target = Concat <axis = 0> (head, tail)
       v = Reshape (x, target)
       t = Transpose <perm = [0, 2, 1, 3]> (v)
       lo = Constant <value_float = 0.0> ()
       c = Clip (t, lo)
       axes = Constant <value_ints = [0]> ()
       u = Unsqueeze (c, axes)
       y = Squeeze (u, axes)
    }
    """,
    # An old opset: attributes where inputs are now, and one adapter to run.
    """
    <ir_version: 3, opset_import: ["" : 6]>
    g (float[2, 3] x, float[3] b) => (float[2, 3] y)
    <float[3] b = {1, 2, 3}>
    {
       a = Add <broadcast = 1, axis = 1> (x, b)
       d = Dropout <ratio = 0.5> (a)
       y = Softmax <axis = 1> (d)
    }
    """,
    # A branch, a function of the model, a function of the standard.
    """
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[2, 3] x) => (float[2, 3] y)
    {
       yes = Constant <value = bool {1}> ()
       z = If (yes) <
          then_branch = t () => (float[2, 3] p) { p = Relu (x) },
          else_branch = e () => (float[2, 3] q) { q = Neg (x) }
       >
       f = local.twice <factor = 2.0> (z)
       y = Softplus (f)
    }
    <domain: "local", opset_import: ["" : 17]>
    twice <factor> (u) => (v)
    {
       c = Constant <value_float : float = @factor> ()
       v = Mul (u, c)
    }
    """,
    # Windows over a picture of any size.
    """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 2, h, w] x) => (float[n, 3] y)
    <float[4, 1, 3, 3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                            9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1},
     int64[8] e = {0, 0, 1, 0, 0, 0, 0, 2}, float[4] b = {1, 2, 3, 4},
     float[3, 4] m = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}>
    {
       c = Conv <group = 2, kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, k, b)
       p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (c)
       s = Pad <mode = "constant"> (p, e)
       r = LeakyRelu <alpha = 0.1> (s)
       a = GlobalAveragePool (r)
       f = Flatten <axis = 1> (a)
       y = Gemm <transB = 1> (f, m)
    }
    """,
    # A table, picked rows, a normalisation, slices laid end to end.
    """
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[n, 3] i) => (float[a, b, c] y)
    <float[5, 2] t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, float[2] s = {0.5, 2},
     float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] lo = {0}, int64[1] hi = {2},
     int64[1] ax = {1}, float two = {2}>
    {
       e = Gather <axis = 0> (t, i)
       mean = ReduceMean <axes = [-1], keepdims = 1> (e)
       d = Sub (e, mean)
       q = Pow (d, two)
       l = Mul (q, s)
       m = MatMul (l, w)
       part = Slice (m, lo, hi, ax)
       j = Concat <axis = 1> (part, m)
       y = Softmax <axis = 2> (j)
    }
    """,
)

_EXTREMES = (
    *(0, -1, 1, 2, 7, -7, 99, 10**6, 10**12),
    *(2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)),
)
EXTRA = "one too many"
"""The name of an input that no model has."""

T = TypeVar("T")
Rng = np.random.Generator
Mutation = Callable[[Rng, onnx.ModelProto], None]


def base_models() -> list[onnx.ModelProto]:
    """The valid models."""
    models = [parser.parse_model(text) for text in _MODELS]
    for tensor in models[0].graph.initializer[:1]:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return models


def mutated_bytes(rng: Rng, data: bytes) -> bytes:
    """Bytes flipped, removed, duplicated or inserted."""
    buffer = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, max(1, len(buffer))))
        kind = rng.integers(0, 5)
        if kind == 0 and buffer:
            buffer[at % len(buffer)] = int(rng.integers(0, 256))
        elif kind == 1:
            del buffer[at:]
        elif kind == 2:
            del buffer[at : at + int(rng.integers(1, 9))]
        elif kind == 3:
            buffer[at:at] = rng.bytes(int(rng.integers(1, 9)))
        else:
            buffer[at:at] = buffer[at : at + int(rng.integers(1, 99))]
    return bytes(buffer)


def mutated_model(rng: Rng, model: onnx.ModelProto, most: int = 3) -> onnx.ModelProto:
    """A copy of a model with up to ``most`` mutated fields."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.integers(1, most + 1)):
        mutate = _MUTATIONS[rng.integers(0, len(_MUTATIONS))]
        try:
            mutate(rng, copy)
        except (
            *(IndexError, KeyError, OSError, TypeError, ValueError),
            *(DecodeError, onnx.checker.ValidationError),
        ):
            continue  # nothing there to change any more, or nothing to read
    return copy


def mutated_feeds(rng: Rng, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of inputs, one or two of them absurd."""
    copy = dict(feeds)
    for _ in range(rng.integers(1, 3)):
        name = _pick(rng, copy)
        kind = int(rng.integers(0, 12))
        if kind == 0:
            del copy[name]
            break
        copy[EXTRA if kind == 1 else name] = _absurd(rng, copy[name])
    return copy


def _absurd(rng: Rng, value: Any) -> Any:  # Any: whatever is fed
    """A variation of a value that is most likely invalid."""
    if isinstance(value, list):
        parts = [_absurd(rng, part) for part in value]
        return parts[: int(rng.integers(0, 3))]
    others = (
        None,
        "text",
        3.5,
        [],
        [value],
        np.array(["a", "b"], object),
        {},
        object(),
    )
    if not isinstance(value, np.ndarray) or rng.random() < 0.1:
        return others[rng.integers(0, len(others))]
    if rng.random() < 0.3:
        return _reshaped(rng, value)
    if rng.random() < 0.15 and value.size < 10**6:
        kinds = (np.int64, np.int32, np.float32, np.float64, np.bool_, np.uint8, "U")
        return np.ones(value.shape).astype(kinds[rng.integers(0, len(kinds))])
    return _extreme_elements(rng, value)


def _reshaped(rng: Rng, array: np.ndarray) -> np.ndarray:
    kind = rng.integers(0, 6)
    if array.size > 10**6:
        return array
    if kind == 0:
        return array[..., np.newaxis]
    if kind == 1:
        return array.reshape(-1)
    if kind == 2:
        return array[:0] if array.ndim else array.reshape(1)[:0]
    if kind == 3:
        return np.concatenate([array.reshape(-1)] * 7)
    if kind == 4 and array.size:
        return np.broadcast_to(array.reshape(-1)[:1], (10**12,))  # of no memory
    return array.T


def _extreme_elements(rng: Rng, array: np.ndarray) -> np.ndarray:
    if not 0 < array.size < 10**6:
        return array
    copy = array.copy()
    at = _index(rng, copy.reshape(-1))
    if array.dtype.kind == "f":
        copy.flat[at] = _pick(rng, (np.nan, np.inf, -np.inf, 1e38, 1e12, -1.0))
    elif array.dtype.kind in "iu":
        copy.flat[at] = np.array(_extreme(rng)).astype(array.dtype)
        if rng.random() < 0.3:  # all of them, as with shapes of many elements
            copy[...] = np.array(_pick(rng, (10**6, -1, 2**62))).astype(array.dtype)
    else:
        copy.flat[at] = not copy.flat[at] if array.dtype.kind == "b" else "\x00é"
    return copy


def _all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those in its nodes."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """All nodes, those of bodies and functions included."""
    own = [node for graph in _all_graphs(model) for node in graph.node]
    return [*own, *(node for f in model.functions for node in f.node)]


def _values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs and outputs of all graphs."""
    return [v for g in _all_graphs(model) for v in (*g.input, *g.output)]


def _pick(rng: Rng, items: Iterable[T]) -> T:
    choices = list(items)
    if not choices:
        raise IndexError
    return choices[rng.integers(0, len(choices))]


def _index(rng: Rng, items: Sized) -> int:
    return int(rng.integers(0, len(items)))


def _names(model: onnx.ModelProto) -> list[str]:
    names = [name for node in _nodes(model) for name in (*node.input, *node.output)]
    return [*names, *(value.name for value in _values(model)), "", "nobody"]


def _extreme(rng: Rng) -> int:
    return int(_pick(rng, _EXTREMES))


def _rename_input(rng: Rng, model: onnx.ModelProto) -> None:
    node = _pick(rng, _nodes(model))
    node.input[_index(rng, node.input)] = _pick(rng, _names(model))


def _rename_output(rng: Rng, model: onnx.ModelProto) -> None:
    node = _pick(rng, _nodes(model))
    node.output[_index(rng, node.output)] = _pick(rng, _names(model))


def _add_input(rng: Rng, model: onnx.ModelProto) -> None:
    _pick(rng, _nodes(model)).input.append(_pick(rng, _names(model)))


def _drop_input(rng: Rng, model: onnx.ModelProto) -> None:
    node = _pick(rng, _nodes(model))
    del node.input[_index(rng, node.input) :]


def _other_op(rng: Rng, model: onnx.ModelProto) -> None:
    ops = "Add Conv Relu Reshape Gemm Concat Slice Identity Foo Max Split If MatMul"
    ops += " Expand Range Loop Pad Resize Where Cast ConstantOfShape MaxPool ReduceSum"
    ops += (
        " Scan NonZero TopK SequenceAt SequenceConstruct ConcatFromSequence Tile Unique"
    )
    ops += " Optional LSTM Attention QuantizeLinear StringConcat Einsum OneHot GatherND"
    ops += " Compress Split Shape Flatten Unsqueeze SplitToSequence Softmax CumSum"
    _pick(rng, _nodes(model)).op_type = _pick(rng, ops.split())


def _other_domain(rng: Rng, model: onnx.ModelProto) -> None:
    _pick(rng, _nodes(model)).domain = _pick(rng, ["", "local", "ai.onnx", "x.y"])


def _other_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    node = _pick(rng, _nodes(model))
    names = ["axis", "axes", "perm", "to", "alpha", "value", "pads", "value_ints"]
    values = [
        _extreme(rng),
        [_extreme(rng) for _ in range(rng.integers(1, 4))],
        "text",
        float(rng.choice([np.nan, np.inf, 1e38])),
        numpy_helper.from_array(np.array(_extreme(rng))),
    ]
    position = int(rng.integers(0, len(values)))
    name = _pick(rng, [*names, *(a.name for a in node.attribute)])
    node.attribute.append(helper.make_attribute(name, values[position]))


def _extreme_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    attribute = _pick(rng, [a for n in _nodes(model) for a in n.attribute])
    if attribute.type == AttributeProto.INT:
        attribute.i = _extreme(rng)
    elif attribute.type == AttributeProto.INTS:
        attribute.ints[_index(rng, attribute.ints)] = _extreme(rng)
    elif attribute.type == AttributeProto.TENSOR:
        _damage_tensor(rng, attribute.t)
    else:
        kind = int(rng.integers(0, 15))
        attribute.type = kind  # pyright: ignore[reportAttributeAccessIssue]


def _drop_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    node = _pick(rng, _nodes(model))
    del node.attribute[_index(rng, node.attribute)]


def _damage_tensor(rng: Rng, tensor: onnx.TensorProto) -> None:
    kind = rng.integers(0, 6)
    if kind == 0:
        tensor.dims[_index(rng, tensor.dims)] = _extreme(rng)
    elif kind == 1:
        tensor.data_type = int(rng.integers(-1, 40))
    elif kind == 2:
        tensor.raw_data = rng.bytes(int(rng.integers(0, 60)))
    elif kind == 3:
        tensor.dims.append(_extreme(rng))
    elif kind == 4:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(
            numpy_helper.from_array(_extreme_elements(rng, array), tensor.name)
        )
    else:
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", _pick(rng, ["", "..", "/etc/passwd", "x"])


def _damage_initializer(rng: Rng, model: onnx.ModelProto) -> None:
    _damage_tensor(rng, _pick(rng, model.graph.initializer))


def _other_type(rng: Rng, model: onnx.ModelProto) -> None:
    value = _pick(rng, _values(model))
    kind = rng.integers(0, 5)
    if kind == 0:
        value.type.tensor_type.elem_type = int(rng.integers(-1, 40))
    elif kind == 1:
        dims = value.type.tensor_type.shape.dim
        _pick(rng, dims).dim_value = _extreme(rng)
    elif kind == 2:
        dims = value.type.tensor_type.shape.dim
        texts = ["", "?", "a b", "n + 1", "0x", "-1", "((", "é", "n" * 9999]
        _pick(rng, dims).dim_param = _pick(rng, texts)
    elif kind == 3:
        inner = onnx.TypeProto.FromString(value.type.SerializeToString())
        wrap = _pick(
            rng, (helper.make_sequence_type_proto, helper.make_optional_type_proto)
        )
        value.type.CopyFrom(wrap(inner))
    else:
        value.ClearField("type")


def _other_opset(rng: Rng, model: onnx.ModelProto) -> None:
    _pick(rng, model.opset_import).version = int(rng.integers(-1, 40))


def _drop_node(rng: Rng, model: onnx.ModelProto) -> None:
    del model.graph.node[_index(rng, model.graph.node)]


def _move_node(rng: Rng, model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)
    nodes.insert(0, nodes.pop(_index(rng, nodes)))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _other_value(rng: Rng, model: onnx.ModelProto) -> None:
    value = _pick(rng, _values(model))
    value.name = _pick(rng, _names(model))


def _drop_value(rng: Rng, model: onnx.ModelProto) -> None:
    del _pick(rng, [model.graph.input, model.graph.output, model.graph.initializer])[:1]


def _swap_nodes(rng: Rng, model: onnx.ModelProto) -> None:
    """Swap the outputs of two nodes."""
    one, other = _pick(rng, _nodes(model)), _pick(rng, _nodes(model))
    kept = list(one.output)
    one.output[:] = other.output
    other.output[:] = kept


def _damage_graph(rng: Rng, model: onnx.ModelProto) -> None:
    """Drop or add an input, an output or the nodes of a body."""
    graph = _pick(rng, list(_all_graphs(model))[1:])
    kind = rng.integers(0, 4)
    if kind == 0:
        del graph.input[_index(rng, graph.input)]
    elif kind == 1:
        del graph.output[_index(rng, graph.output)]
    elif kind == 2:
        del graph.node[_index(rng, graph.node)]
    else:
        _pick(rng, (graph.input, graph.output)).add(name=_pick(rng, _names(model)))


def _damage_function(rng: Rng, model: onnx.ModelProto) -> None:
    """Let a function call another, or itself; or rename or drop one."""
    function = _pick(rng, model.functions)
    kind = rng.integers(0, 4)
    if kind == 0:
        _pick(rng, function.node).op_type = _pick(rng, model.functions).name
    elif kind == 1:
        _pick(rng, function.node).domain = "local"
    elif kind == 2:
        function.name = _pick(rng, ["Relu", "nobody", "", "Loop", "ReduceSum"])
    else:
        del function.input[_index(rng, function.input)]


_MUTATIONS: tuple[Mutation, ...] = (
    _rename_input,
    _rename_output,
    _add_input,
    _drop_input,
    _other_op,
    _other_domain,
    _other_attribute,
    _extreme_attribute,
    _drop_attribute,
    _damage_initializer,
    _other_type,
    _other_opset,
    _drop_node,
    _move_node,
    _other_value,
    _drop_value,
    _swap_nodes,
    _damage_graph,
    _damage_function,
)

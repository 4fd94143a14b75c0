"""Constant folding of shape computations in ONNX models with static shapes.

Exporters compute shapes with Shape, Gather and Concat, which ONNX's shape inference follows
only partly. FLOP counts and the translation to torch need them folded.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

__all__ = ["Shapes", "fold_sizes"]

Shapes = dict[str, tuple[int, ...]]

_MAX_ELEMENTS = 4096  # elements of a folded tensor


def fold_sizes(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Shapes]:
    """A copy of the model with shape computations folded, and its known shapes.

    Constant nodes become initializers, too.
    """
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    while True:
        shapes = _inferred(folded)
        if not _fold_once(folded, shapes):
            return folded, shapes


def _inferred(model: onnx.ModelProto) -> Shapes:
    """The shapes of all tensors with static shapes."""
    graph = shape_inference.infer_shapes(_without_weights(model), data_prop=True).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        has_shape = value.type.tensor_type.HasField("shape")
        if has_shape and all(dim.HasField("dim_value") for dim in dims):
            shapes[value.name] = tuple(dim.dim_value for dim in dims)
    return shapes


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with inputs for large weights, which inference would copy otherwise."""
    graph = model.graph
    large = [t for t in graph.initializer if np.prod(t.dims) > _MAX_ELEMENTS]
    names = {t.name for t in large}
    inputs = [value for value in graph.input if value.name not in names]
    inputs += [
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in large
    ]
    small = [t for t in graph.initializer if t.name not in names]
    light = helper.make_graph(graph.node, graph.name, inputs, graph.output, small)
    imports = model.opset_import
    return helper.make_model(light, opset_imports=imports, ir_version=model.ir_version)


def _fold_once(model: onnx.ModelProto, shapes: Shapes) -> bool:
    """Fold all foldable nodes; returns whether there were any."""
    graph = model.graph
    known = {t.name: t for t in graph.initializer if np.prod(t.dims) <= _MAX_ELEMENTS}
    kept = []
    for node in graph.node:
        value = _value(node, known, shapes, model)
        if value is None:
            kept.append(node)
            continue
        known[node.output[0]] = numpy_helper.from_array(value, node.output[0])
        graph.initializer.append(known[node.output[0]])
    changed = len(kept) < len(graph.node)
    del graph.node[:]
    graph.node.extend(kept)
    return changed


def _value(
    node: onnx.NodeProto,
    known: dict[str, onnx.TensorProto],
    shapes: Shapes,
    model: onnx.ModelProto,
) -> np.ndarray | None:
    """The value of a node, if it is constant and small."""
    if node.op_type == "Shape" and node.input[0] in shapes:
        operands = {node.input[0]: np.empty(shapes[node.input[0]], np.bool_)}
    elif all(name in known for name in node.input if name) and len(node.output) == 1:
        operands = {
            name: numpy_helper.to_array(known[name]) for name in node.input if name
        }
    else:
        return None
    graph = helper.make_graph(
        [node],
        "node",
        [onnx.ValueInfoProto(name=name) for name in operands],
        [onnx.ValueInfoProto(name=node.output[0])],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import)
    (value,) = ReferenceEvaluator(alone).run(None, operands)
    value = np.asarray(value)
    is_small = value.size <= _MAX_ELEMENTS or node.op_type == "Constant"
    return value if is_small else None

"""Stages: subgraphs that are JIT-compiled when the model runs, since types depend on values.

An operator may need the contents of an operand, such as axes, or have a result type that
depends on them. Such nodes and all their users form a *stage*: an ONNX model of its own,
whose bytes are a constant of the module. The module calls a runtime function by name,
which compiles the stage for the values and types of the call; see
:mod:`relax_mlir.runtime.host`.
"""

from collections.abc import (
    Container,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field

import numpy as np
import onnx
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.relax.graph import CallOperatorOp, ExternFuncOp
from relax_mlir.frontends.onnx.graph import Node

__all__ = [
    "CONSTANT",
    "HOST_OPERATORS",
    "RUN_NODE",
    "RUN_STAGE",
    "SIZED",
    "STATIC",
    "TEXT_OPERATORS",
    "Stage",
    "call_stage",
    "has_string_values",
]

RUN_STAGE, RUN_NODE = "relax_mlir.run_stage", "relax_mlir.run_node"
# Operators on sequences, loops, and operators with data-dependent output shapes run one
# node at a time on the host: their result types are known only afterwards.
HOST_OPERATORS = frozenset(
    (
        *("Loop", "Scan", "NonZero", "Compress", "Unique", "NonMaxSuppression"),
        *("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase"),
        *("SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence"),
        *("Optional", "OptionalGetElement", "OptionalHasElement", "SequenceMap"),
        *("ImageDecoder", "ai.onnx.ml::ZipMap"),
    )
)
# Operators that run on the host, too, if they have string operands or results.
TEXT_OPERATORS = frozenset(
    (
        *("Cast", "CastLike", "Constant", "RegexFullMatch", "StringConcat"),
        *("StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        *("Concat", "Equal", "Expand", "Flatten", "Gather", "GatherElements"),
        *("GatherND", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size"),
        *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
        *("ai.onnx.ml::ArrayFeatureExtractor", "ai.onnx.ml::CategoryMapper"),
        *("ai.onnx.ml::LabelEncoder", "ai.onnx.ml::LinearClassifier"),
        *("ai.onnx.ml::OneHotEncoder", "ai.onnx.ml::SVMClassifier"),
        *("ai.onnx.ml::TreeEnsembleClassifier", "com.microsoft::Tokenizer"),
    )
)
_TEXT_ATTRIBUTES = frozenset(
    (
        *("cats_strings", "classes_strings", "classlabels_strings", "keys_strings"),
        *("value_string", "value_strings", "values_strings"),
    )
)
# Metadata keys of a stage's model that list inputs: those whose contents must be known,
# those whose shapes must be static, and constants.
STATIC, SIZED, CONSTANT = "relax.static", "relax.sized", "relax.constant"

_OBJECT = "!relax.object"
_CALLABLE = f"!relax.callable<[{_OBJECT}, false]>"
_PROGRAM = "stage"


def has_string_values(node: Node, objects: Container[str]) -> bool:
    """Whether a node has string operands or results that its operator supports.

    Args:
        node: the node.
        objects: names of values that are not numeric tensors.
    """
    if node.op_type not in TEXT_OPERATORS:
        return False
    has_objects = any(name in objects for name in node.inputs)
    return has_objects or any(map(_is_text_attribute, node.proto.attribute))


def _is_text_attribute(attribute: onnx.AttributeProto) -> bool:
    if attribute.name == "to":
        return attribute.i == onnx.TensorProto.STRING
    is_tensor = attribute.type == onnx.AttributeProto.TENSOR
    if is_tensor and attribute.t.data_type == onnx.TensorProto.STRING:
        return True
    return attribute.name in _TEXT_ATTRIBUTES


@dataclass
class Stage:
    """A subgraph that is compiled when the model runs.

    Attributes:
        nodes: its nodes, in topological order.
        static: names of inputs whose contents must be known at compile time.
        sized: names of inputs whose shapes must be static.
        constant: names of inputs that are constants.
    """

    nodes: list[Node] = field(default_factory=list)
    static: set[str] = field(default_factory=set)
    sized: set[str] = field(default_factory=set)
    constant: set[str] = field(default_factory=set)

    @property
    def reads(self) -> list[str]:
        """The values it takes from outside, in order of use."""
        defined = {name for node in self.nodes for name in node.outputs}
        names = [n for node in self.nodes for n in (*node.inputs, *sorted(node.reads))]
        return [n for n in dict.fromkeys(names) if n and n not in defined]

    def pull_in(self, nodes: Sequence[Node], sizes: Container[str]) -> None:
        """Duplicate into the stage the nodes that compute the sizes it reads."""
        producers = {name: node for node in nodes for name in node.outputs}
        worklist = [n for n in self.reads if n in producers and n in sizes]
        pulled: dict[Node, None] = {}
        while worklist:
            node = producers[worklist.pop()]
            if node not in pulled:
                pulled[node] = None
                worklist += [n for n in node.reads if n in producers and n in sizes]
        order = {node: i for i, node in enumerate(nodes)}
        self.nodes = sorted({*self.nodes, *pulled}, key=order.__getitem__)

    def model(
        self,
        outputs: Iterable[str],
        opsets: Mapping[str, int],
        functions: Iterable[onnx.FunctionProto],
    ) -> bytes:
        """The serialized model that computes ``outputs``; its inputs have no types yet."""
        graph = onnx.GraphProto(name=_PROGRAM)
        graph.node.extend(node.proto for node in self.nodes)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self.reads)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
        for domain, version in opsets.items():
            model.opset_import.add(domain=domain, version=version)
        model.functions.extend(functions)
        metadata = {STATIC: self.static, SIZED: self.sized, CONSTANT: self.constant}
        for key, names in metadata.items():
            for name in sorted(names & set(self.reads)):
                model.metadata_props.add(key=key, value=name)
        return model.SerializeToString(deterministic=True)


def call_stage(
    callee: str,
    model: bytes,
    inputs: Sequence[ir.Value],
    count: int,
    pool: MutableMapping[str, np.ndarray],
) -> list[ir.Value]:
    """Emit the call of a stage.

    Args:
        callee: the runtime function, :data:`RUN_STAGE` or :data:`RUN_NODE`.
        model: the serialized model of the stage.
        inputs: its operands, one per input of the model.
        count: the number of its results, which are untyped objects.
        pool: the module's constants, which the model's bytes are added to.
    """
    data = ConstantOp.of(np.frombuffer(model, np.uint8), pool, _PROGRAM)
    function = ExternFuncOp(results=[ir.Type.parse(_CALLABLE)], callee=callee).result
    result = ir.Type.parse(_OBJECT)
    several = ir.TupleType.get_tuple([result] * count)
    call = CallOperatorOp(
        tensors.pack_tuple([function, data, *inputs]),
        results=[result if count == 1 else several],
        operator=ir.StringAttr.get("relax.call_pure_packed"),
        attrs=ir.DictAttr.get({}),
        types=ir.ArrayAttr.get([ir.TypeAttr.get(result if count == 1 else several)]),
    ).result
    if count == 1:
        return [call]
    return [TupleGetItemOp(call, index=i).result for i in range(count)]

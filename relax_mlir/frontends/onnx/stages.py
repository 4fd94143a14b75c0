"""Stages: what of a graph can be built only when the model runs.

An operator may need the value of an operand, such as axes, or a type that only a value
tells. It is left to a *stage*, with all that depends on it: a model of its own, whose
bytes are a constant of the module, and which is called by name. The function called that
compiles the model for the values and types that it is called with; see
:mod:`relax_mlir.stages`.
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
    "concerns_text",
    "staged",
]

RUN_STAGE, RUN_NODE = "relax_mlir.run_stage", "relax_mlir.run_node"
# What works on sequences, repeats a graph, or makes as many elements as it finds, runs
# by itself: the types of its results are known when they are there.
HOST_OPERATORS = frozenset(
    (
        *("Loop", "Scan", "NonZero", "Compress", "Unique", "NonMaxSuppression"),
        *("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase"),
        *("SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence"),
        *("Optional", "OptionalGetElement", "OptionalHasElement", "SequenceMap"),
        *("ImageDecoder", "ai.onnx.ml::ZipMap"),
    )
)
# What takes text, or makes it, runs by itself, too.
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
# Names of inputs in the model of a stage: those whose values have to be known, and those
# that never change.
STATIC, SIZED, CONSTANT = "relax.static", "relax.sized", "relax.constant"

_OBJECT = "!relax.object"
_CALLABLE = f"!relax.callable<[{_OBJECT}, false]>"
_PROGRAM = "stage"


def concerns_text(node: Node, objects: Container[str]) -> bool:
    """Whether a node takes text, or makes it, and can.

    Args:
        node: the node.
        objects: names of values that are no tensors of numbers.
    """
    if node.op_type not in TEXT_OPERATORS:
        return False
    takes = any(name in objects for name in node.inputs)
    return takes or any(map(_is_text_attribute, node.proto.attribute))


def _is_text_attribute(attribute: onnx.AttributeProto) -> bool:
    if attribute.name == "to":
        return attribute.i == onnx.TensorProto.STRING
    is_tensor = attribute.type == onnx.AttributeProto.TENSOR
    if is_tensor and attribute.t.data_type == onnx.TensorProto.STRING:
        return True
    return attribute.name in _TEXT_ATTRIBUTES


@dataclass
class Stage:
    """What is left to a stage.

    Attributes:
        nodes: in order.
        static: names of inputs whose values have to be known.
        sized: names of inputs whose sizes have to be numbers.
        constant: names of inputs that never change.
    """

    nodes: list[Node] = field(default_factory=list)
    static: set[str] = field(default_factory=set)
    sized: set[str] = field(default_factory=set)
    constant: set[str] = field(default_factory=set)

    @property
    def reads(self) -> list[str]:
        """What it takes from outside, in order."""
        made = {name for node in self.nodes for name in node.outputs}
        names = [n for node in self.nodes for n in (*node.inputs, *sorted(node.reads))]
        return [n for n in dict.fromkeys(names) if n and n not in made]

    def pull_in(self, nodes: Sequence[Node], sizes: Container[str]) -> None:
        """Add those of all nodes that make sizes which the stage reads: it finds them too."""
        makers = {name: node for node in nodes for name in node.outputs}
        waiting = [n for n in self.reads if n in makers and n in sizes]
        pulled: dict[Node, None] = {}
        while waiting:
            node = makers[waiting.pop()]
            if node not in pulled:
                pulled[node] = None
                waiting += [n for n in node.reads if n in makers and n in sizes]
        place = {node: i for i, node in enumerate(nodes)}
        self.nodes = sorted({*self.nodes, *pulled}, key=place.__getitem__)

    def model(
        self,
        outputs: Iterable[str],
        opsets: Mapping[str, int],
        functions: Iterable[onnx.FunctionProto],
    ) -> bytes:
        """The bytes of a model that makes ``outputs``; its inputs have no types yet."""
        graph = onnx.GraphProto(name=_PROGRAM)
        graph.node.extend(node.proto for node in self.nodes)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self.reads)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
        for domain, version in opsets.items():
            model.opset_import.add(domain=domain, version=version)
        model.functions.extend(functions)
        marks = {STATIC: self.static, SIZED: self.sized, CONSTANT: self.constant}
        for key, names in marks.items():
            for name in sorted(names & set(self.reads)):
                model.metadata_props.add(key=key, value=name)
        return model.SerializeToString(deterministic=True)


def staged(
    callee: str,
    model: bytes,
    inputs: Sequence[ir.Value],
    count: int,
    pool: MutableMapping[str, np.ndarray],
) -> list[ir.Value]:
    """Call the model of a stage.

    Args:
        callee: the function that runs it.
        model: its bytes, which ``pool`` keeps.
        inputs: as many as the model has.
        count: how many results it has; nothing is known of them.
    """
    data = ConstantOp.of(np.frombuffer(model, np.uint8), pool, _PROGRAM)
    function = ExternFuncOp(results=[ir.Type.parse(_CALLABLE)], callee=callee).result
    result = ir.Type.parse(_OBJECT)
    several = ir.TupleType.get_tuple([result] * count)
    call = CallOperatorOp(
        tensors.pack([function, data, *inputs]),
        results=[result if count == 1 else several],
        operator=ir.StringAttr.get("relax.call_pure_packed"),
        attrs=ir.DictAttr.get({}),
        types=ir.ArrayAttr.get([ir.TypeAttr.get(result if count == 1 else several)]),
    ).result
    if count == 1:
        return [call]
    return [TupleGetItemOp(call, index=i).result for i in range(count)]

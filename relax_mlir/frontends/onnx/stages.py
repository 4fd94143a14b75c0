"""Stages: what of a graph can be built only when the model runs.

An operator may need the value of an operand, such as axes, or a type that only a value
tells. It is left to a *stage*, with all that depends on it: a model of its own, whose
bytes are a constant of the module, and which is called by name. The function called that
compiles the model for the values and types that it is called with; see
:mod:`relax_mlir.stages`.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.relax.graph import CallOperatorOp, ExternFuncOp
from relax_mlir.frontends.onnx.graph import Graph, Node

__all__ = ["CALLEE", "CONSTANT", "STATIC", "Stage", "staged"]

CALLEE = "relax_mlir.run_stage"
# Names of inputs in the model of a stage: those whose values have to be known, and those
# that never change.
STATIC, CONSTANT = "relax.static", "relax.constant"

_OBJECT = "!relax.object"
_CALLABLE = f"!relax.callable<[{_OBJECT}, false]>"
_PROGRAM = "stage"


@dataclass
class Stage:
    """What is left to a stage.

    Attributes:
        nodes: in order.
        static: names of inputs whose values have to be known.
        constant: names of inputs that never change.
    """

    nodes: list[Node] = field(default_factory=list)
    static: set[str] = field(default_factory=set)
    constant: set[str] = field(default_factory=set)

    @property
    def reads(self) -> list[str]:
        """What it takes from outside, in order."""
        made = {name for node in self.nodes for name in node.outputs}
        names = [n for node in self.nodes for n in (*node.inputs, *sorted(node.reads))]
        return [n for n in dict.fromkeys(names) if n and n not in made]

    def pull_in(self, graph: Graph, is_sizes: Callable[[str], bool]) -> None:
        """Add the nodes that make sizes which the stage reads: it finds them as well."""
        makers = {name: node for node in graph.nodes for name in node.outputs}
        waiting = [n for n in self.reads if n in makers and is_sizes(n)]
        pulled: dict[Node, None] = {}
        while waiting:
            node = makers[waiting.pop()]
            if node not in pulled:
                pulled[node] = None
                waiting += [n for n in node.reads if n in makers and is_sizes(n)]
        place = {node: i for i, node in enumerate(graph.nodes)}
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
        for key, names in ((STATIC, self.static), (CONSTANT, self.constant)):
            for name in sorted(names & set(self.reads)):
                model.metadata_props.add(key=key, value=name)
        return model.SerializeToString(deterministic=True)


def staged(
    model: bytes,
    inputs: Sequence[ir.Value],
    count: int,
    pool: MutableMapping[str, np.ndarray],
) -> list[ir.Value]:
    """Call the model of a stage.

    Args:
        count: how many results it has; nothing is known of them.
        pool: keeps the bytes.
    """
    data = ConstantOp.of(np.frombuffer(model, np.uint8), pool, _PROGRAM)
    callee = ExternFuncOp(results=[ir.Type.parse(_CALLABLE)], callee=CALLEE).result
    result = ir.Type.parse(_OBJECT)
    several = ir.TupleType.get_tuple([result] * count)
    call = CallOperatorOp(
        tensors.pack([callee, data, *inputs]),
        results=[result if count == 1 else several],
        operator=ir.StringAttr.get("relax.call_pure_packed"),
        attrs=ir.DictAttr.get({}),
        types=ir.ArrayAttr.get([ir.TypeAttr.get(result if count == 1 else several)]),
    ).result
    if count == 1:
        return [call]
    return [TupleGetItemOp(call, index=i).result for i in range(count)]

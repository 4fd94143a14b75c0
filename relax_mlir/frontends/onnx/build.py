"""Builder of a module's ``main`` from an ONNX graph, node by node through the rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx
from mlir import ir
from mlir.dialects import func
from onnx.defs import onnx_opset_version

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import UseFunctionBodyError, find_onnx_rule
from relax_mlir.frontends.onnx import shape_values, values
from relax_mlir.frontends.onnx.attributes import attribute_value, resolve_references
from relax_mlir.frontends.onnx.coverage import Coverage
from relax_mlir.frontends.onnx.emitter import Emitter
from relax_mlir.frontends.onnx.functions import Function, Functions
from relax_mlir.frontends.onnx.graph import (
    Graph,
    Node,
    defined_names,
    identity_node,
    inlined_body,
    live_nodes,
    with_prefix,
)
from relax_mlir.frontends.onnx.report import OnnxReport, Problem, error_sentence
from relax_mlir.frontends.onnx.schemas import check_inputs, check_node
from relax_mlir.frontends.onnx.scope import (
    BlockedError,
    DeferredError,
    Scope,
    with_default_opsets,
)
from relax_mlir.frontends.onnx.signature import InputType
from relax_mlir.frontends.onnx.stages import (
    HOST_OPERATORS,
    RUN_NODE,
    RUN_STAGE,
    Stage,
    call_stage,
    has_string_values,
)
from relax_mlir.frontends.onnx.values import GraphValue
from relax_mlir.frontends.onnx.weights import Weights
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.relax.fold_constants import constant_value

__all__ = ["GraphBuilder"]

_MAX_CALLS = 64  # nesting depth of function calls
_MAX_EXPANDED = 100_000  # nodes from function bodies: a few lines can expand to 2^64


class _InlineError(Exception):
    """A function body must be inlined into the graph that calls it.

    Attributes:
        function: the callee.
        attrs: attributes of the call.
    """

    def __init__(
        self, function: Function, attrs: Mapping[str, onnx.AttributeProto]
    ) -> None:
        """Keep the callee and the attributes of the call."""
        super().__init__("the body of a function has to be inlined")
        self.function, self.attrs = function, attrs


class _NotTopError(Exception):
    """A node inside a function body is supported only in the graph itself."""


class _NoRuleError(Exception):
    """No rule handles the operator."""


class GraphBuilder:
    """Builds the function ``main`` of a module from a graph.

    Nodes that cannot be built are added to the report, and building goes on, so that one
    import reports all problems.
    """

    def __init__(
        self,
        module: IRModule,
        functions: Functions,
        weights: Weights,
        report: OnnxReport,
    ) -> None:
        """Prepare a builder; :meth:`main` builds."""
        self._module = module
        self._functions = functions
        self._weights = weights
        self._report = report
        self._coverage = Coverage(functions, report)
        self._emitter = Emitter(module.constants)
        self._stage = Stage()
        self._order: list[Node] = []
        self._calls = 0
        self._inlined = 0
        self._expanded = 0
        self._names: set[str] = set()

    def main(
        self,
        graph: Graph,
        types: Mapping[str, InputType | None],
        known: Mapping[str, GraphValue],
        opsets: Mapping[str, int],
    ) -> None:
        """Add ``main``; it is complete only if the report is clean afterwards.

        Args:
            graph: the graph to build.
            types: parameter types by name, in order; None for one that is not a tensor.
            known: inputs with known values, which are not parameters.
            opsets: versions of the operator domains.
        """
        with self._module.context, ir.Location.unknown():
            parameters = [_mlir_type(type_) for type_ in types.values()]
            with ir.InsertionPoint(self._module.mlir.body):
                function = func.FuncOp("main", ir.FunctionType.get(parameters, []))
            locations = [ir.Location.name(name) for name in types]
            block = function.add_entry_block(locations)
            scope = Scope(with_default_opsets(opsets))
            scope.values.update(known)
            for name, argument in zip(types, block.arguments, strict=True):
                if types[name] is None:
                    self._set_untyped(name, argument, scope)
                    scope.objects.add(name)
                else:
                    scope.values[name] = values.computed_value(name, argument)
            self._names = defined_names(graph)
            with ir.InsertionPoint(block):
                self._run(graph, graph.outputs, scope)
                self._call_stage(graph, scope)
                returned = self._returned(graph, scope)
                func.ReturnOp(returned)
            type_ = ir.FunctionType.get(parameters, [value.type for value in returned])
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
            function.attributes["relax.input_names"] = _strings(types)
            function.attributes["relax.output_names"] = _strings(graph.outputs)

    def _returned(self, graph: Graph, scope: Scope) -> list[ir.Value]:
        try:
            return [self._output(name, scope) for name in graph.outputs]
        except (BlockedError, DeferredError):
            return []
        except (ValueError, NotImplementedError) as error:
            self._report.problems.append(Problem(error_sentence(error), error))
            return []

    def _output(self, name: str, scope: Scope) -> ir.Value:
        value = scope.values.get(name) or scope.find(name)
        try:
            return self._emitter.read(value)
        except (ValueError, NotImplementedError) as error:
            raise type(error)(f"output `{name}`: {error}") from error

    def _run(self, graph: Graph, outputs: Sequence[str], scope: Scope) -> None:
        """Build the nodes that these outputs depend on, and bind the outputs in ``scope``."""
        nodes = live_nodes(graph, outputs)
        used = {name for node in nodes for name in node.reads}.union(outputs)
        for name, tensor in graph.initializers.items():
            if name in used:
                self._initializer(name, tensor, scope)
        for node in nodes:
            self._node(node, scope, used)

    def _initializer(self, name: str, tensor: onnx.TensorProto, scope: Scope) -> None:
        try:
            scope.values[name] = values.constant_value(
                name, self._weights.array(tensor)
            )
        except (ValueError, NotImplementedError) as error:
            scope.blocked.add(name)
            message = f"initializer `{name}`: {error_sentence(error)}"
            self._report.problems.append(Problem(message, error))

    def _node(self, node: Node, scope: Scope, used: set[str]) -> None:
        """Build a node, or report why it cannot be built."""
        self._record(node, scope)
        try:
            try:
                self._build(node, scope, used)
            except _InlineError as error:
                self._inline(node, error, used, scope)
        except _NoRuleError:
            self._coverage.add_gap(node, scope)
        except DeferredError as error:
            if self._calls:
                raise
            self._defer(node, error, scope)
            return
        except _NotTopError:
            raise
        except BlockedError:
            if not self._coverage.has_rule(node, scope):
                self._coverage.add_gap(node, scope)
        except Exception as error:  # a malformed file may raise anything in a rule
            self._coverage.add_problem(node, scope, error)
        else:
            return
        scope.blocked.update(name for name in node.outputs if name)

    def _record(self, node: Node, scope: Scope) -> None:
        """Add a node of the graph itself to the report's operators and to the node order."""
        if not self._calls:
            names = self._report.operators.setdefault(node.op_type, [])
            names.append(scope.path + node.name)
            self._order.append(node)

    def _build(self, node: Node, scope: Scope, used: set[str]) -> None:
        """Build a node by a rule, as a branch, or as a call of the host runtime."""
        wanted = tuple(name in used for name in node.outputs)
        runs_on_host = self._runs_on_host(node, scope)
        if node.op_type == "If" or runs_on_host:
            check_node(node, scope.opset(node))
            check_inputs(node, scope.opset(node))
        if node.op_type == "If":
            self._build_if(node, scope)
        elif node.op_type == "Identity" and scope.objects & set(node.inputs[:1]):
            self._bind_alias(node.outputs[0], node.inputs[0], scope)
        elif runs_on_host:
            self._call_host(node, wanted, scope)
        else:
            results = self._results(node, scope, wanted)
            self._bind(node, results, wanted, scope)

    def _runs_on_host(self, node: Node, scope: Scope) -> bool:
        """Whether a node is executed by the host runtime's single-node executor."""
        is_known = node.op_type in HOST_OPERATORS or has_string_values(
            node, scope.objects
        )
        return is_known and self._functions.of_model(node) is None

    def _build_if(self, node: Node, scope: Scope) -> None:
        """Build the branch that a constant condition selects, in place.

        Source: ONNX If-25.
        """
        if self._calls:
            raise _NotTopError
        condition = scope.find(node.inputs[0])
        if condition is None or condition.array is None:
            raise DeferredError(condition)
        if condition.array.size != 1:
            raise ValueError(f"expected one condition, got {condition.array.size}")
        taken = "then_branch" if condition.array.item() else "else_branch"
        body = node.bodies[taken]
        path = f"{scope.path}{node.name}/"
        if not self._names.isdisjoint(defined_names(body)):
            body = with_prefix(body, self._prefix(body, path))
        self._names |= defined_names(body)
        self._run(body, body.outputs, replace(scope, path=path))
        if len(node.outputs) != len(body.outputs):
            raise ValueError(
                f"`{taken}`: expected {len(node.outputs)} outputs, got "
                f"{len(body.outputs)}"
            )
        for name, source in zip(node.outputs, body.outputs, strict=True):
            if name:
                self._bind_alias(name, source, scope)

    def _prefix(self, body: Graph, preferred: str) -> str:
        """A prefix that makes all names of a graph unique."""
        prefix = preferred
        while any(prefix + name in self._names for name in defined_names(body)):
            prefix += "_"
        return prefix

    def _inline(
        self, node: Node, error: _InlineError, used: set[str], scope: Scope
    ) -> None:
        """Inline the body of a function into the graph itself."""
        self._order.remove(node)
        function = error.function
        path = f"{scope.path}{node.name}/"
        opsets = {
            domain: version
            for domain, version in function.opsets.items()
            if scope.opsets.get(domain) != version
        }
        given = dict(zip_longest(function.graph.inputs, node.inputs, fillvalue=""))
        prefix = self._prefix(function.graph, path)
        body = inlined_body(function.graph, prefix, given, error.attrs, opsets)
        self._names |= defined_names(body)
        bound = [
            (name, source)
            for name, source in zip(node.outputs, body.outputs, strict=False)
            if name in used and source
        ]
        self._inlined += 1
        self._run(body, [source for _, source in bound], replace(scope, path=path))
        self._inlined -= 1
        for name, source in bound:
            self._bind_alias(name, source, scope)

    def _bind_alias(self, name: str, source: str, scope: Scope) -> None:
        """Bind ``name`` as an alias of ``source``."""
        if source in scope.blocked:
            scope.blocked.add(name)
            return
        copy = identity_node(source, name)
        self._order.append(copy)
        if source in scope.values:
            scope.values[name] = scope.values[source]
        else:
            self._stage.nodes.append(copy)
        for names in (scope.later, scope.objects):
            if source in names:
                names.add(name)

    def _defer(self, node: Node, error: DeferredError, scope: Scope) -> None:
        """Add a node to the subgraph that is compiled when the model runs."""
        self._report.later.append(scope.path + node.name)
        self._coverage.check_deferred(node, scope)
        if error.needed is not None:
            inputs = {n: scope.values.get(n) for n in node.inputs}
            found = [n for n, value in inputs.items() if value is error.needed]
            first = node.inputs[0]
            small = [n for n, v in inputs.items() if v is not None and v.is_small]
            small = [n for n in small if n != first or not found]
            if error.needs_shape_only:
                self._stage.sized.update(found)
                found = []
            # Small values are likely to be needed as constants, too.
            self._stage.static |= {*found, *small}
        self._stage.nodes.append(node)
        scope.later.update(name for name in node.outputs if name)

    def _call_stage(self, graph: Graph, scope: Scope) -> None:
        """Emit the call of the deferred subgraph for the outputs that it defines, if any."""
        stage = self._stage
        if not stage.nodes or not self._report.is_ok:
            return
        known = {n for n, v in scope.values.items() if v is not None and v.is_sizes}
        stage.pull_in(self._order, known)
        defined = {name for node in stage.nodes for name in node.outputs}
        outputs = [n for n in graph.outputs if n in defined]
        self._call_runtime(RUN_STAGE, stage, outputs, scope)

    def _call_host(self, node: Node, wanted: Sequence[bool], scope: Scope) -> None:
        """Emit a call that runs one node on the host; its values may be sequences."""
        if self._calls:
            raise _NotTopError
        if any(name not in scope.values for name in node.reads):
            raise DeferredError
        self._coverage.check_bodies(node, scope)
        outputs = [
            n for n, is_read in zip(node.outputs, wanted, strict=True) if is_read
        ]
        self._call_runtime(RUN_NODE, Stage([node]), outputs, scope)

    def _call_runtime(
        self, callee: str, stage: Stage, outputs: Sequence[str], scope: Scope
    ) -> None:
        inputs = [self._folded(scope.values[name]) for name in stage.reads]
        for name, value in zip(stage.reads, inputs, strict=True):
            if value is not None and value.array is not None:
                stage.constant.add(name)
        model = stage.model(outputs, scope.opsets, self._functions.protos)
        given = [self._emitter.read(value) for value in inputs]
        pool = self._module.constants
        results = call_stage(callee, model, given, len(outputs), pool)
        for name, value in zip(outputs, results, strict=True):
            self._set_untyped(name, value, scope)

    def _folded(self, value: GraphValue | None) -> GraphValue | None:
        """A value as a constant, if it depends on constants only.

        The compiler of the deferred subgraph can then fold and prepack it once.
        """
        if value is None or value.value is None or value.content is not None:
            return value
        array = constant_value(self._module, value.value)
        return value if array is None else values.constant_value(value.name, array)

    def _set_untyped(self, name: str, value: ir.Value, scope: Scope) -> None:
        scope.values[name] = values.untyped_value(name, value)
        scope.later.add(name)

    def _results(
        self, node: Node, scope: Scope, wanted: Sequence[bool]
    ) -> "Sequence[GraphValue | ir.Value | np.ndarray | None]":
        opset = scope.opset(node)
        function = self._functions.of_model(node)
        inputs = [scope.find(name) for name in node.inputs]
        for name in node.reads:
            scope.find(name)
        protos = resolve_references(node.proto.attribute, scope.attrs)
        if function is not None:
            return self._call(node, function, inputs, protos, scope, wanted)
        check_node(node, opset)
        attrs = {
            name: attribute_value(proto, self._weights)
            for name, proto in protos.items()
            if name not in node.bodies
        }
        count = len(node.outputs)
        if node.op_type == "Cast" and _is_scalar(inputs[0]):
            inputs = [self._folded(inputs[0])]  # often a size, as in a Resize pattern
        found = shape_values.evaluate(node.op_type, attrs, inputs, outputs=count)
        if found is not None:
            names = node.outputs
            return [
                values.symbolic_value(n, *f) for n, f in zip(names, found, strict=False)
            ]
        array = values.fold_cast(node.op_type, attrs, inputs)
        if array is not None:
            return [array]
        rule = find_onnx_rule(node.op_type, opset)
        if rule is not None:
            try:
                return self._emitter.apply(rule, node, inputs, attrs, scope, wanted)
            except UseFunctionBodyError as left:
                protos = {n: p for n, p in protos.items() if n not in left.dropped}
        function = self._functions.of_standard(node, opset, inputs, protos.values())
        if function is None:
            raise _NoRuleError
        opsets = {"": onnx_opset_version(), **scope.opsets, **function.opsets}
        function = replace(function, opsets=opsets)
        return self._call(node, function, inputs, protos, scope, wanted)

    def _bind(
        self,
        node: Node,
        results: "Sequence[GraphValue | ir.Value | np.ndarray | None]",
        wanted: Sequence[bool],
        scope: Scope,
    ) -> None:
        """Bind the results to their names; unused results may be missing."""
        bound: dict[str, GraphValue] = {}
        count = len(node.outputs)
        for index, name in enumerate(node.outputs):
            result = results[index] if index < len(results) else None
            if result is not None and name:
                bound[name] = self._emitter.named(name, result)
            elif name and wanted[index]:
                raise NotImplementedError(
                    f"output {index} of {count} (`{name}`) is not supported"
                )
        scope.values.update(bound)

    def _call(
        self,
        node: Node,
        function: Function,
        inputs: Sequence[GraphValue | None],
        attrs: Mapping[str, onnx.AttributeProto],
        scope: Scope,
        wanted: Sequence[bool],
    ) -> list[GraphValue | None]:
        """Expand a function call: build the callee's body with the call's operands."""
        graph = function.graph
        if len(inputs) > len(graph.inputs):
            raise ValueError(
                f"too many inputs: expected {len(graph.inputs)}, got {len(inputs)}"
            )
        for name, is_read in zip(graph.outputs, wanted, strict=False):
            if is_read and name in graph.free:
                raise ValueError(f"no node of the function defines its output `{name}`")
        self._expanded += len(graph.nodes)
        depth = self._calls + self._inlined
        if depth >= _MAX_CALLS or self._expanded > _MAX_EXPANDED:
            raise ValueError(
                f"function calls are nested deeper than {_MAX_CALLS} levels, or expand to "
                f"more than {_MAX_EXPANDED} nodes"
            )
        inner = Scope(
            with_default_opsets(function.opsets),
            f"{scope.path}{node.name}/",
            attrs={**function.defaults, **attrs},
            values=dict(zip_longest(graph.inputs, inputs)),
        )
        is_wanted = dict(zip(graph.outputs, wanted, strict=False))
        outputs = [n for n, is_read in is_wanted.items() if is_read]
        self._calls += 1
        known = len(self._report.problems)
        try:
            self._run(graph, outputs, inner)
        except (_NotTopError, DeferredError):
            if self._calls > 1:
                raise
            del self._report.problems[known:]  # inlining reports them again
            raise _InlineError(function, inner.attrs) from None
        finally:
            self._calls -= 1
        return [inner.find(n) if n in outputs else None for n in graph.outputs]


def _mlir_type(type_: InputType | None) -> ir.Type:
    """The type of a parameter; ``!relax.object`` if it is not a tensor."""
    if type_ is None:
        return ir.Type.parse("!relax.object")
    return tensors.tensor_type(*type_)


def _is_scalar(value: GraphValue | None) -> bool:
    """Whether a value has exactly one element."""
    return value is not None and all(size == 1 for size in value.shape)


def _strings(names: "Mapping[str, Any] | Sequence[str]") -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])

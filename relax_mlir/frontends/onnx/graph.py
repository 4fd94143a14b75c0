"""Graph IR of the importer: ONNX graphs with resolved names and topologically sorted nodes."""

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import AttributeProto, TensorProto

from relax_mlir.errors import near_misses
from relax_mlir.frontends.onnx.attributes import attribute_type, resolve_references

__all__ = [
    "Graph",
    "Node",
    "check_closed",
    "defined_names",
    "identity_node",
    "inlined_body",
    "live_nodes",
    "operator_name",
    "opset_of",
    "plain_domain",
    "read_function",
    "read_graph",
    "walk_nodes",
    "with_prefix",
]

# Each level nests three messages; protobuf accepts a depth of 100.
MAX_NESTING = 30

# Metadata key of a node's own opset, if it is not the model's.
_OPSET = "relax.opset"
_ADDED_OPSET = "13"  # of nodes that the importer adds, regardless of the model's opset


@dataclass(frozen=True, eq=False)
class Node:
    """A node: one application of an operator.

    Attributes:
        op_type: the operator, as ``Name``, or ``domain::Name`` outside ai.onnx.
        domain: the operator's domain; "" for ai.onnx.
        name: its own name, or that of its first output.
        inputs, outputs: names of values; "" for an omitted one.
        proto: the message it was read from.
        bodies: its graph attributes.
        opset: the version of its domain, if it differs from the model's.
    """

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    proto: onnx.NodeProto
    bodies: Mapping[str, "Graph"]
    opset: int | None = None

    @cached_property
    def reads(self) -> frozenset[str]:
        """The values it uses, including those that its bodies capture."""
        captured = (name for body in self.bodies.values() for name in body.free)
        return frozenset(name for name in (*self.inputs, *captured) if name)

    def __str__(self) -> str:
        """The node as error messages show it."""
        return f"node `{self.name}` ({self.op_type})"


@dataclass(frozen=True, eq=False)
class Graph:
    """An ONNX graph: of a model, of a node's graph attribute, or of a function body.

    Attributes:
        inputs, outputs: names of values.
        types: declared types of inputs.
        initializers: weights and other constants, by name.
        nodes: in topological order.
        free: values that are used here and defined outside.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, onnx.TypeProto]
    initializers: Mapping[str, onnx.TensorProto]
    nodes: tuple[Node, ...]
    free: frozenset[str]


def read_graph(proto: onnx.GraphProto, depth: int = 0) -> Graph:
    """Read a graph and everything nested in it.

    Raises:
        ValueError: graphs are nested too deeply, a name is defined twice, nodes form a
            cycle, or an attribute is invalid.
        NotImplementedError: the graph has sparse initializers.
    """
    if depth > MAX_NESTING:
        raise ValueError(f"graphs are nested deeper than {MAX_NESTING} levels")
    if proto.sparse_initializer:
        raise NotImplementedError("sparse initializers are not supported")
    _check_names((tensor.name for tensor in proto.initializer), "initializer")
    _check_names((value.name for value in proto.input), "input")
    _check_names((value.name for value in proto.output), "output")
    initializers = {tensor.name: tensor for tensor in proto.initializer}
    is_text = {n: t.data_type == TensorProto.STRING for n, t in initializers.items()}
    texts = [_text_node(t, depth) for n, t in initializers.items() if is_text[n]]
    numbers = {n: t for n, t in initializers.items() if not is_text[n]}
    given = (value for value in proto.input if not is_text.get(value.name))
    types = {value.name: value.type for value in given}
    nodes = [_read_node(node, i, depth) for i, node in enumerate(proto.node)]
    outputs = tuple(value.name for value in proto.output)
    return _assembled(outputs, types, numbers, [*texts, *nodes])


def _text_node(tensor: onnx.TensorProto, depth: int) -> Node:
    """A Constant node for an initializer of strings, which cannot be a weight."""
    value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    proto = onnx.NodeProto(op_type="Constant", output=[tensor.name], attribute=[value])
    proto.metadata_props.add(key=_OPSET, value=_ADDED_OPSET)
    return _read_node(proto, 0, depth)


def read_function(proto: onnx.FunctionProto) -> Graph:
    """Read the body of a function.

    Raises:
        ValueError, NotImplementedError: as for :func:`read_graph`, or a node uses an
            undefined value. Outputs may be undefined: rarely used ones often are.
    """
    _check_names(proto.input, "input")
    nodes = [_read_node(node, i, 0) for i, node in enumerate(proto.node)]
    types = {name: onnx.TypeProto() for name in proto.input}
    graph = _assembled(tuple(proto.output), types, {}, nodes)
    _check_reads(graph)
    return graph


def check_closed(graph: Graph) -> None:
    """Check that a graph defines all values it uses.

    Raises:
        ValueError: a value is undefined.
    """
    _check_reads(graph)
    for name in graph.outputs:
        if name in graph.free:
            near = _near(name, _defined(graph))
            raise ValueError(f"no node defines the output `{name}`.{near}")


def _defined(graph: Graph) -> set[str]:
    outputs = (name for node in graph.nodes for name in node.outputs)
    return {*graph.inputs, *graph.initializers, *outputs}


def _check_reads(graph: Graph) -> None:
    if not graph.free:
        return
    defined = _defined(graph)
    for node in graph.nodes:
        for name in sorted(node.reads & graph.free):
            raise ValueError(
                f"{node}: reads `{name}`, which is not defined.{_near(name, defined)}"
            )


def _near(name: str, defined: set[str]) -> str:
    """A hint with similar names; empty if the search would take long."""
    if len(defined) > 2000 or len(name) > 200:
        return ""
    return near_misses(name, {other for other in defined if len(other) <= 200})


def live_nodes(graph: Graph, outputs: Iterable[str]) -> list[Node]:
    """The nodes that these outputs depend on, in topological order."""
    needed = set(outputs)
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed |= node.reads
            kept.append(node)
    return kept[::-1]


def identity_node(source: str, name: str) -> Node:
    """An Identity node, which gives a value a second name."""
    proto = onnx.NodeProto(
        op_type="Identity", input=[source], output=[name], name=f"{name}/again"
    )
    proto.metadata_props.add(key=_OPSET, value=_ADDED_OPSET)
    return _read_node(proto, 0, 0)


def defined_names(graph: Graph) -> set[str]:
    """The names of all values that a graph defines."""
    return _defined(graph) - {""}


def with_prefix(graph: Graph, prefix: str) -> Graph:
    """A graph with ``prefix`` before the names of the values that it defines."""
    names = {name: prefix + name for name in defined_names(graph)}
    nodes = []
    for node in graph.nodes:
        proto = _copy(node)
        _rename_node(proto, names)
        nodes.append(_read_node(proto, 0, 0))
    own = {names[name]: tensor for name, tensor in graph.initializers.items()}
    types = {names[name]: type_ for name, type_ in graph.types.items()}
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return _assembled(outputs, types, own, nodes)


def inlined_body(
    graph: Graph,
    prefix: str,
    inputs: Mapping[str, str],
    attributes: Mapping[str, onnx.AttributeProto],
    opsets: Mapping[str, int],
) -> Graph:
    """A function body as a graph to inline at a call.

    Args:
        graph: the body.
        prefix: put before the names of the values that it defines.
        inputs: the caller's values by input of the body; "" for an omitted one.
        attributes: those of the call.
        opsets: versions of its domains, where they differ from the caller's.
    """
    names = {**{name: prefix + name for name in defined_names(graph)}, **inputs}
    nodes = []
    for node in graph.nodes:
        proto = _copy(node)
        _bind_attributes(proto, attributes, opsets)
        _rename_node(proto, names)
        nodes.append(_read_node(proto, 0, 0))
    # Rarely used outputs may be undefined.
    return _assembled(tuple(names.get(n, "") for n in graph.outputs), {}, {}, nodes)


def _copy(node: Node) -> onnx.NodeProto:
    """A copy of a node's message; an unnamed node gets its generated name."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node.proto)
    copy.name = node.name
    return copy


def _bind_attributes(
    proto: onnx.NodeProto,
    attributes: Mapping[str, onnx.AttributeProto],
    opsets: Mapping[str, int],
) -> None:
    """Resolve attribute references of a node and its graphs, and record their opsets."""
    domain = plain_domain(proto.domain)
    if domain in opsets and all(p.key != _OPSET for p in proto.metadata_props):
        proto.metadata_props.add(key=_OPSET, value=str(opsets[domain]))
    kept = resolve_references(proto.attribute, attributes)
    del proto.attribute[:]
    proto.attribute.extend(kept.values())
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for node in attribute.g.node:
                _bind_attributes(node, attributes, opsets)


def _rename_node(proto: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename a node's operands and results, and the captures of its graphs."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_body(attribute.g, names)


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename a graph's captures, and its own names that would shadow the new ones."""
    own = {*(v.name for v in body.input), *(t.name for t in body.initializer)}
    own |= {name for node in body.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for name in own.intersection(outer.values()) - {""}:
        outer[name] = _free_name(name, {*own, *_names_in(body), *outer.values()})
    for value in (*body.input, *body.initializer, *body.output):
        value.name = outer.get(value.name, value.name)
    for node in body.node:
        _rename_node(node, outer)


def _names_in(body: onnx.GraphProto) -> Iterator[str]:
    """All names that nodes use, including those in nested graphs."""
    for node in body.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from (value.name for value in attribute.g.output)
                yield from _names_in(attribute.g)


def _free_name(preferred: str, taken: Container[str]) -> str:
    """``preferred``, with underscores appended until it is not taken."""
    name = preferred
    while name in taken:
        name += "_"
    return name


def walk_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes, including those of nested bodies."""
    for node in graph.nodes:
        yield node
        for body in node.bodies.values():
            yield from walk_nodes(body)


def plain_domain(domain: str) -> str:
    """The canonical name of a domain: "" for ai.onnx."""
    return "" if domain == "ai.onnx" else domain


def operator_name(domain: str, name: str) -> str:
    """The qualified operator name: ``name``, or ``domain::name`` outside ai.onnx."""
    return f"{domain}::{name}" if plain_domain(domain) else name


def _text(names: "Iterable[str | bytes]") -> tuple[str, ...]:
    """Names as strings; protobuf returns bytes for invalid UTF-8."""
    found: list[str] = []
    for name in names:
        if isinstance(name, bytes):
            raise ValueError(f"a name is not UTF-8 text: {name[:80]!r}")
        found.append(name)
    return tuple(found)


def _check_names(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in _text(names):
        if not name:
            raise ValueError(f"an {what} has no name")
        if name in seen:
            raise ValueError(f"two {what}s are called `{name}`")
        seen.add(name)


def _read_node(proto: onnx.NodeProto, index: int, depth: int) -> Node:
    _text((proto.domain, proto.op_type, proto.name))
    domain = plain_domain(proto.domain)
    op_type = operator_name(domain, proto.op_type)
    inputs, outputs = _text(proto.input), _text(proto.output)
    named = proto.name or next(filter(None, outputs), f"{op_type}_{index}")
    bodies: dict[str, Graph] = {}
    seen: set[str] = set()
    for attribute in proto.attribute:
        _text((attribute.name, attribute.ref_attr_name))
        if attribute.name in seen:
            raise ValueError(
                f"node `{named}` ({op_type}): attribute `{attribute.name}` occurs twice"
            )
        seen.add(attribute.name)
        if attribute.ref_attr_name:
            continue
        if attribute_type(attribute) == AttributeProto.GRAPH:
            bodies[attribute.name] = read_graph(attribute.g, depth + 1)
    return Node(op_type, domain, named, inputs, outputs, proto, bodies, opset_of(proto))


def opset_of(proto: onnx.NodeProto) -> int | None:
    """The opset recorded on a node, if it differs from the model's."""
    found = [p.value for p in proto.metadata_props if p.key == _OPSET]
    return int(found[0]) if found and found[0].isdecimal() else None


def _assembled(
    outputs: tuple[str, ...],
    types: Mapping[str, onnx.TypeProto],
    initializers: Mapping[str, onnx.TensorProto],
    nodes: Sequence[Node],
) -> Graph:
    producers = _producers(nodes, {*types, *initializers})
    defined = {*types, *initializers, *producers}
    free = {name for node in nodes for name in node.reads if name not in defined}
    free.update(name for name in outputs if name not in defined)
    ordered = _topological_order(nodes, producers)
    inputs = tuple(types)
    return Graph(inputs, outputs, types, initializers, ordered, frozenset(free))


def _producers(nodes: Sequence[Node], given: set[str]) -> dict[str, int]:
    """The index of the node that defines each value."""
    producers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in given:
                raise ValueError(
                    f"{node}: defines `{name}`, which is an input or initializer"
                )
            if name in producers:
                raise ValueError(
                    f"{node}: defines `{name}`, as {nodes[producers[name]]} does"
                )
            producers[name] = index
    return producers


def _topological_order(
    nodes: Sequence[Node], producers: Mapping[str, int]
) -> tuple[Node, ...]:
    """The nodes in topological order, as close to the given order as it allows."""
    needs = [{producers[n] for n in node.reads if n in producers} for node in nodes]
    if all(max(before, default=-1) < index for index, before in enumerate(needs)):
        return tuple(nodes)
    users: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needs):
        for producer in before:
            users[producer].append(index)
    waiting = list(map(len, needs))
    ready = [index for index, count in enumerate(waiting) if not count]
    ordered: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(ordered) < len(nodes):
        raise ValueError(_cycle(nodes, needs, set(range(len(nodes))) - set(ordered)))
    return tuple(nodes[index] for index in ordered)


def _cycle(nodes: Sequence[Node], needs: Sequence[set[int]], left: set[int]) -> str:
    """An error message for one cycle; each node in ``left`` depends on another in it."""
    path: dict[int, int] = {}
    index = min(left)
    while index not in path:
        path[index] = len(path)
        index = min(needs[index] & left)
    names = [f"`{nodes[i].name}`" for i in list(path)[path[index] :]]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"nodes depend on each other in a cycle: {shown}"

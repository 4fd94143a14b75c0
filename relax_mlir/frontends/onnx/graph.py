"""The graph as Python values: names resolved, nodes in order, nested bodies read."""

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import AttributeProto, TensorProto

from relax_mlir.errors import near_misses
from relax_mlir.frontends.onnx.attributes import attribute_type, resolved

__all__ = [
    "Graph",
    "Node",
    "check_closed",
    "identity",
    "inlined",
    "live_nodes",
    "made_by",
    "operator_name",
    "opset_of",
    "plain_domain",
    "read_function",
    "read_graph",
    "renamed",
    "walk_nodes",
]

# Each level is three messages, of which protobuf itself accepts 100 in a file.
MAX_NESTING = 30

# Where a node keeps the opset that it is of, if it is not the model's.
_OPSET = "relax.opset"
_ADDED_OPSET = "13"  # of nodes that the model does not have, whatever it imports


@dataclass(frozen=True, eq=False)
class Node:
    """One node.

    Attributes:
        op_type: the operator, as ``Name``, or ``domain::Name`` outside ai.onnx.
        domain: of the operator; ai.onnx is "".
        name: its own, or its first output's.
        inputs, outputs: names of values; "" where one is left out.
        bodies: the graphs among its attributes.
        opset: of its domain, if it is not what the model imports.
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
        """Every value it needs, what its bodies take from outside included."""
        captured = (name for body in self.bodies.values() for name in body.free)
        return frozenset(name for name in (*self.inputs, *captured) if name)

    def __str__(self) -> str:
        """As error messages show it."""
        return f"node `{self.name}` ({self.op_type})"


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, a body or a function.

    Attributes:
        inputs, outputs: names of values.
        types: declared types of inputs.
        initializers: values that come with the graph, by name.
        nodes: each after the makers of what it reads.
        free: what is read and made outside.
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
        ValueError: nested too deeply, a name given twice, a cycle, a damaged attribute.
        NotImplementedError: it holds something that is not supported at all.
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
    """The node that makes text of the graph, which is no weight."""
    value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    proto = onnx.NodeProto(op_type="Constant", output=[tensor.name], attribute=[value])
    proto.metadata_props.add(key=_OPSET, value=_ADDED_OPSET)
    return _read_node(proto, 0, depth)


def read_function(proto: onnx.FunctionProto) -> Graph:
    """Read the body of a function.

    Raises:
        ValueError, NotImplementedError: as for a graph; or a node reads what nobody
            makes. Outputs may be missing: those that few callers want often are.
    """
    _check_names(proto.input, "input")
    nodes = [_read_node(node, i, 0) for i, node in enumerate(proto.node)]
    types = {name: onnx.TypeProto() for name in proto.input}
    graph = _assembled(tuple(proto.output), types, {}, nodes)
    _check_reads(graph)
    return graph


def check_closed(graph: Graph) -> None:
    """Check that all values that a graph needs are made in it.

    Raises:
        ValueError: one is not.
    """
    _check_reads(graph)
    for name in graph.outputs:
        if name in graph.free:
            near = _near(name, _made(graph))
            raise ValueError(f"nothing makes the output `{name}`.{near}")


def _made(graph: Graph) -> set[str]:
    outputs = (name for node in graph.nodes for name in node.outputs)
    return {*graph.inputs, *graph.initializers, *outputs}


def _check_reads(graph: Graph) -> None:
    if not graph.free:
        return
    made = _made(graph)
    for node in graph.nodes:
        for name in sorted(node.reads & graph.free):
            raise ValueError(
                f"{node}: reads `{name}`, which nothing makes.{_near(name, made)}"
            )


def _near(name: str, made: set[str]) -> str:
    """Similar names, unless it would take long to find them."""
    if len(made) > 2000 or len(name) > 200:
        return ""
    return near_misses(name, {other for other in made if len(other) <= 200})


def live_nodes(graph: Graph, outputs: Iterable[str]) -> list[Node]:
    """The nodes that these outputs depend on, in order."""
    needed = set(outputs)
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed |= node.reads
            kept.append(node)
    return kept[::-1]


def identity(source: str, name: str) -> Node:
    """A node that gives a value a second name."""
    proto = onnx.NodeProto(
        op_type="Identity", input=[source], output=[name], name=f"{name}/again"
    )
    proto.metadata_props.add(key=_OPSET, value=_ADDED_OPSET)
    return _read_node(proto, 0, 0)


def made_by(graph: Graph) -> set[str]:
    """All names that a graph gives to values of its own."""
    return _made(graph) - {""}


def renamed(graph: Graph, prefix: str) -> Graph:
    """A graph whose own values have names that begin with ``prefix``."""
    names = {name: prefix + name for name in made_by(graph)}
    nodes = []
    for node in graph.nodes:
        proto = _copy(node)
        _rename_node(proto, names)
        nodes.append(_read_node(proto, 0, 0))
    own = {names[name]: tensor for name, tensor in graph.initializers.items()}
    types = {names[name]: type_ for name, type_ in graph.types.items()}
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return _assembled(outputs, types, own, nodes)


def inlined(
    graph: Graph,
    prefix: str,
    inputs: Mapping[str, str],
    attributes: Mapping[str, onnx.AttributeProto],
    opsets: Mapping[str, int],
) -> Graph:
    """The body of a function as a graph that stands where the function is called.

    Args:
        graph: the body.
        prefix: what the names of its own values begin with then.
        inputs: what the caller calls its inputs; "" where one is left out.
        attributes: of the call.
        opsets: of its domains, where the caller has others.
    """
    names = {**{name: prefix + name for name in made_by(graph)}, **inputs}
    nodes = []
    for node in graph.nodes:
        proto = _copy(node)
        _settle(proto, attributes, opsets)
        _rename_node(proto, names)
        nodes.append(_read_node(proto, 0, 0))
    # Outputs that few callers want may be made by no node.
    return _assembled(tuple(names.get(n, "") for n in graph.outputs), {}, {}, nodes)


def _copy(node: Node) -> onnx.NodeProto:
    """A node's message, to be renamed; the name of the node itself is kept."""
    made = onnx.NodeProto()
    made.CopyFrom(node.proto)
    made.name = node.name
    return made


def _settle(
    proto: onnx.NodeProto,
    attributes: Mapping[str, onnx.AttributeProto],
    opsets: Mapping[str, int],
) -> None:
    """Let a node, and all in its graphs, depend on no function's call any more."""
    domain = plain_domain(proto.domain)
    if domain in opsets and all(p.key != _OPSET for p in proto.metadata_props):
        proto.metadata_props.add(key=_OPSET, value=str(opsets[domain]))
    kept = resolved(proto.attribute, attributes)
    del proto.attribute[:]
    proto.attribute.extend(kept.values())
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for node in attribute.g.node:
                _settle(node, attributes, opsets)


def _rename_node(proto: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what a node reads and makes, and what its graphs read from outside."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_body(attribute.g, names)


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a graph reads from outside, and those of its own names in the way."""
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
    """All names that nodes read, those of nested graphs included."""
    for node in body.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from (value.name for value in attribute.g.output)
                yield from _names_in(attribute.g)


def _free_name(wish: str, taken: Container[str]) -> str:
    """A name that is not taken."""
    while wish in taken:
        wish += "_"
    return wish


def walk_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes, those of nested bodies included."""
    for node in graph.nodes:
        yield node
        for body in node.bodies.values():
            yield from walk_nodes(body)


def plain_domain(domain: str) -> str:
    """The domain in the one spelling used here: ai.onnx is ""."""
    return "" if domain == "ai.onnx" else domain


def operator_name(domain: str, name: str) -> str:
    """``name``, or ``domain::name`` outside ai.onnx."""
    return f"{domain}::{name}" if plain_domain(domain) else name


def _text(names: "Iterable[str | bytes]") -> tuple[str, ...]:
    """Names as text; protobuf gives bytes where they are no UTF-8."""
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
                f"node `{named}` ({op_type}): attribute `{attribute.name}` is given twice"
            )
        seen.add(attribute.name)
        if attribute.ref_attr_name:
            continue
        if attribute_type(attribute) == AttributeProto.GRAPH:
            bodies[attribute.name] = read_graph(attribute.g, depth + 1)
    return Node(op_type, domain, named, inputs, outputs, proto, bodies, opset_of(proto))


def opset_of(proto: onnx.NodeProto) -> int | None:
    """The opset of a node, if it is not what its model imports."""
    found = [p.value for p in proto.metadata_props if p.key == _OPSET]
    return int(found[0]) if found and found[0].isdecimal() else None


def _assembled(
    outputs: tuple[str, ...],
    types: Mapping[str, onnx.TypeProto],
    initializers: Mapping[str, onnx.TensorProto],
    nodes: Sequence[Node],
) -> Graph:
    makers = _makers(nodes, {*types, *initializers})
    given = {*types, *initializers, *makers}
    free = {name for node in nodes for name in node.reads if name not in given}
    free.update(name for name in outputs if name not in given)
    ordered = _in_order(nodes, makers)
    inputs = tuple(types)
    return Graph(inputs, outputs, types, initializers, ordered, frozenset(free))


def _makers(nodes: Sequence[Node], given: set[str]) -> dict[str, int]:
    """From each value to the index of the node that makes it."""
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in given:
                raise ValueError(
                    f"{node}: makes `{name}`, which is an input or initializer"
                )
            if name in makers:
                raise ValueError(
                    f"{node}: makes `{name}`, as {nodes[makers[name]]} does"
                )
            makers[name] = index
    return makers


def _in_order(nodes: Sequence[Node], makers: Mapping[str, int]) -> tuple[Node, ...]:
    """The nodes, each after the makers of what it reads; else in the given order."""
    needs = [{makers[n] for n in node.reads if n in makers} for node in nodes]
    if all(max(before, default=-1) < index for index, before in enumerate(needs)):
        return tuple(nodes)
    users: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needs):
        for maker in before:
            users[maker].append(index)
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
    """Names the nodes of one cycle; every node in ``left`` waits for another there."""
    path: dict[int, int] = {}
    index = min(left)
    while index not in path:
        path[index] = len(path)
        index = min(needs[index] & left)
    names = [f"`{nodes[i].name}`" for i in list(path)[path[index] :]]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"nodes wait for each other in a cycle: {shown}"

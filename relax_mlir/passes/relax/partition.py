"""Groups of operations by post-dominators, as TVM's fusion finds them.

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning,
OSDI 2018, section 3; the order of phases and the conditions are those of TVM's
``GraphPartitioner``.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from relax_mlir.op_patterns import Pattern

__all__ = ["Graph", "Node", "partition"]


@dataclass(eq=False)
class Node:
    """A value.

    Attributes:
        key: the value.
        pattern: what kind of operation makes it.
        is_seen_outside: whether it must stay a value of its own.
        readers: each with the kind by which it reads.
    """

    key: Hashable
    pattern: Pattern
    is_seen_outside: bool = False
    readers: "list[tuple[Node, Pattern]]" = field(default_factory=list)
    # The closest node that all readers lead to, with the highest kind on the way.
    dominator: "Node | None" = None
    path: Pattern = Pattern.OPAQUE
    depth: int = 1
    # The group that it is in, as a tree that leads to one node.
    parent: "Node | None" = None
    size: int = 1
    group_pattern: Pattern = Pattern.OPAQUE

    def __post_init__(self) -> None:
        self.group_pattern = self.pattern

    def group(self) -> "Node":
        """The node that stands for its group."""
        if self.parent is None:
            return self
        self.parent = self.parent.group()
        return self.parent

    def merge_into(self, other: "Node") -> None:
        """Put its group into that of another node."""
        mine, theirs = self.group(), other.group()
        if mine is not theirs:
            theirs.size += mine.size
            mine.parent = theirs
            theirs.group_pattern = max(mine.group_pattern, theirs.group_pattern)


class Graph:
    """Values and who reads them, in the order in which they are made."""

    def __init__(self) -> None:
        self.nodes: dict[Hashable, Node] = {}

    def add(self, key: Hashable, pattern: Pattern, *, is_seen_outside: bool) -> Node:
        """A new value."""
        self.nodes[key] = Node(key, pattern, is_seen_outside)
        return self.nodes[key]

    def read(self, key: Hashable, reader: Node, pattern: Pattern) -> None:
        """``reader`` reads a value; one that is new comes from outside."""
        node = self.nodes.get(key)
        if node is None:
            node = self.add(key, Pattern.OPAQUE, is_seen_outside=True)
        node.readers.append((reader, pattern))


def partition(graph: Graph, *, max_depth: int) -> None:
    """Merge the nodes of a graph into groups of at most ``max_depth`` nodes."""
    order = list(graph.nodes.values())
    _find_dominators(order)
    for phase in range(3):
        for node in order:
            _fuse(node, phase, max_depth)


def _find_dominators(order: list[Node]) -> None:
    # Values from outside are added late: their readers come first all the same.
    for node in reversed(order):
        if node.is_seen_outside or not node.readers:
            continue
        node.path = Pattern.ELEMENTWISE
        (first, pattern), *others = node.readers
        node.path = max(node.path, pattern)
        common: Node | None = first
        for reader, pattern in others:
            common = _common(common, reader, node)
            node.path = max(node.path, pattern)
        node.dominator = common
        node.depth = 1 if common is None else common.depth + 1


def _common(a: Node | None, b: Node | None, node: Node) -> Node | None:
    """The closest node that both lead to; ``node.path`` learns the kinds on the way."""
    while a is not b:
        if a is None or b is None:
            return None
        if a.depth < b.depth:
            node.path = max(node.path, b.path)
            b = b.dominator
        elif b.depth < a.depth:
            node.path = max(node.path, a.path)
            a = a.dominator
        else:
            node.path = max(node.path, a.path, b.path)
            a, b = a.dominator, b.dominator
    return a


def _fuse(node: Node, phase: int, max_depth: int) -> None:
    """Put a node into the group of its post-dominator, if the phase allows it."""
    sink = node.dominator
    if node.group_pattern is Pattern.OPAQUE or sink is None:
        return
    between = sum(n.size for n in _between(node, sink))
    if between + sink.group().size > max_depth:
        return
    condition = _condition(node, sink, phase)
    if condition is not None and _all_paths(node, sink, condition):
        for each in _between(node, sink):
            each.merge_into(sink)


_Condition = Callable[[Pattern, bool], bool]


def _condition(node: Node, sink: Node, phase: int) -> _Condition | None:
    """What must hold of the groups from a node to its sink; None to leave it."""
    kind = node.group_pattern
    if phase == 2:
        return _tuple_condition(kind, sink)
    if node.group() is sink.group() or sink.group_pattern is Pattern.TUPLE:
        return None
    if kind is Pattern.OUT_FUSABLE:
        is_first = phase == 0 and node.path is Pattern.ELEMENTWISE
        return _is_broadcast if is_first else None
    if kind <= Pattern.BROADCAST:
        fits = node.path <= Pattern.INJECTIVE or node.path is Pattern.REDUCTION
        return _takes_maps if fits else None
    if kind in (Pattern.INJECTIVE, Pattern.TUPLE):
        return _is_injective if phase == 1 else None
    return None


def _tuple_condition(kind: Pattern, sink: Node) -> _Condition | None:
    root = sink.group()
    if kind > Pattern.INJECTIVE or root.group_pattern is Pattern.TUPLE:
        return None
    is_fused = sink.group_pattern is Pattern.TUPLE
    return (
        _is_injective if is_fused and root.group_pattern <= Pattern.INJECTIVE else None
    )


def _is_broadcast(kind: Pattern, is_sink: bool) -> bool:
    return kind <= Pattern.BROADCAST


def _is_injective(kind: Pattern, is_sink: bool) -> bool:
    return kind <= Pattern.INJECTIVE


def _takes_maps(kind: Pattern, is_sink: bool) -> bool:
    """Maps on the way; at the end also what maps can be written into."""
    ends = (Pattern.REDUCTION, Pattern.OUT_FUSABLE)
    return kind <= Pattern.INJECTIVE or (is_sink and kind in ends)


def _all_paths(node: Node, sink: Node, condition: _Condition) -> bool:
    inner = [n for n in _between(node, sink) if n is not node]
    return all(condition(n.group().group_pattern, False) for n in inner) and condition(
        sink.group().group_pattern, True
    )


def _between(node: Node, sink: Node) -> Iterable[Node]:
    """The nodes on all paths from one to the other, without the latter."""
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        each = todo.pop()
        if each is not sink and each not in found:
            found[each] = None
            todo += [reader for reader, _ in each.readers]
    return list(found)

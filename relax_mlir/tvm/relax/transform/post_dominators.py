"""Fusion groups by post-dominator analysis, as in TVM.

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning,
OSDI 2018, section 3; the order of phases and the conditions are those of TVM's
``GraphPartitioner``.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from relax_mlir.analysis.tvm_op_pattern import TvmOpPatternKind

__all__ = ["DataflowGraph", "Node", "partition"]


@dataclass(eq=False)
class Node:
    """A value of the dataflow graph.

    Attributes:
        key: the value.
        pattern: op pattern kind of the operation that defines it.
        is_external: whether it has users outside the graph and must be materialised.
        users: its users, each with the op pattern kind of the use.
    """

    key: Hashable
    pattern: TvmOpPatternKind
    is_external: bool = False
    users: "list[tuple[Node, TvmOpPatternKind]]" = field(default_factory=list)
    # The immediate post-dominator, and the highest kind on the paths to it.
    dominator: "Node | None" = None
    path: TvmOpPatternKind = TvmOpPatternKind.OPAQUE
    depth: int = 1
    # Union-find: the parent in the group's tree.
    parent: "Node | None" = None
    size: int = 1
    group_pattern: TvmOpPatternKind = TvmOpPatternKind.OPAQUE

    def __post_init__(self) -> None:
        self.group_pattern = self.pattern

    def group(self) -> "Node":
        """The representative of its group (union-find with path compression)."""
        if self.parent is None:
            return self
        self.parent = self.parent.group()
        return self.parent

    def merge_into(self, other: "Node") -> None:
        """Merges its group into that of another node."""
        mine, theirs = self.group(), other.group()
        if mine is not theirs:
            theirs.size += mine.size
            mine.parent = theirs
            theirs.group_pattern = max(mine.group_pattern, theirs.group_pattern)


class DataflowGraph:
    """Values and their users, in program order."""

    def __init__(self) -> None:
        self.nodes: dict[Hashable, Node] = {}

    def add(
        self, key: Hashable, pattern: TvmOpPatternKind, *, is_external: bool
    ) -> Node:
        """Adds a value."""
        self.nodes[key] = Node(key, pattern, is_external)
        return self.nodes[key]

    def add_use(self, key: Hashable, reader: Node, pattern: TvmOpPatternKind) -> None:
        """Adds a use of a value by ``reader``; an unknown value comes from outside."""
        node = self.nodes.get(key)
        if node is None:
            node = self.add(key, TvmOpPatternKind.OPAQUE, is_external=True)
        node.users.append((reader, pattern))


def partition(graph: DataflowGraph, *, max_depth: int) -> None:
    """Merges the nodes of a graph into groups of at most ``max_depth`` nodes."""
    order = list(graph.nodes.values())
    _find_dominators(order)
    for phase in range(3):
        for node in order:
            _fuse(node, phase, max_depth)


def _find_dominators(order: list[Node]) -> None:
    # External values are added at their first use, and have no dominator to compute.
    for node in reversed(order):
        if node.is_external or not node.users:
            continue
        node.path = TvmOpPatternKind.ELEMENTWISE
        (first, pattern), *others = node.users
        node.path = max(node.path, pattern)
        common: Node | None = first
        for reader, pattern in others:
            common = _lowest_common_ancestor(common, reader, node)
            node.path = max(node.path, pattern)
        node.dominator = common
        node.depth = 1 if common is None else common.depth + 1


def _lowest_common_ancestor(a: Node | None, b: Node | None, node: Node) -> Node | None:
    """The lowest common ancestor in the post-dominator tree; updates ``node.path`` on the way."""
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
    """Merges a node into the group of its post-dominator, if the phase allows it."""
    sink = node.dominator
    if node.group_pattern is TvmOpPatternKind.OPAQUE or sink is None:
        return
    between = sum(n.size for n in _between(node, sink))
    if between + sink.group().size > max_depth:
        return
    condition = _condition(node, sink, phase)
    if condition is not None and _all_paths(node, sink, condition):
        for each in _between(node, sink):
            each.merge_into(sink)


_Condition = Callable[[TvmOpPatternKind, bool], bool]


def _condition(node: Node, sink: Node, phase: int) -> _Condition | None:
    """The condition on the groups from a node to its sink; None to leave the node."""
    kind = node.group_pattern
    if phase == 2:
        return _tuple_condition(kind, sink)
    if node.group() is sink.group() or sink.group_pattern is TvmOpPatternKind.TUPLE:
        return None
    if kind is TvmOpPatternKind.OUT_FUSABLE:
        is_first = phase == 0 and node.path is TvmOpPatternKind.ELEMENTWISE
        return _is_broadcast if is_first else None
    if kind <= TvmOpPatternKind.BROADCAST:
        fits = (
            node.path <= TvmOpPatternKind.INJECTIVE
            or node.path is TvmOpPatternKind.REDUCTION
        )
        return _accepts_injective_producers if fits else None
    if kind in (TvmOpPatternKind.INJECTIVE, TvmOpPatternKind.TUPLE):
        return _is_injective if phase == 1 else None
    return None


def _tuple_condition(kind: TvmOpPatternKind, sink: Node) -> _Condition | None:
    root = sink.group()
    if (
        kind > TvmOpPatternKind.INJECTIVE
        or root.group_pattern is TvmOpPatternKind.TUPLE
    ):
        return None
    is_fused = sink.group_pattern is TvmOpPatternKind.TUPLE
    return (
        _is_injective
        if is_fused and root.group_pattern <= TvmOpPatternKind.INJECTIVE
        else None
    )


def _is_broadcast(kind: TvmOpPatternKind, is_sink: bool) -> bool:
    return kind <= TvmOpPatternKind.BROADCAST


def _is_injective(kind: TvmOpPatternKind, is_sink: bool) -> bool:
    return kind <= TvmOpPatternKind.INJECTIVE


def _accepts_injective_producers(kind: TvmOpPatternKind, is_sink: bool) -> bool:
    """Injective on the path; a reduction or out-fusable sink may end it."""
    ends = (TvmOpPatternKind.REDUCTION, TvmOpPatternKind.OUT_FUSABLE)
    return kind <= TvmOpPatternKind.INJECTIVE or (is_sink and kind in ends)


def _all_paths(node: Node, sink: Node, condition: _Condition) -> bool:
    inner = [n for n in _between(node, sink) if n is not node]
    return all(condition(n.group().group_pattern, False) for n in inner) and condition(
        sink.group().group_pattern, True
    )


def _between(node: Node, sink: Node) -> Iterable[Node]:
    """The nodes on all paths from one to the other, excluding the latter."""
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        each = todo.pop()
        if each is not sink and each not in found:
            found[each] = None
            todo += [reader for reader, _ in each.users]
    return list(found)

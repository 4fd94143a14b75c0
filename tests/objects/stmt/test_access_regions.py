"""Access regions of blocks against the elements that an interpreter touches."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.access_regions import access_regions
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from tests.objects.prim.terms import value_of

_SIZE = 40
A, B = (Buffer((_SIZE,), "float32", name) for name in "AB")
TABLE = Buffer((_SIZE,), "int32", "table")
OWN = Buffer((_SIZE,), "int32", "own")
V, W = Var("v"), Var("w")
Values = dict[Var, int]


class Machine:
    """Interprets a block, and records the elements it touches in bounds.

    Attributes:
        touched: by ``reads`` and ``writes``, buffers and indices.
    """

    def __init__(self) -> None:
        self.touched: dict[str, set[tuple[int, int]]] = {
            "reads": set(),
            "writes": set(),
        }
        self.memory: dict[tuple[int, int], int] = {}

    def load(self, buffer: Buffer, place: int) -> int:
        """The value of an element; of index tables, a number that depends on the index."""
        return self.memory.get((id(buffer), place), place * 7 % 11)

    def value(self, term: PrimExpr, values: Values) -> int:
        """The value of an expression with loads."""
        for part in prim.post_order(term):
            if isinstance(part, BufferLoad):
                self.touch("reads", part.buffer, part.indices, values)
        return self.number(term, values)

    def number(self, term: PrimExpr, values: Values) -> int:
        if isinstance(term, BufferLoad):
            return self.load(term.buffer, self.number(term.indices[0], values))
        if term.children() and any(
            isinstance(p, BufferLoad) for p in prim.post_order(term)
        ):
            parts = [prim.const(self.number(c, values)) for c in term.children()]
            return value_of(term.with_children(parts), values)
        return value_of(term, values)

    def touch(
        self, kind: str, buffer: Buffer, indices: Sequence[PrimExpr], values: Values
    ) -> None:
        place = self.number(indices[0], values)
        if 0 <= place < _SIZE:
            self.touched[kind].add((id(buffer), place))

    def run(self, node: Any, values: Values) -> None:
        """Executes a statement, for values of the enclosing variables."""
        if isinstance(node, statements.SeqStmt):
            for inner in node.seq:
                self.run(inner, values)
        elif isinstance(node, statements.BufferStore):
            self.store(node, values)
        elif isinstance(node, statements.For):
            first = self.value(node.min, values)
            for step in range(self.value(node.extent, values)):
                self.run(node.body, {**values, node.loop_var: first + step})
        elif isinstance(node, statements.LetStmt):
            self.run(node.body, {**values, node.var: self.value(node.value, values)})
        elif isinstance(node, statements.IfThenElse):
            holds = self.value(node.condition, values)
            self.run(node.then_case if holds else node.else_case, values)
        else:
            assert isinstance(node, statements.BlockRealize)
            axes = [axis.var for axis in node.block.iter_vars]
            numbers = [self.value(v, values) for v in node.iter_values]
            self.run(
                node.block.body, {**values, **dict(zip(axes, numbers, strict=True))}
            )

    def store(self, node: statements.BufferStore, values: Values) -> None:
        (index,) = node.indices
        place, value = self.value(index, values), self.value(node.value, values)
        self.touch("writes", node.buffer, node.indices, values)
        if node.buffer.dtype == "int32":
            self.memory[id(node.buffer), place] = value


# Random blocks, as trees whose integers are variables in scope or numbers.

_BINARY = {
    "+": prim.Add,
    "-": prim.Sub,
    "min": prim.Min,
    "max": prim.Max,
    "*": prim.Mul,
    "//": prim.FloorDiv,
    "%": prim.FloorMod,
}
_variables = st.tuples(st.just("variable"), st.integers(0, 5))
_numbers = st.tuples(st.just("number"), st.integers(-3, 8))
_few = st.tuples(st.just("number"), st.integers(2, 4))
_factors = st.tuples(st.just("number"), st.sampled_from([-1, 2, 3]))
_indices: st.SearchStrategy[Any] = st.recursive(
    _variables | _numbers,
    lambda inner: (
        st.tuples(st.sampled_from(["+", "-", "min", "max"]), inner, inner)
        | st.tuples(st.just("*"), inner, _factors)
        | st.tuples(st.just("*"), _factors, inner)
        | st.tuples(st.sampled_from(["//", "%"]), inner, _few)
        | st.tuples(st.sampled_from(["table", "own"]), inner)
    ),
    max_leaves=4,
)
_buffers = st.sampled_from([A, B])
_stores = st.tuples(
    st.just("store"), _buffers, _indices, _buffers, _indices
) | st.tuples(st.just("number"), st.sampled_from([TABLE, OWN]), _indices, _indices)
_statements: st.SearchStrategy[Any] = st.recursive(
    _stores,
    lambda inner: (
        st.tuples(st.just("loop"), _indices, _indices, inner)
        | st.tuples(st.just("let"), _indices, inner)
        | st.tuples(st.just("if"), _indices, _indices, inner, inner)
        | st.tuples(st.just("sequence"), inner, inner)
        | st.tuples(st.just("block"), _indices, inner)
    ),
    max_leaves=4,
)


def term_of(tree: Any, scope: Sequence[Var]) -> PrimExpr:
    """The expression of a tree; variables are counted from the innermost."""
    kind, *parts = tree
    if kind == "variable":
        return scope[-1 - parts[0] % len(scope)]
    if kind == "number":
        return prim.const(parts[0])
    terms = [term_of(part, scope) for part in parts]
    if kind in ("table", "own"):
        return BufferLoad(TABLE if kind == "table" else OWN, [prim.Max(terms[0], 0)])
    return _BINARY[kind](*terms)


def statement_of(tree: Any, scope: Sequence[Var]) -> statements.Stmt:
    """The statement of a tree."""
    kind, *parts = tree
    if kind == "store":
        target, index, source, place = parts
        load = BufferLoad(source, [term_of(place, scope)])
        return statements.BufferStore(target, load, [term_of(index, scope)])
    if kind == "number":
        value, index = (term_of(part, scope) for part in parts[1:])
        return statements.BufferStore(parts[0], value, [index])
    if kind == "sequence":
        return statements.SeqStmt([statement_of(part, scope) for part in parts])
    if kind == "if":
        condition = prim.LT(*(term_of(part, scope) for part in parts[:2]))
        cases = [statement_of(part, scope) for part in parts[2:]]
        return statements.IfThenElse(condition, *cases)
    new = Var(f"x{len(scope)}")
    terms = [term_of(part, scope) for part in parts[:-1]]
    inner = statement_of(parts[-1], [*scope, new])
    if kind == "loop":
        extent = prim.Min(prim.Max(terms[1], 0), 4)
        return statements.For(new, terms[0], extent, statements.ForKind.SERIAL, inner)
    if kind == "let":
        return statements.LetStmt(new, terms[0], inner)
    axis = IterVar(Range(0, 4), new, IterVar.DataPar)
    return statements.BlockRealize(
        terms, True, statements.Block([axis], None, None, "inner", inner)
    )


def block_of(body: statements.Stmt, **options: Any) -> statements.Block:
    axes = [IterVar(Range(0, 6), var, IterVar.DataPar) for var in (V, W)]
    return statements.Block(axes, None, None, "b", body, **options)


def free_variables(regions: Sequence[BufferRegion]) -> set[Var]:
    terms = [t for r in regions for run in r.region for t in (run.min, run.extent)]
    return {p for t in terms for p in prim.post_order(t) if isinstance(p, Var)}


# The exact regions.

X, Y, Z = Var("x"), Var("y"), Var("z")
C, D = (Buffer((8, 6), "float32", name) for name in "CD")
_BOTH = "T.min(v, w):T.min(v, w) + (T.max(v, w) + 1 - T.min(v, w))"


def texts(body: statements.Stmt, **options: Any) -> tuple[list[str], list[str]]:
    """The read and write regions of a block, as scripts print them."""
    reads, writes = access_regions(block_of(body, **options))
    return list(map(str, reads)), list(map(str, writes))


def loop(var: Var, first: Any, extent: Any, body: statements.Stmt) -> statements.Stmt:
    return statements.For(var, first, extent, statements.ForKind.SERIAL, body)


def read(*indices: Any, buffer: Buffer = A) -> statements.Stmt:
    return statements.Evaluate(BufferLoad(buffer, indices))


def table(index: Any) -> PrimExpr:
    return BufferLoad(TABLE, [index])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (V + W, "v + w"),
        (X, "0:4"),
        (X * 2, "0:7"),
        (prim.Mul(2, X), "0:7"),
        (X * -2, "-6:1"),
        (X * 0, "0"),
        (prim.Mul(X, 0), "0"),
        (X * W, "0:40"),
        (3 - X, "0:4"),
        (V - X, "v - 3:v - 3 + 4"),
        (X + V, "v:v + 4"),
        (X // 2, "0:2"),
        (X // 1, "0:4"),
        (X // -2, "0:40"),
        (prim.FloorDiv(X, 0), "0:40"),
        (X // W, "0:40"),
        (X % 2, "0:2"),
        (X % 8, "0:4"),
        (X % -2, "0:40"),
        (prim.FloorMod(X, 0), "0:40"),
        (X % W, "0:40"),
        ((X + 8) % 4, "0:4"),
        ((X + V) % 8, "0:8"),
        (prim.FloorMod(X, 1), "0"),
        (prim.Min(X, V), "T.min(0, v):T.min(0, v) + (T.min(3, v) + 1 - T.min(0, v))"),
        (prim.Max(X, V), "T.max(0, v):T.max(0, v) + (T.max(3, v) + 1 - T.max(0, v))"),
        (prim.Cast("int64", X), "0:4"),
        (prim.Div(X, 2), "0:40"),
        (prim.Ramp(X, 1, 4), "0:7"),
        (prim.Ramp(V, 2, 4), "v:v + 7"),
        (prim.Broadcast(V, 4), "v"),
        (prim.Broadcast(prim.Ramp(V, 1, 2), 4), "v:v + 2"),
    ],
    ids=str,
)
def test_boxes_of_a_loop(index: PrimExpr, expected: str) -> None:
    assert texts(loop(X, 0, 4, read(index))) == ([f"A[{expected}]"], [])


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        (loop(X, V, 4, read(X)), ["A[v:v + 4]"]),
        (loop(X, 0, V, read(X)), ["A[0:v]"]),
        (loop(X, V, 8 - V, read(X)), ["A[v:v + (8 - v)]"]),
        (loop(X, 0, 4, loop(Y, X, 8 - X, read(Y))), ["A[0:8]"]),
        (loop(X, 0, 4, loop(Y, X * X, 2, read(Y))), ["A[0:40]"]),
        (loop(X, 0, 4, loop(Y, 0, X * X, read(Y + 1))), ["A[0:40]"]),
        (loop(X, 0, 4, loop(Y, 0, 3, read(X * 3 + Y))), ["A[0:12]"]),
        (loop(X, 1, 4, loop(Y, 5, 3, read(X + Y))), ["A[6:12]"]),
        (loop(X, 1, 4, loop(Y, 5, 3, read(Y - X))), ["A[1:7]"]),
        (loop(X, 1, 4, loop(Y, 3, 3, read(prim.Min(Y, X)))), ["A[1:5]"]),
        (loop(X, 1, 4, loop(Y, 3, 3, read(prim.Max(Y, X)))), ["A[3:6]"]),
        (loop(X, 5, 4, read(X // 2)), ["A[2:5]"]),
        (loop(X, 5, 4, read(X * 2)), ["A[10:17]"]),
        (loop(X, 5, 3, read(X % 8)), ["A[5:8]"]),
        (loop(X, 5, 3, read(X % 9)), ["A[5:8]"]),
        (loop(X, 0, table(V), read(X)), ["table[v]", "A[0:table[v]]"]),
        (loop(X, table(V), 2, read(W)), ["table[v]", "A[w]"]),
        (loop(X, 0, 4, read(table(X))), ["A[0:40]", "table[0:4]"]),
        (statements.LetStmt(X, V * 2, loop(Y, X, 3, read(Y))), ["A[v * 2:v * 2 + 3]"]),
        (statements.LetStmt(X, V, statements.LetStmt(Y, X + 1, read(Y))), ["A[v + 1]"]),
        (statements.LetStmt(X, table(V), read(X)), ["table[v]", "A[table[v]]"]),
        (loop(X, 0, 4, statements.LetStmt(Y, X * 2, loop(Z, Y, 3, read(Z)))), ["A[0:9]"]),
        (statements.SeqStmt([read(V), read(V + 2)]), ["A[v:v + 3]"]),
        (statements.SeqStmt([read(V), read(V), read(W), read(V)]), [f"A[{_BOTH}]"]),
        (
            statements.SeqStmt([read(V, W, buffer=C), read(V, W, buffer=D), read(V, W + 1, buffer=C)]),
            ["C[v, w:w + 2]", "D[v, w]"],
        ),
        (statements.IfThenElse(prim.LT(table(V), 3), read(V), read(W)), ["table[v]", f"A[{_BOTH}]"]),
        (statements.IfThenElse(prim.LT(V, 3), read(V)), ["A[v]"]),
        (statements.While(prim.LT(table(V), 3), read(V)), ["table[v]", "A[v]"]),
        (statements.AttrStmt(0, "k", table(V), read(W)), ["table[v]", "A[w]"]),
        (statements.AssertStmt(prim.LT(table(V), 3), "m", read(W)), ["table[v]", "A[w]"]),
    ],
)  # fmt: skip
def test_reads_of_statements(body: statements.Stmt, reads: list[str]) -> None:
    assert texts(body) == (reads, [])


@pytest.mark.parametrize(
    ("call", "reads", "writes"),
    [
        (A.access_ptr("r"), ["A[0:40]"], []),
        (A.access_ptr("w"), [], ["A[0:40]"]),
        (A.access_ptr("rw"), ["A[0:40]"], ["A[0:40]"]),
        (prim.Call("int32", "f", [A.data, 1]), ["A[0:40]"], ["A[0:40]"]),
        (prim.Call("int32", "tvm_access_ptr", [A.data, V]), ["A[0:40]"], ["A[0:40]"]),
        (prim.Call("int32", "f", [A.data, 3]), ["A[0:40]"], ["A[0:40]"]),
        (prim.Call("int32", "f", [Var("p", "handle"), 3]), [], []),
        (prim.Call("int32", "f", [C.data]), ["C[0:8, 0:6]"], ["C[0:8, 0:6]"]),
        (prim.Call("int32", "f", [BufferLoad(A, [V])]), ["A[v]"], []),
    ],
)
def test_foreign_functions_access_whole_buffers(
    call: PrimExpr, reads: list[str], writes: list[str]
) -> None:
    assert texts(statements.Evaluate(call)) == (reads, writes)


def test_accumulators_are_not_read() -> None:
    total = statements.BufferStore(A, BufferLoad(A, [V]) + BufferLoad(B, [W]), [V])
    init = statements.BufferStore(A, table(V), [V])

    assert texts(total) == (["A[v]", "B[w]"], ["A[v]"])
    assert texts(total, init=init) == (["table[v]", "B[w]"], ["A[v]"])


def test_indices_that_the_block_writes_are_unknown() -> None:
    write = statements.BufferStore(TABLE, 1, [V])
    counted = statements.SeqStmt([statements.BufferStore(A, 1.0, [table(0)]), write])
    local = statements.SeqStmt(
        [
            statements.BufferStore(OWN, 1, [V]),
            read(BufferLoad(OWN, [V])),
            read(V, buffer=OWN),
        ]
    )
    in_loop = loop(X, BufferLoad(OWN, [V]), 2, read(X))
    part = Buffer((3,), "int32", "part")
    match = statements.MatchBufferRegion(part, _box(TABLE, (3, 3)))
    matched = statements.SeqStmt(
        [statements.BufferStore(part, 1, [0]), read(BufferLoad(part, [V]))]
    )

    assert texts(counted) == (["table[0]"], ["A[0:40]", "table[v]"])
    assert texts(local, alloc_buffers=[OWN]) == (["A[0:40]"], [])
    assert texts(in_loop, alloc_buffers=[OWN]) == (["A[0:40]"], [])
    assert texts(matched, match_buffers=[match]) == (
        ["A[0:40]", "table[3 + v]"],
        ["table[3]"],
    )


def _box(buffer: Buffer, *runs: tuple[Any, Any]) -> BufferRegion:
    return BufferRegion(buffer, [Range.from_min_extent(*run) for run in runs])


@pytest.mark.parametrize(
    ("shape", "source", "indices", "expected"),
    [
        ((4,), _box(C, (V, 1), (2, 4)), (W,), "C[v, 2 + w]"),
        ((4,), _box(C, (2, 4), (V, 1)), (W,), "C[2 + w, v]"),
        ((4,), _box(C, (V, V + 1 - V), (2, 4)), (W,), "C[v, 2 + w]"),
        ((1, 4), _box(C, (V, 1), (2, 4)), (0, W), "C[v, 2 + w]"),
        (
            (4, 1),
            _box(Buffer((8, 6, 9), "float32", "D"), (V, 1), (2, 4), (W, 1)),
            (3, 0),
            "D[v, 5, w]",
        ),
        ((2, 3), _box(C, (2, 2), (V, 3)), (V, W), "C[2 + v, v + w]"),
    ],
)
def test_matched_buffers_are_boxes_of_others(
    shape: tuple[int, ...],
    source: BufferRegion,
    indices: tuple[Any, ...],
    expected: str,
) -> None:
    matched = Buffer(shape, "float32", "matched")
    match = statements.MatchBufferRegion(matched, source)

    assert texts(read(*indices, buffer=matched), match_buffers=[match]) == (
        [expected],
        [],
    )


def inner(body: statements.Stmt, value: Any, predicate: Any = True) -> statements.Stmt:
    axes = [IterVar(Range(0, 4), Z, IterVar.DataPar)]
    block = statements.Block(axes, None, None, "inner", body)
    return statements.BlockRealize([value], predicate, block)


def test_inner_blocks_are_boxes_of_their_axes() -> None:
    body = statements.BufferStore(A, BufferLoad(B, [Z + 1]), [Z * 2 + V])
    condition = prim.LT(table(W), 2)

    assert texts(loop(X, 0, 4, inner(body, X))) == (["B[1:5]"], ["A[v:v + 7]"])
    assert texts(inner(read(Z, buffer=B), table(V), condition)) == (
        [f"table[{_BOTH}]", "B[table[v]]"],
        [],
    )


@settings(max_examples=100)
@given(_statements)
def test_regions_contain_all_accesses(tree: Any) -> None:
    body = statement_of(tree, [V, W])
    block = block_of(body, alloc_buffers=[OWN])
    found = dict(zip(("reads", "writes"), access_regions(block), strict=True))
    for regions in found.values():
        assert not any(region.buffer is OWN for region in regions)
        assert free_variables(regions) <= {V, W}
    for values in ({V: 0, W: 5}, {V: 3, W: 1}, {V: 5, W: 4}):
        machine, before = Machine(), Machine()
        machine.run(body, values)
        for kind, regions in found.items():
            boxes: dict[int, range] = {}
            for region in regions:
                (run,) = region.region
                first, extent = (
                    before.number(t, values) for t in (run.min, run.extent)
                )
                assert id(region.buffer) not in boxes
                boxes[id(region.buffer)] = range(first, first + extent)
            for buffer, place in machine.touched[kind]:
                if buffer != id(OWN):
                    assert place in boxes.get(buffer, ()), (
                        kind,
                        place,
                        list(map(str, regions)),
                    )

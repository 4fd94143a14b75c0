"""Call graphs against paths in random graphs of functions."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.analysis.call_graph import CallGraph, calls_function
from relax_mlir.ir.module import IRModule

_TYPE = "() -> !relax.callable<[[tensor<4xf32>], tensor<4xf32>, true]>"


def ir_of(edges: Sequence[tuple[int, int, int]], count: int) -> str:
    """Functions with references: from, to, and kind."""
    lines: list[str] = []
    for caller in range(count):
        owned: list[str] = []
        body: list[str] = []
        for number, (source, target, way) in enumerate(edges):
            if source != caller:
                continue
            name = f"%v{number}"
            if way == 0:
                owned.append(f"a{number} = @f{target}")
            elif way == 1:
                body.append(_global(name, f"callee = @f{target}"))
            elif way == 2:
                body.append(_global(name, f"callee = @g, more = [0, [@f{target}]]"))
            elif way == 3:
                more = f"more = {{x = 1, y = [], z = @f{target}}}"
                body.append(_global(name, f"callee = @g, {more}"))
            elif way == 4:
                inner = _global(name, f"callee = @f{target}")
                body.append(f"scf.if %c {{\n{inner}\n}}")
            else:
                body.append(_tir_call(name, target, ", tir.subroutine"))
        # This name is not a function of the module.
        body.append(_tir_call("%o", (caller + 1) % count, ""))
        attributes = f"attributes {{{', '.join(owned)}}}" if owned else ""
        lines += [
            f"func.func private @f{caller}(%c: i1, %t: tuple<f32>) {attributes} {{",
            *body,
            "return\n}",
        ]
    return "\n".join(lines)


def _global(name: str, attributes: str) -> str:
    return f'{name} = "relax.global_var"() {{{attributes}}} : {_TYPE}'


def _tir_call(name: str, target: int, mark: str) -> str:
    attributes = f'callee = "f{target}", literals = [unit], tir.dtype = "float32"{mark}'
    return f'{name} = "tir.call"(%t) {{{attributes}}} : (tuple<f32>) -> f32'


_COUNT = 5
_functions = st.integers(0, _COUNT - 1)
_edges = st.lists(st.tuples(_functions, _functions, st.integers(0, 5)), max_size=9)


def paths(edges: Sequence[tuple[int, int, int]]) -> set[tuple[int, int]]:
    """The pairs of functions connected by paths of one or more edges."""
    found = {(source, target) for source, target, _ in edges}
    for middle, source, target in product(range(_COUNT), repeat=3):
        if (source, middle) in found and (middle, target) in found:
            found.add((source, target))
    return found


@settings(max_examples=60)
@given(_edges)
def test_paths_are_those_of_the_edges(edges: list[tuple[int, int, int]]) -> None:
    graph = CallGraph(IRModule.parse(ir_of(edges, _COUNT)))
    names = [f"f{number}" for number in range(_COUNT)]
    lead = paths(edges)
    for number, name in enumerate(names):
        # The attributes of a function precede those of its operations.
        own = sorted(edges, key=lambda edge: edge[2] != 0)
        callees = [f"f{t}" for s, t, _ in own if s == number]
        assert graph.callees(name) == list(dict.fromkeys(callees))
        assert graph.callers(name) == [
            f"f{s}" for s in range(_COUNT) if any(e[:2] == (s, number) for e in edges)
        ]
        assert graph.is_recursive(name) is ((number, number) in lead)
        reached = {names[t] for s, t in lead if s == number}
        assert graph.reachable([name]) == {name, *reached}
    assert graph.reachable([]) == set()
    assert graph.reachable(names) == set(names)
    circles = [
        [names[other] for other in range(_COUNT) if {(n, other), (other, n)} <= lead]
        for n in range(_COUNT)
        if (n, n) in lead
    ]
    assert graph.cycles() == list(map(list, dict.fromkeys(map(tuple, circles))))


def test_operations_refer_to_functions_excluding_nested_operations() -> None:
    edges = [(0, 1, 1), (0, 2, 4), (0, 3, 5)]
    module = IRModule.parse(ir_of(edges, _COUNT))
    found = {
        op.operation.name: [n for n in range(_COUNT) if calls_function(op, f"f{n}")]
        for op in module.func_op("f0").entry_block.operations
        if op.operation.name != "tir.call" or "tir.subroutine" in op.attributes
    }

    assert found == {
        "relax.global_var": [1],
        "scf.if": [],
        "tir.call": [3],
        "func.return": [],
    }
    assert not calls_function(module.func_op("f0"), "f1")


def test_unknown_functions_are_no_callees() -> None:
    graph = CallGraph(IRModule.parse(ir_of([(0, 7, 1), (0, 7, 0)], 1)))

    assert graph.callees("f0") == []
    with pytest.raises(KeyError):
        graph.callees("f7")

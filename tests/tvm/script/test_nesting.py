"""Reading, printing, comparing and scheduling are polynomial in the nesting depth."""

import pytest

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule
from tests.frontends.onnx.test_linearity import count_calls

_OUTER = {
    "block": ("with T.block('b{i}'):",),
    "block of loaded indices": (
        "with T.block('b{i}'):",
        "    B[T.Cast('int32', B[0])] = 0.0",
    ),
    "loop": ("for i{i} in range(2):",),
    "branch": ("if A[0] > {i}.0:",),
    "while": ("while A[0] > {i}.0:",),
    "let": ("with T.LetStmt(T.float32({i})) as x{i}:",),
}
_SHALLOW, _DEEP = 4, 8
_MOST = 5  # times the work for twice the depth: less than cubic


def _nest(kind: str, depth: int) -> str:
    lines = [
        "@T.prim_func",
        "def main(A: T.Buffer((8,), 'float32'), B: T.Buffer((8,), 'float32')):",
    ]
    for number in range(depth):
        lines += ["    " * (number + 1) + t.format(i=number) for t in _OUTER[kind]]
    body = (
        "for i in range(8):",
        "    with T.block('c'):",
        "        v = T.axis.spatial(8, i)",
        "        B[v] = A[v]",
    )
    return "\n".join([*lines, *("    " * (depth + 1) + line for line in body)])


def _work(source: str) -> None:
    program = from_source(source)
    assert_structural_equal(from_source(program.script()), program)
    schedule = Schedule(program)
    schedule.split(schedule.get_loops("c")[-1], [2, 4])
    schedule.mod.script()


@pytest.mark.slow
@pytest.mark.parametrize("kind", _OUTER)
def test_work_is_polynomial_in_the_nesting_depth(kind: str) -> None:
    _work(_nest(kind, 1))  # imports
    shallow, deep = (
        count_calls(lambda d=depth: _work(_nest(kind, d)))
        for depth in (_SHALLOW, _DEEP)
    )

    assert deep < _MOST * shallow

"""Size constraints of accesses, against programs run with all small sizes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.analysis.access_bounds import required_sizes
from relax_mlir.ir.module import IRModule
from relax_mlir.symbolic.constraints import Constraint
from relax_mlir.symbolic.symbols import evaluate
from tests.analysis.index_programs import compute, lines_of
from tests.symbolic.expressions import Tree

_AXES = ("i", "j")
_SIZES = ("n", "m")
_POINTS: Sequence[Mapping[str, int]] = [
    dict(zip(_SIZES, sizes, strict=True)) for sizes in product(range(4), repeat=2)
]
_LINEAR = ("arith.addi", "arith.subi")
_leaves = st.sampled_from([*_AXES, *_AXES, "n"]) | st.integers(0, 3)
_factors = st.integers(-2, 3)
_linear: st.SearchStrategy[Tree] = st.recursive(
    _leaves,
    lambda inner: (
        st.tuples(st.sampled_from(_LINEAR), inner, inner)
        | st.tuples(st.just("arith.muli"), inner, _factors)
    ),
    max_leaves=4,
)
_DIVISIONS = [f"arith.{name}" for name in ("floordivsi", "ceildivsi", "divsi", "remsi")]
_indices: st.SearchStrategy[Tree] = st.recursive(
    _leaves,
    lambda inner: (
        st.tuples(st.sampled_from([*_LINEAR, "arith.muli"]), inner, inner)
        | st.tuples(st.sampled_from(["arith.minsi", "arith.maxsi"]), inner, inner)
        | st.tuples(
            st.sampled_from(_DIVISIONS), inner, st.integers(1, 3) | st.just("n")
        )
    ),
    max_leaves=5,
)
# The first and the last but one iteration of each loop.
_loops = st.tuples(
    *[
        st.tuples(
            st.integers(0, 1), st.sampled_from(["n", "m", 1, 3, ("arith.subi", "n", 1)])
        )
    ]
    * 2
)
Loops = Sequence[tuple[int, Tree]]


def text_of(index: Tree, loops: Loops, size: str) -> str:
    """A program that reads one element in loops over the axes."""
    numbers = count()
    lines: list[str] = []
    for axis, (start, stop) in zip(_AXES, loops, strict=True):
        first, start_value = lines_of(start, numbers)
        last, stop_value = lines_of(stop, numbers)
        step, one = lines_of(1, numbers)
        head = f"scf.for %{axis} = {start_value} to {stop_value} step {one} {{"
        lines += [*first, *last, *step, head]
    made, value = lines_of(index, numbers)
    lines += [
        *made,
        f"%x = memref.load %b[{value}] : memref<?xf32>",
        "}",
        "}",
        "return",
    ]
    return "\n".join(
        [
            f'func.func @f(%b: memref<?xf32> {{tir.shape = #relax.shape<["{size}"]>}},',
            '%n: index {tir.symbol = "n"}, %m: index {tir.symbol = "m"}) attributes {tir.prim_func} {',
            *lines,
            "}",
        ]
    )


def required(text: str) -> "list[Constraint] | None":
    """The constraints of a program; None if it is out of bounds for all sizes."""
    function = IRModule.parse(text).func_op("f")
    with function.context:
        try:
            return list(required_sizes(function))
        except ValueError:
            return None


def places(index: Tree, loops: Loops, sizes: Mapping[str, int]) -> Iterator[int]:
    """The indices that a program reads at."""
    steps = [range(start, compute(stop, sizes)) for start, stop in loops]
    for values in product(*steps):
        yield compute(index, {**sizes, **dict(zip(_AXES, values, strict=True))})


def holds(constraint: Constraint, sizes: Mapping[str, int]) -> bool:
    lhs, rhs = (evaluate(side, sizes) for side in (constraint.lhs, constraint.rhs))
    assert constraint.relation == ">="
    return lhs >= rhs


def check(index: Tree, loops: Loops, *, is_exact: bool) -> None:
    """Rejected sizes are out of bounds, and all of those are rejected if the constraint is exact."""
    needed = required(text_of(index, loops, "m"))
    for sizes in _POINTS:
        try:
            read = list(places(index, loops, sizes))
            fits = needed is not None and all(holds(c, sizes) for c in needed)
        except (ValueError, ZeroDivisionError):
            continue
        is_inside = all(0 <= place < sizes["m"] for place in read)
        if not fits and read:
            assert not is_inside, (sizes, needed and list(map(str, needed)))
        if is_exact and fits:
            assert is_inside, (sizes, needed and list(map(str, needed)))


_ONE: Loops = ((0, "n"), (0, 1))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("i", ["m >= n"]),
        (2, ["m >= 3"]),
        (("arith.addi", "i", 2), ["m >= n + 2"]),
        (("arith.muli", "i", 2), ["m >= 2*n - 1"]),
        (("arith.subi", ("arith.subi", "n", 1), "i"), ["m >= n"]),
        (("arith.subi", 7, "i"), ["-n + 8 >= 0", "m >= 8"]),
        (("arith.floordivsi", "i", 2), ["m >= ceildiv(n, 2)"]),
        (("arith.divui", "i", 2), ["m >= ceildiv(n, 2)"]),
        (("arith.floordivsi", 7, ("arith.addi", "i", 1)), []),  # a divisor that increases
        (("arith.floordivsi", "i", ("arith.subi", "n", 2)), []),  # or may be negative
        (("arith.floordivsi", "i", ("arith.addi", "n", 1)), ["m >= -floordiv(1, n + 1) + 1"]),
        (("arith.floordivsi", "i", "m"), ["m >= floordiv(n - 1, m) + 1"]),
        (("arith.minsi", "i", 7), ["m >= min(n, 8)"]),
        (("arith.maxsi", "i", 7), []),
        (("arith.minsi", "i", ("arith.subi", 7, "i")), []),
        (("arith.remsi", "i", 5), []),
        (("arith.muli", "i", "n"), ["m >= n*n - n + 1"]),
        (("arith.muli", "i", "i"), []),
        (("arith.muli", "i", ("arith.floordivsi", ("arith.subi", 3, "n"), "m")), []),
        (("arith.muli", "i", ("arith.floordivsi", "n", "m")), ["m >= n*floordiv(n, m) - floordiv(n, m) + 1"]),
        (("arith.divsi", ("arith.subi", "i", 3), 2), []),  # is not rounded down
        (("arith.divsi", ("arith.addi", "i", 3), 2), ["m >= floordiv(n, 2) + 2"]),
        (("arith.minui", ("arith.subi", "i", 3), 5), []),
        (("arith.addi", "i", "j"), ["m >= n"]),
    ],
)  # fmt: skip
def test_constraints_of_an_index(index: Tree, expected: list[str]) -> None:
    needed = required(text_of(index, _ONE, "m"))
    assert needed is not None
    assert list(map(str, needed)) == expected
    check(index, _ONE, is_exact=bool(expected))


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        (((0, "n"), (0, "m")), ["m >= m + n - 1"]),
        (((1, "n"), (0, 2)), ["m >= n + 1"]),
        (((0, 0), (0, 2)), []),
        (((2, 1), (0, 2)), []),
        (((0, "n"), (0, "i")), []),  # a bound that is another loop's variable
        (((0, "n"), ("i", "n")), []),
    ],
)
def test_loops_around_an_index(loops: Loops, expected: list[str]) -> None:
    needed = required(text_of(("arith.addi", "i", "j"), loops, "m"))
    assert needed is not None
    assert list(map(str, needed)) == expected


@pytest.mark.parametrize(
    ("index", "size", "message"),
    [
        (("arith.subi", "i", 1), "m", "`memref.load`: index 0: expected 0 to m - 1, got -1 to n - 2"),
        (("arith.addi", "i", 1), "n", "index 0: expected 0 to n - 1, got 1 to n"),
    ],
)  # fmt: skip
def test_accesses_out_of_bounds_for_all_sizes_are_errors(
    index: Tree, size: str, message: str
) -> None:
    function = IRModule.parse(text_of(index, _ONE, size)).func_op("f")
    with function.context, pytest.raises(ValueError, match=message):
        required_sizes(function)


def test_sizes_may_have_the_names_of_loop_variables() -> None:
    text = text_of(("arith.addi", "i", "j"), ((0, "n"), (0, "m")), "m")
    for old, new in [("n", "axis.0"), ("m", "axis.1")]:
        text = text.replace(f'"{old}"', f'"{new}"')
    needed = required(text)

    assert needed is not None
    assert list(map(str, needed)) == ["axis.1 >= axis.0 + axis.1 - 1"]


_PROGRAM = """
func.func @f(%b: memref<?x?xf32> {{tir.shape = #relax.shape<["m", "n"]>}}, %c: memref<4xf32>,
             %i: memref<4xi64>,
             %n: index {{tir.symbol = "n"}}, %m: index {{tir.symbol = "m"}}) attributes {{tir.prim_func}} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %x = arith.constant 1.0 : f32
  {body}
  return
}}
"""
_LOOP = "scf.for %v = %0 to {stop} step {step} {{ {body} }}"
_BLOCK = """"tir.block"({operands}) ({{ {init} }}, {{
  ^bb0(%a: index):
    {body}
    gpu.yield
}}) {{kinds = "S", name = "b", operandSegmentSizes = array<i32: {counts}>,
    static_extents = array<i64: {extent}>{more}}} : ({types}) -> ()"""


def needed_by(body: str) -> list[str] | None:
    found = required(_PROGRAM.format(body=body))
    return None if found is None else list(map(str, found))


def block(
    body: str, extent: str, binding: str = "", *, more: str = "", init: str = ""
) -> str:
    """A block over an axis ``%a``, with a static or dynamic extent."""
    is_static = extent.isdigit()
    operands = [*([] if is_static else [extent]), *([binding] if binding else [])]
    return _BLOCK.format(
        operands=", ".join(operands),
        types=", ".join(["index"] * len(operands)),
        counts=f"{int(not is_static)}, {int(bool(binding))}",
        extent=extent if is_static else -9223372036854775808,
        body=body,
        more=more,
        init=init,
    )


def two_axes(body: str, first: str, second: str) -> str:
    """A block over axes ``%a`` and ``%o`` of static extents."""
    text = block(body, first).replace('kinds = "S"', 'kinds = "SS"')
    text = text.replace(f"<i64: {first}>", f"<i64: {first}, {second}>")
    return text.replace("(%a: index)", "(%a: index, %o: index)")


def load(first: str, second: str = "%0") -> str:
    return f"%e = memref.load %b[{first}, {second}] : memref<?x?xf32>"


_LOAD_K = "\n%e = memref.load %k[%2] : memref<?xf32>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (load("%2"), ["m >= 3", "n >= 1"]),
        (load("%0", "%2"), ["m >= 1", "n >= 3"]),
        ("memref.store %x, %b[%2, %1] : memref<?x?xf32>", ["m >= 3", "n >= 2"]),
        ("memref.store %x, %c[%3] : memref<4xf32>", []),
        ("memref.store %x, %c[%n] : memref<4xf32>", ["4 >= n + 1"]),
        (_LOOP.format(stop="%n", step="%2", body=load("%v", "%1")), ["n >= 2"]),
        (_LOOP.format(stop="%n", step="%1", body=load("%v", "%1")), ["m >= n", "n >= 2"]),
        (_LOOP.format(stop="%0", step="%1", body=load("%3")), []),
        # A loop that carries a value.
        (
            "%r = scf.for %v = %0 to %n step %1 iter_args(%s = %x) -> (f32) {\n"
            + load("%v", "%1").replace("%e", "%y")
            + "\nscf.yield %y : f32\n}",
            ["m >= n", "n >= 2"],
        ),
        # An index that is loaded from memory.
        (
            "%t = memref.load %i[%0] : memref<4xi64>\n%u = arith.index_cast %t : i64 to index\n"
            + load("%u", "%1"),
            ["n >= 2"],
        ),
        # Accesses under a branch.
        ("%l = arith.cmpi slt, %n, %m : index\nscf.if %l { " + load("%3") + " }", []),
        # Blocks of their own, and blocks in loops.
        (block(load("%a"), "%n"), ["m >= n", "n >= 1"]),
        (block(load("%a"), "3"), ["m >= 3", "n >= 1"]),
        (block(load("%a"), "1"), ["m >= 1", "n >= 1"]),
        (block(load("%3"), "0"), []),
        (two_axes(load("%a", "%o"), "3", "2"), ["m >= 3", "n >= 2"]),
        (two_axes(load("%3"), "3", "0"), []),
        (block(load("%a"), "%n", more=", tir.axis_starts = array<i64: 1>"), ["n >= 1"]),
        (_LOOP.format(stop="%n", step="%1", body=block(load("%a"), "%n", "%v")), ["m >= n", "n >= 1"]),
        # An axis that does not cover its extent is bounded by a predicate.
        (_LOOP.format(stop="%n", step="%1", body=block(load("%a"), "%m", "%v")), ["n >= 1"]),
        (block(load("%a"), "3", "%2"), ["n >= 1"]),
        (block(load("%a"), "1", "%0"), ["m >= 1", "n >= 1"]),
        # Buffers that the program allocates.
        (f'%k = "tir.alloc_buffer"() {{shape = #relax.shape<["m"]>}} : () -> memref<?xf32>{_LOAD_K}', ["m >= 3"]),
        (f"%k = memref.alloc(%m) : memref<?xf32>{_LOAD_K}", []),
    ],
)  # fmt: skip
def test_constraints_of_programs(body: str, expected: list[str]) -> None:
    assert needed_by(body) == expected


@settings(max_examples=30)
@given(_linear, _loops)
def test_constraints_of_linear_indices_are_exact(index: Tree, loops: Loops) -> None:
    check(index, loops, is_exact=True)


@settings(max_examples=40)
@given(_indices, _loops)
def test_constraints_reject_no_valid_size(index: Tree, loops: Loops) -> None:
    check(index, loops, is_exact=False)

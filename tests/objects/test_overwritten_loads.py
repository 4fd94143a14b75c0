"""Values are loaded before their buffer is overwritten, in scripts, too."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlir import ir

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.tvm.script import from_source
from tests.tvm.tir.schedule.evaluate import evaluate

_SWAP = """
    %a = memref.load %o[%c0] : memref<2xf32>
    %b = memref.load %o[%c1] : memref<2xf32>
    memref.store %b, %o[%c0] : memref<2xf32>
    memref.store %a, %o[%c1] : memref<2xf32>
"""
_LOOP = """
    %a = memref.load %o[%c0] : memref<2xf32>
    scf.for %i = %c0 to %c2 step %c1 {
      %y = memref.load %o[%i] : memref<2xf32>
      %p = arith.addf %y, %a : f32
      memref.store %p, %o[%i] : memref<2xf32>
    }
"""
_CHOICE = """
    %v = scf.if %true -> f32 {
      %a = memref.load %o[%c0] : memref<2xf32>
      scf.yield %a : f32
    } else {
      scf.yield %seven : f32
    }
    memref.store %seven, %o[%c0] : memref<2xf32>
    %n = arith.negf %v : f32
    memref.store %n, %o[%c1] : memref<2xf32>
"""
# A load before an `scf.if` is printed at the `scf.if`.
_CHOSEN = """
    %a = memref.load %o[%c0] : memref<2xf32>
    %v = scf.if %true -> f32 {
      scf.yield %a : f32
    } else {
      scf.yield %seven : f32
    }
    memref.store %seven, %o[%c0] : memref<2xf32>
    %n = arith.negf %v : f32
    memref.store %n, %o[%c1] : memref<2xf32>
"""
_BY_ITS_ADDRESS = """
    %p = "tir.address"(%o) : (memref<2xf32>) -> !llvm.ptr
    %q = "tir.decl_buffer"(%p) {shape = #relax.shape<["2"]>, tir.name = "q"}
      : (!llvm.ptr) -> memref<2xf32>
    %a = memref.load %o[%c0] : memref<2xf32>
    memref.store %seven, %q[%c0] : memref<2xf32>
    memref.store %a, %o[%c1] : memref<2xf32>
"""
_IN_ORDER = """
    %a = memref.load %o[%c0] : memref<2xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%c0] : memref<2xf32>
"""


def _module(body: str) -> IRModule:
    """A PrimFunc that copies two elements and then works on the copy."""
    return IRModule.parse(f"""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}}
func.func private @work(%x: memref<2xf32>, %o: memref<2xf32>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %true = arith.constant true
  %seven = arith.constant 7.0 : f32
  scf.for %i = %c0 to %c2 step %c1 {{
    %v = memref.load %x[%i] : memref<2xf32>
    memref.store %v, %o[%i] : memref<2xf32>
  }}
  {body}
  return
}}""")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (_SWAP, [5, 3]),
        (_LOOP, [6, 8]),
        (_CHOICE, [7, -3]),
        (_CHOSEN, [7, -3]),
        (_BY_ITS_ADDRESS, [7, 3]),
        (_IN_ORDER, [-3, 5]),
    ],
    ids=["swap", "loop", "choice", "chosen", "by its address", "in order"],
)
def test_a_script_reads_what_the_program_read(body: str, expected: list[int]) -> None:
    module = _module(body)
    again = from_source(module.script())

    for program in (module, again):
        (actual,) = relax_mlir.compile(program, cache=False)(
            np.array([3, 5], np.float32)
        )
        assert actual.tolist() == expected


def _names(body: str) -> list[str]:
    """The values of the variables that the script introduces."""
    return re.findall(r"^ *v\d+: \S+ = (.*)$", _module(body).script(), re.MULTILINE)


def test_a_load_that_only_a_store_follows_has_no_name() -> None:
    assert "arg1[0] = arg1[0] * T.float32(-1.0)" in _module(_IN_ORDER).script()
    assert _names(_IN_ORDER) == []


_LOAD = "%a = memref.load %o[%c0] : memref<2xf32>"
_OVERWRITE = "memref.store %seven, %o[%c0] : memref<2xf32>"
_LANES = """
    %two = arith.constant 2 : i32
    %down = arith.constant -1 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %back = "tir.ramp"(%one, %down) : (i32, i32) -> vector<2xi32>
    %from = arith.index_cast %back : vector<2xi32> to vector<2xindex>
    %forth = "tir.ramp"(%zero, %one) : (i32, i32) -> vector<2xi32>
    %to = arith.index_cast %forth : vector<2xi32> to vector<2xindex>
"""


def _load_lanes(name: str, places: str) -> str:
    return f"""
    {name} = "tir.vector_load"(%o, {places}) {{operandSegmentSizes = array<i32: 1, 0, 1, 0>}}
      : (memref<2xf32>, vector<2xindex>) -> vector<2xf32>"""


def _store_lanes(value: str) -> str:
    return f"""
    "tir.vector_store"({value}, %o, %to) {{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>}}
      : (vector<2xf32>, memref<2xf32>, vector<2xindex>) -> ()"""


_STORED_AT_ONCE = f"""
    {_LOAD}
    memref.store %a, %o[%c1] : memref<2xf32>
"""
_FUNCTION_OF_IT = f"""
    {_LOAD}
    %e = math.absf %a : f32
    {_OVERWRITE}
    memref.store %e, %o[%c1] : memref<2xf32>
"""
_OF_WHAT_NOTHING_WRITES = f"""
    %a = memref.load %x[%c0] : memref<2xf32>
    {_OVERWRITE}
    memref.store %a, %o[%c1] : memref<2xf32>
"""
# A variable of the program itself has its value at the definition.
_LET = f"""
    {_LOAD}
    %l = "tir.let"(%a) {{name = "l"}} : (f32) -> f32
    {_OVERWRITE}
    memref.store %l, %o[%c1] : memref<2xf32>
"""
# A loop with iter_args is a statement: scripts have a buffer for these.
_HANDED_ON = f"""
    {_LOAD}
    %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%p = %a) -> f32 {{
      %y = memref.load %o[%i] : memref<2xf32>
      %q = arith.addf %y, %p : f32
      scf.yield %q : f32
    }}
    {_OVERWRITE}
    memref.store %r, %o[%c1] : memref<2xf32>
"""
# Of two loaded buffers, the one that is written first counts.
_OF_TWO_BUFFERS = f"""
    %v = scf.if %true -> f32 {{
      %a = memref.load %o[%c0] : memref<2xf32>
      scf.yield %a : f32
    }} else {{
      %b = memref.load %x[%c0] : memref<2xf32>
      scf.yield %b : f32
    }}
    {_OVERWRITE}
    %n = arith.negf %v : f32
    memref.store %n, %o[%c1] : memref<2xf32>
    memref.store %seven, %x[%c0] : memref<2xf32>
"""
_OTHER_LANES = f"""
    {_LANES}
    {_load_lanes("%v", "%from")}
    {_load_lanes("%w", "%to")}
    %n = arith.addf %v, %v : vector<2xf32>
    {_store_lanes("%w")}
    {_store_lanes("%n")}
"""
_IN_ALL_LANES = f"""
    {_LANES}
    {_LOAD}
    %v = vector.broadcast %a : f32 to vector<2xf32>
    {_OVERWRITE}
    {_store_lanes("%v")}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (_SWAP, ["arg1[0]"]),
        (_LOOP, ["arg1[0]"]),
        (_CHOICE, ["arg1[0]"]),
        (_CHOSEN, ["arg1[0]"]),
        (_STORED_AT_ONCE, []),
        (_FUNCTION_OF_IT, ["arg1[0]"]),
        (_OF_WHAT_NOTHING_WRITES, []),
        (_LET, []),
        (_HANDED_ON, []),
        (_OF_TWO_BUFFERS, ["arg1[0]"]),
        (_OTHER_LANES, ["arg1[T.Ramp(1, -1, 2)]"]),
        (_IN_ALL_LANES, ["arg1[0]"]),
    ],
)
def test_a_load_before_a_store_gets_a_variable(body: str, expected: list[str]) -> None:
    assert _names(body) == expected


def test_a_store_in_a_choice_of_values_is_not_left_out() -> None:
    module = _module("""
    %v = scf.if %true -> f32 {
      scf.if %true {
        memref.store %seven, %o[%c1] : memref<2xf32>
      }
      scf.yield %seven : f32
    } else {
      scf.yield %seven : f32
    }
    memref.store %v, %o[%c0] : memref<2xf32>
    """)

    with pytest.raises(ValueError, match=r"`scf\.if`: TVMScript cannot express it"):
        module.script()


_IN_BOXES = """
func.func @main(%o: memref<4xf32>) attributes {tir.prim_func} {
  %c0 = arith.constant 0 : index
  "tir.block"(%c0) ({
  }, {
  ^bb0(%v: index):
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %s = memref.subview %o[%c1] [3] [1] {tir.match_buffer, tir.name = "S"}
      : memref<4xf32> to memref<3xf32, strided<[1], offset: ?>>
    %t = memref.subview %s[%c1] [2] [1] {tir.match_buffer, tir.name = "T"}
      : memref<3xf32, strided<[1], offset: ?>> to memref<2xf32, strided<[1], offset: ?>>
    %a = memref.load LOADED
    %seven = arith.constant 7.0 : f32
    memref.store %seven, STORED
    memref.store %a, %o[%c0] : memref<4xf32>
    gpu.yield
  }) {kinds = "S", name = "b", operandSegmentSizes = array<i32: 0, 1>,
      static_extents = array<i64: 1>, tir.axis_names = ["v"]} : (index) -> ()
  return
}"""
_SAME_ELEMENT = {
    "buffer": "%o[%c2] : memref<4xf32>",
    "box": "%s[%c1] : memref<3xf32, strided<[1], offset: ?>>",
    "box of a box": "%t[%c0] : memref<2xf32, strided<[1], offset: ?>>",
}


@pytest.mark.parametrize("stored", _SAME_ELEMENT)
@pytest.mark.parametrize("loaded", _SAME_ELEMENT)
def test_views_of_a_buffer_alias_it(loaded: str, stored: str) -> None:
    text = _IN_BOXES.replace("LOADED", _SAME_ELEMENT[loaded])
    text = text.replace("STORED", _SAME_ELEMENT[stored])

    (actual,) = evaluate(IRModule.parse(text)["main"], np.array([1, 2, 3, 4]))

    assert actual.tolist() == [3, 2, 7, 4]


def _calls_of(count: int) -> int:
    """The number of function calls to read ``count`` loads, each before a store."""
    body = "".join(
        f"""
    %a{n} = memref.load %o[%c0] : memref<2xf32>
    %b{n} = arith.addf %a{n}, %seven : f32
    memref.store %b{n}, %o[%c1] : memref<2xf32>"""
        for n in range(count)
    )
    module = _module(body)
    calls = 0

    def count_calls(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call" or event == "c_call"

    sys.setprofile(count_calls)
    try:
        module.script()
    finally:
        sys.setprofile(None)
    return calls


def test_twice_as_many_loads_take_twice_as_long() -> None:
    _calls_of(1)  # what is imported and remembered

    assert _calls_of(80) < 2.2 * _calls_of(40)


# Random programs as trees, in which values in scope are numbered from the last.

_value = st.integers(0, 4)
_index = st.sampled_from(["%c0", "%c1", "%i"])
_reads: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.just("load"), _index),
    st.tuples(st.just("add"), _value, _value),
)
_some_reads = st.lists(_reads, max_size=3)
_single = st.one_of(
    _reads,
    _reads,
    st.tuples(st.just("store"), _value, _index),
    st.tuples(st.just("store"), _value, _index),
    st.tuples(st.just("choose"), _value, _some_reads, _some_reads),
)
_statements: st.SearchStrategy[Any] = st.recursive(
    st.lists(_single, min_size=2, max_size=5),
    lambda inner: st.lists(
        _single
        | st.tuples(st.just("loop"), inner)
        | st.tuples(st.just("carry"), _value, inner)
        | st.tuples(st.just("if"), _value, inner, inner),
        min_size=2,
        max_size=5,
    ),
    max_leaves=4,
)


class _Writer:
    """Writes trees as MLIR.

    Attributes:
        lines: the lines of text.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def block(self, trees: Sequence[Any], scope: Sequence[str], index: str) -> str:
        """Writes statements; returns the name of their last value."""
        known = list(scope)
        for kind, *parts in trees:
            if kind == "loop":
                self._loop(parts[0], known, None)
            elif kind == "store":
                value, place = known[-1 - parts[0] % len(known)], parts[1]
                place = index if place == "%i" else place
                self.lines.append(f"memref.store {value}, %o[{place}] : memref<2xf32>")
            elif kind == "if":
                condition = self._condition(known[-1 - parts[0] % len(known)])
                self.lines.append(f"scf.if {condition} {{")
                self.storing(parts[1], known, index)
                self.lines.append("} else {")
                self.storing(parts[2], known, index)
                self.lines.append("}")
            else:
                known.append(self._made(kind, parts, known, index))
        return known[-1]

    def storing(self, trees: Sequence[Any], scope: Sequence[str], index: str) -> str:
        """Writes statements and a store of their last value."""
        last = self.block(trees, scope, index)
        self.lines.append(f"memref.store {last}, %o[{index}] : memref<2xf32>")
        return last

    def _made(self, kind: str, parts: Any, known: Sequence[str], index: str) -> str:
        if kind == "load":
            place = index if parts[0] == "%i" else parts[0]
            return self._named(f"memref.load %o[{place}] : memref<2xf32>")
        values = [known[-1 - n % len(known)] for n in parts if isinstance(n, int)]
        if kind == "add":
            return self._named(f"arith.addf {', '.join(values)} : f32")
        if kind == "carry":
            return self._loop(parts[1], known, values[0])
        condition = self._condition(values[0])
        made = self._named(f"scf.if {condition} -> f32 {{")
        self._yield(self.block(parts[1], known, index))
        self.lines.append("} else {")
        self._yield(self.block(parts[2], known, index))
        self.lines.append("}")
        return made

    def _loop(self, body: Any, known: Sequence[str], start: str | None) -> str:
        index, carried = self._name(), self._name()
        head = f"scf.for {index} = %c0 to %c2 step %c1"
        if start is None:
            self.lines.append(f"{head} {{")
            self.storing(body, known, index)
            self.lines.append("}")
            return ""
        made = self._named(f"{head} iter_args({carried} = {start}) -> f32 {{")
        self._yield(self.storing(body, [*known, carried], index))
        self.lines.append("}")
        return made

    def _condition(self, value: str) -> str:
        return self._named(f"arith.cmpf ogt, {value}, %ten : f32")

    def _yield(self, value: str) -> None:
        self.lines.append(f"scf.yield {value} : f32")

    def _name(self) -> str:
        self._count += 1
        return f"%n{self._count}"

    def _named(self, text: str) -> str:
        name = self._name()
        self.lines.append(f"{name} = {text}")
        return name


def _program(trees: Sequence[Any]) -> IRModule:
    writer = _Writer()
    writer.storing(trees, ["%ten"], "%c0")
    lines = "\n  ".join(writer.lines)
    return IRModule.parse(f"""
func.func @main(%o: memref<2xf32>) attributes {{tir.prim_func}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ten = arith.constant 10.0 : f32
  {lines}
  return
}}""")


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "arith.addf": lambda op, lhs, rhs: lhs + rhs,
    "arith.cmpf": lambda op, lhs, rhs: lhs > rhs,
    "arith.constant": lambda op: op.attributes["value"].value,
}


def _run(
    block: ir.Block, values: dict[ir.Value, Any], memory: list[float]
) -> list[Any]:
    """Executes the operations of a block; returns the operands of its terminator."""
    for op in own_operations(block):
        name = op.operation.name
        operands: list[Any] = [values.get(v) for v in op.operands]
        results: list[Any] = []
        if name == "scf.yield":
            return operands
        if name == "memref.load":
            results = [memory[operands[1]]]
        elif name == "memref.store":
            memory[operands[2]] = operands[0]
        elif name in _ARITHMETIC:
            results = [_ARITHMETIC[name](op, *operands)]
        elif name == "scf.if":
            branch = op.operation.regions[0 if operands[0] else 1]
            results = _run(branch.blocks[0], values, memory)
        elif name == "scf.for":
            low, high, _, *results = operands
            body = op.operation.regions[0].blocks[0]
            for step in range(low, high):
                values.update(zip(body.arguments, [step, *results], strict=True))
                results = _run(body, values, memory)
        values.update(zip(op.operation.results, results, strict=True))
    return []


@settings(max_examples=60, deadline=None)
@given(_statements)
@example(  # what is read through two values and in a branch, after a store in a loop
    [
        ("load", "%c0"),
        ("add", 0, 0),
        ("choose", 0, [("load", "%c1")], [("add", 0, 0)]),
        ("loop", [("store", 3, "%i"), ("store", 0, "%c1")]),
        ("store", 0, "%c0"),
    ]
)
def test_scripts_of_programs_compute_what_the_programs_do(trees: Any) -> None:
    module = _program(trees)
    memory = [3.0, 25.0]
    _run(module.func_op("main").entry_block, {}, memory)

    (actual,) = evaluate(module["main"], np.array([3.0, 25.0]))

    np.testing.assert_array_equal(actual, memory)

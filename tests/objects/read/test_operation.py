"""Every operation that TVMScript can express computes the same in a script.

A program applies one operation to all pairs of extreme values for which it is defined; its
script, parsed again, must compute the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.tvm.script import from_source

every_case = pytest.mark.every_case

_COMPARISONS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_COMPARISONS = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_SIGNED_DIVISIONS = ("divsi", "remsi", "floordivsi", "ceildivsi")
_UNSIGNED_DIVISIONS = ("divui", "remui", "ceildivui")
_SHIFTS = ("shli", "shrsi", "shrui")
_PLAIN = (
    *("addi", "subi", "muli", "minsi", "maxsi", "minui", "maxui"),
    *("andi", "ori", "xori"),
)


@dataclass(frozen=True)
class Kind:
    """Operands of one type.

    Attributes:
        type: the MLIR type.
        stored: the type in memory.
        bits: the width of its values.
        load: text of operations that compute ``{to}`` from the loaded ``{it}``.
        mark: attributes of the buffer.
        values: the operands.
    """

    name: str
    type: str
    stored: str
    bits: int
    load: str = ""
    mark: str = ""
    lanes: int = 1
    values: Sequence[float] = field(default=())

    def of_lanes(self, element: str) -> str:
        return element if self.lanes == 1 else f"vector<{self.lanes}x{element}>"

    @property
    def is_float(self) -> bool:
        return "f" in self.stored


def _integers(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    found = {-top, 1 - top, -3, -1, 0, 1, 2, 7, top // 2 + 3, top - 2, top - 1}
    return sorted(v for v in found if -top <= v < top)


def _integer_kinds(lanes: int) -> list[Kind]:
    def shaped(element: str) -> str:
        return element if lanes == 1 else f"vector<{lanes}x{element}>"

    suffix = "" if lanes == 1 else f" x {lanes}"
    kinds = [
        Kind(f"i{n}{suffix}", shaped(f"i{n}"), f"i{n}", n, lanes=lanes)
        for n in (8, 16, 32, 64)
    ]
    kinds += [
        Kind(
            f"ui{n}{suffix}", shaped(f"i{n}"), f"i{n}", n, mark=f"uint{n}", lanes=lanes
        )
        for n in (8, 32)
    ]
    for n in (1, 4):
        cut = f"{{to}} = arith.trunci {{it}} : {shaped('i8')} to {shaped(f'i{n}')}"
        kinds.append(Kind(f"i{n}{suffix}", shaped(f"i{n}"), "i8", n, cut, lanes=lanes))
    return kinds


def _index_kinds() -> list[Kind]:
    return [
        Kind(
            f"index of {mark or f'i{n}'} by {cast}",
            "index",
            f"i{n}",
            64,
            f"{{to}} = arith.{cast} {{it}} : i{n} to index",
            mark,
            values=_integers(n),
        )
        for n, mark in ((8, ""), (8, "uint8"), (32, ""), (32, "uint32"), (64, ""))
        for cast in ("index_cast", "index_castui")
    ]


# Indices that depend on loop variables alone; the first may be negative.
_LOOP_KINDS = [
    Kind(
        f"index of a loop from {-offset}",
        "index",
        "i8",
        64,
        f"%seven_{{name}} = arith.constant 7 : index\n"
        f"%offset_{{name}} = arith.constant {offset} : index\n"
        "%part_{name} = arith.{part} %i, %seven_{name} : index\n"
        "{to} = arith.subi %part_{name}, %offset_{name} : index"
        if offset
        else "%seven_{name} = arith.constant 7 : index\n"
        "{to} = arith.{part} %i, %seven_{name} : index",
        values=range(-3, 4),
    )
    for offset in (3, 0)
]
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.5, 2.5, -0.3, 3.0, np.inf, -np.inf, np.nan)
_SCALARS = [*_integer_kinds(1), *_index_kinds()]
_VECTORS = _integer_kinds(2)
_FLOAT_KINDS = [
    Kind(
        f"f{n}{'' if lanes == 1 else f' x {lanes}'}",
        f"f{n}" if lanes == 1 else f"vector<{lanes}xf{n}>",
        f"f{n}",
        n,
        lanes=lanes,
        values=_FLOATS,
    )
    for n in (16, 32, 64)
    for lanes in (1, 2)
]


def _always(a: float, b: float) -> bool:
    return True


@dataclass(frozen=True)
class Row:
    """An operation on ``%a`` and ``%b`` with the result ``%r``.

    Attributes:
        text: the MLIR text; ``T`` is the type of the operands.
        result: the element type of the result.
        fits: whether it is defined for two operands, as signed integers.
    """

    text: str
    result: str
    fits: Callable[[float, float], bool] = _always


def _binary(name: str) -> str:
    return f"%r = arith.{name} %a, %b : T"


def _integer_rows(kind: Kind) -> list[Row]:
    own = "index" if kind.type == "index" else f"i{kind.bits}"
    least = -(1 << (kind.bits - 1))

    def divides(a: float, b: float) -> bool:
        return b != 0 and (a, b) != (least, -1)

    rows = [Row(_binary(name), own) for name in _PLAIN]
    rows += [Row(_binary(name), own, divides) for name in _SIGNED_DIVISIONS]
    rows += [Row(_binary(n), own, lambda a, b: b != 0) for n in _UNSIGNED_DIVISIONS]
    rows += [Row(_binary(n), own, lambda a, b: 0 <= b < kind.bits) for n in _SHIFTS]
    rows += [Row(f"%r = arith.cmpi {p}, %a, %b : T", "i1") for p in _COMPARISONS]
    chosen = "%c = arith.cmpi slt, %a, %b : T\n%r = arith.select %c, %b, %a : "
    rows.append(
        Row(chosen + ("T" if kind.lanes == 1 else f"{kind.of_lanes('i1')}, T"), own)
    )
    return rows + _guarded_rows(kind, own, least)


def _at_places(rows: Sequence[Row], stored: str, length: int) -> list[Row]:
    """Loads with the results of index operations as indices, clamped to the bounds."""
    ends = (
        f"%first = arith.constant 0 : index\n%last = arith.constant {length} : index\n"
        "%raised = arith.maxsi %s, %first : index\n"
        "%place = arith.minsi %raised, %last : index\n"
        "%r = memref.load %x[%k, %place] : memref<SHAPExSTORED>"
    )
    return [
        Row(f"{r.text.replace('%r', '%s')}\n{ends}", stored, r.fits)
        for r in rows
        if r.result == "index"
    ]


def _constants(kind: Kind, rows: Sequence[Row], values: Sequence[str]) -> list[Row]:
    """Operations on two constants, which fold, and on a value and a constant."""
    found = []
    for row, a, b in itertools.product(rows, values, values):
        if not row.fits(float(a), float(b)):
            continue
        given = f"%ca = arith.constant {a} : T\n%cb = arith.constant {b} : T\n"
        text = row.text.replace("%a", "%ca").replace("%b", "%cb")
        found.append(Row(given + text, row.result))
        if a == values[0]:
            found.append(
                Row(
                    given + row.text.replace("%b", "%cb"),
                    row.result,
                    lambda x, y, b=float(b), fits=row.fits: fits(x, b),
                )
            )
    return found


def _guarded_rows(kind: Kind, own: str, least: int) -> list[Row]:
    """Selects around divisions; the writer of PrimFuncs emits some of these, too."""
    if kind.lanes > 1 or kind.bits == 1:
        return []
    numbers = "".join(
        f"%{name} = arith.constant {value} : T\n"
        for name, value in (("zero", 0), ("one", 1), ("down", -1))
    )
    at_least_one = f"{numbers}%d = arith.maxsi %b, %one : T\n"
    is_zero = f"{numbers}%z = arith.cmpi eq, %b, %zero : T\n"
    no_zero = f"{is_zero}%d = arith.select %z, %one, %b : T\n"
    no_minus = (
        f"{numbers}%m = arith.cmpi eq, %b, %down : T\n"
        "%d = arith.select %m, %one, %b : T\n"
    )
    rows = []
    for name in ("divsi", "floordivsi", "remsi", "divui", "remui"):
        divided = f"arith.{name} %a, %d : T"
        rows += [
            Row(f"{at_least_one}%r = {divided}", own),
            Row(f"{no_zero}%r = {divided}", own, lambda a, b: (a, b) != (least, -1)),
            Row(f"{no_minus}%r = {divided}", own, lambda a, b: b != 0),
            Row(
                f"{no_zero}%q = {divided}\n%r = arith.select %z, %zero, %q : T",
                own,
                lambda a, b: (a, b) != (least, -1),
            ),
            Row(
                f"{no_zero}%q = {divided}\n%r = arith.select %z, %one, %q : T",
                own,
                lambda a, b: (a, b) != (least, -1),
            ),
        ]
    rest = "%q = arith.floordivsi %a, %d : T\n%p = arith.muli %q, %b : T\n%r = arith.subi %a, %p : T"
    rows.append(Row(f"{no_zero}{rest}", own, lambda a, b: (a, b) != (least, -1)))
    return rows


def _cast_rows(kind: Kind) -> list[Row]:
    if kind.type == "index":
        return [
            Row(f"%r = arith.{cast} %a : index to i{n}", f"i{n}")
            for n in (1, 8, 32, 64)
            for cast in ("index_cast", "index_castui")
        ]
    rows = []
    for n in (1, 4, 8, 16, 32, 64):
        name = ("trunci",) if n < kind.bits else ("extsi", "extui")
        rows += [
            Row(f"%r = arith.{c} %a : T to {kind.of_lanes(f'i{n}')}", f"i{n}")
            for c in (name if n != kind.bits else ())
        ]
    if kind.bits in (32, 64):
        floats = kind.of_lanes(f"f{kind.bits}")
        rows.append(
            Row(
                f"%f = arith.bitcast %a : T to {floats}\n%r = arith.bitcast %f : {floats} to T",
                f"i{kind.bits}",
            )
        )
    if kind.lanes == 1 and kind.bits > 4:
        rows += [
            Row(f"%r = math.{f} %a : T", f"i{kind.bits}") for f in ("ctpop", "ctlz")
        ]
        rows.append(
            Row(
                "%r = math.absi %a : T",
                f"i{kind.bits}",
                lambda a, b: a != -(1 << (kind.bits - 1)),
            )
        )
    return rows


def _to_float_rows(kind: Kind) -> list[Row]:
    return [
        Row(f"%r = arith.{cast} %a : T to {kind.of_lanes(f'f{n}')}", f"f{n}")
        for cast in ("sitofp", "uitofp")
        for n in (32, 64)
    ]


def _float_rows(kind: Kind) -> list[Row]:
    own = f"f{kind.bits}"
    names = ("addf", "subf", "mulf", "divf", "remf")
    rows = [Row(_binary(n), own) for n in names]
    extremes = ("minimumf", "maximumf", "minnumf", "maxnumf")
    # Of two zeros these may give any.
    rows += [Row(_binary(n), own, lambda a, b: a != b or a != 0) for n in extremes]
    rows.append(Row("%r = arith.negf %a : T", own))
    rows += [
        Row(f"%r = math.{f} %a : T", own)
        for f in ("absf", "ceil", "floor", "trunc", "round", "roundeven")
    ]
    rows.append(Row("%r = math.copysign %a, %b : T", own))
    rows.append(Row("%r = math.fma %a, %b, %a : T", own))
    return rows


def _float_test_rows(kind: Kind) -> list[Row]:
    rows = [Row(f"%r = arith.cmpf {p}, %a, %b : T", "i1") for p in _FLOAT_COMPARISONS]
    rows += [Row(f"%r = math.{f} %a : T", "i1") for f in ("isnan",)]
    for n in (1, 8, 32, 64):
        low, high = -(1 << (n - 1)), (1 << (n - 1)) - 1
        rows += [
            Row(
                f"%r = arith.fptosi %a : T to {kind.of_lanes(f'i{n}')}",
                f"i{n}",
                lambda a, b, low=low, high=high: low - 1 < a < high + 1,
            ),
            Row(
                f"%r = arith.fptoui %a : T to {kind.of_lanes(f'i{n}')}",
                f"i{n}",
                lambda a, b, n=n: -1 < a < 1 << n,
            ),
        ]
    return rows


def _clamp_rows() -> list[Row]:
    """Clamps around casts from f32 to i32; the writer emits one kind of these."""
    rows = []
    for first, second, high in itertools.product(
        ("ogt", "uge"), ("olt", "ule"), ("2147483520.0", "9.0")
    ):
        clamp = (
            "%low = arith.constant -2147483648.0 : f32\n"
            f"%high = arith.constant {high} : f32\n"
            f"%above = arith.cmpf {first}, %a, %low : f32\n"
            "%raised = arith.select %above, %a, %low : f32\n"
            f"%below = arith.cmpf {second}, %raised, %high : f32\n"
            "%clamped = arith.select %below, %raised, %high : f32\n"
            "%q = arith.fptosi %clamped : f32 to i32\n"
        )
        is_number = _always if (first, second) == ("ogt", "olt") else _is_number
        rows.append(Row(f"{clamp}%r = arith.addi %q, %q : i32", "i32", is_number))
        for predicate, most in itertools.product(("ogt", "ole"), (2147483647, 5)):
            limit = (
                f"%most = arith.constant {most} : i32\n"
                f"%is_beyond = arith.cmpf {predicate}, %a, %high : f32\n"
                "%r = arith.select %is_beyond, %most, %q : i32"
            )
            rows.append(Row(clamp + limit, "i32", is_number))
    return rows


def _is_number(a: float, b: float) -> bool:
    return a == a


def _as_int64(result: str, kind: Kind) -> str:
    if result == "i64":
        return "%w = arith.addi %r, %none : {}".format(kind.of_lanes("i64"))
    if result == "index":
        return "%w = arith.index_cast %r : index to i64"
    name = "arith.extui" if result == "i1" else "arith.extsi"
    return f"%w = {name} %r : {kind.of_lanes(result)} to {kind.of_lanes('i64')}"


def _as_float64(result: str, kind: Kind) -> str:
    if result == "f64":
        return "%w = arith.negf %r : {}".format(kind.of_lanes("f64"))
    return f"%w = arith.extf %r : {kind.of_lanes(result)} to {kind.of_lanes('f64')}"


# Of so many pairs none is left over, where the lanes of a vector that are empty would
# divide 0 by 0.
_WHOLE_VECTORS = 8

_LANES = """
    %two = arith.constant 2 : i32
    %step = arith.constant 1 : i32
    %n = arith.index_cast %i : index to i32
    %first = arith.muli %n, %two : i32
    %ramp = "tir.ramp"(%first, %step) : (i32, i32) -> vector<2xi32>
    %places = arith.index_cast %ramp : vector<2xi32> to vector<2xindex>
"""


def _load(kind: Kind, name: str, source: str, shape: str) -> str:
    raw = f"%{name}_raw" if kind.load else f"%{name}"
    if kind.lanes == 1:
        text = (
            f"{raw} = memref.load %{source}[%k, %i] : memref<{shape}x{kind.stored}>\n"
        )
    else:
        text = (
            f'{raw} = "tir.vector_load"(%{source}, %k, %places) '
            "{operandSegmentSizes = array<i32: 1, 1, 1, 0>} : "
            f"(memref<{shape}x{kind.stored}>, index, vector<2xindex>) -> "
            f"{kind.of_lanes(kind.stored)}\n"
        )
    return (
        text
        + kind.load.format(
            to=f"%{name}", it=raw, name=name, part="divui" if name == "a" else "remui"
        )
        + "\n"
    )


def _store(kind: Kind, shape: str, stored: str) -> str:
    if kind.lanes == 1:
        return f"memref.store %w, %o[%k, %i] : memref<{shape}x{stored}>"
    return (
        '"tir.vector_store"(%w, %o, %k, %places) '
        "{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : "
        f"({kind.of_lanes(stored)}, memref<{shape}x{stored}>, index, vector<2xindex>) -> ()"
    )


def _module(kind: Kind, rows: Sequence[Row], shape: str, stored: str) -> IRModule:
    """A PrimFunc that stores the result of each operation in a row of its output."""
    widen = _as_float64 if stored == "f64" else _as_int64
    none = "0" if kind.lanes == 1 else "dense<0>"
    loops = "".join(
        f"""
  "tir.block"() ({{}}, {{
  ^bb0(%i: index):
    %k = arith.constant {number} : index
    {_LANES if kind.lanes > 1 else ""}
    %none = arith.constant {none} : {kind.of_lanes("i64")}
    {_load(kind, "a", "x", shape)}{_load(kind, "b", "y", shape)}
    {row.text.replace("SHAPE", shape).replace("STORED", kind.stored).replace(": T", f": {kind.type}").replace(", T", f", {kind.type}").replace("to T", f"to {kind.type}")}
    {widen(row.result, kind)}
    {_store(kind, shape, stored)}
    gpu.yield
  }}) {{name = "row{number}", kinds = "S", operandSegmentSizes = array<i32: 0, 0>,
      static_extents = array<i64: {int(shape.split("x")[1]) // kind.lanes}>}} : () -> ()"""
        for number, row in enumerate(rows)
    )
    outer = kind.stored if not kind.mark else kind.mark.replace("uint", "ui")
    given, made = f"tensor<{shape}x{outer}>", f"tensor<{shape}x{stored}>"
    mark = f' {{tir.dtype = "{kind.mark}"}}' if kind.mark else ""
    memory = f"memref<{shape}x{kind.stored}>{mark}"
    return IRModule.parse(f"""
func.func @main(%x: {given}, %y: {given}) -> {made} {{
  %0 = builtin.unrealized_conversion_cast %x, %y : {given}, {given} to tuple<{given}, {given}>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<{given}, {given}>) -> {made}
  return %1 : {made}
}}
func.func private @work(%x: {memory}, %y: {memory}, %o: memref<{shape}x{stored}>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  {loops}
  return
}}""")


def _operands(kind: Kind, rows: Sequence[Row]) -> list[np.ndarray]:
    """Per operand, a row of numbers for each operation, padded to one length."""
    values = kind.values or _integers(kind.bits) if kind.bits > 1 else (-1, 0)
    lines = []
    for row in rows:
        pairs = [p for p in itertools.product(values, values) if row.fits(*p)]
        lines.append(pairs or [(0, 0)])
    longest = max(map(len, lines))
    longest += -longest % _WHOLE_VECTORS
    table = [list(itertools.islice(itertools.cycle(p), longest)) for p in lines]
    dtype = {"i": "int", "f": "float"}[kind.stored[0]] + kind.stored[1:]
    if kind.stored == "i8" and kind.bits < 8:  # as memory has it
        table = [
            [tuple(v % (1 << kind.bits) for v in p) for p in line] for line in table
        ]
    arrays = np.array(table, dtype)
    if kind.mark:
        arrays = arrays.view(kind.mark)
    return [np.ascontiguousarray(arrays[..., n]) for n in (0, 1)]


def _check(kind: Kind, rows: Sequence[Row], stored: str) -> None:
    operands = _operands(kind, rows)
    count, length = operands[0].shape
    module = _module(kind, rows, f"{count}x{length}", stored)
    again = from_source(module.script())
    expected, actual = (
        np.asarray(relax_mlir.compile(program, cache=False)(*operands)[0])
        for program in (module, again)
    )
    if stored == "f64":  # the sign of NaN says nothing
        expected, actual = (
            np.where(np.isnan(v), np.nan, v) for v in (expected, actual)
        )
    wrong = [
        f"{row.text}\n{a} and {b}: {want} but {got}"
        for row, *line in zip(rows, *operands, expected, actual, strict=True)
        for a, b, want, got in zip(*line, strict=True)
        if want.tobytes() != got.tobytes()
    ]
    assert not wrong, "\n".join(wrong[:8])


def _chosen(kinds: Sequence[Kind], *names: str) -> list[pytest.ParameterSet]:
    """Kinds as parameters; by default only the named ones are tested."""
    return [
        pytest.param(k, id=k.name, marks=() if k.name in names else every_case)
        for k in kinds
    ]


_INDICES = ("index of i8 by index_castui", "index of i64 by index_cast")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind", _chosen([*_SCALARS, *_VECTORS], "i1", "i8", "ui32", *_INDICES, "i8 x 2")
)
def test_operations_of_integers(kind: Kind) -> None:
    _check(kind, [*_integer_rows(kind), *_cast_rows(kind)], "i64")


@pytest.mark.parametrize(
    "kind",
    _chosen([*_index_kinds(), *_LOOP_KINDS], _INDICES[0], "index of a loop from 0"),
)
def test_operations_of_indices_as_places(kind: Kind) -> None:
    rows = _integer_rows(kind)
    if kind in _LOOP_KINDS:
        rows = [row for row in rows if row.fits is _always]
    _check(kind, _at_places(rows, kind.stored, 48), "i64")


@pytest.mark.parametrize("kind", _LOOP_KINDS, ids=lambda k: k.name)
def test_operations_of_loop_variables(kind: Kind) -> None:
    _check(kind, [row for row in _integer_rows(kind) if row.fits is _always], "i64")


@pytest.mark.parametrize(
    "kind",
    _chosen([k for k in (*_SCALARS, *_VECTORS) if k.type != "index"], "i1", "ui8"),
)
def test_integers_as_floats(kind: Kind) -> None:
    _check(kind, _to_float_rows(kind), "f64")


@pytest.mark.parametrize("kind", _chosen(_FLOAT_KINDS, "f32", "f16 x 2"))
def test_operations_of_floats(kind: Kind) -> None:
    _check(kind, _float_rows(kind), "f64")


@pytest.mark.parametrize("kind", _chosen(_FLOAT_KINDS, "f32", "f64 x 2"))
def test_tests_of_floats(kind: Kind) -> None:
    _check(kind, _float_test_rows(kind), "i64")


def test_clamps_of_floats() -> None:
    kind = Kind("f32", "f32", "f32", 32, values=(*_FLOATS, 3e9, -3e9, 2147483520.0))
    _check(kind, _clamp_rows(), "i64")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("i1", ("-1", "0")),
        pytest.param("i8", ("-128", "-1", "0", "3"), marks=every_case),
        pytest.param("i64", ("-1", "0", "1", "64"), marks=every_case),
        pytest.param(_INDICES[0], ("-3", "0", "1", "7"), marks=every_case),
    ],
)
def test_constants_of_integers(name: str, values: Sequence[str]) -> None:
    (kind,) = (k for k in _SCALARS if k.name == name)
    rows = [row for row in _integer_rows(kind) if "%zero" not in row.text]
    _check(kind, _constants(kind, rows, values), "i64")


def test_constants_of_floats() -> None:
    (kind,) = (k for k in _FLOAT_KINDS if k.name == "f32")
    values = ("-0.0", "0.0", "-0.3")
    rows = [
        *(Row(_binary(name), "f32") for name in ("divf", "minimumf", "maximumf")),
        Row("%s = math.ceil %a : T\n%r = arith.divf %b, %s : T", "f32"),
        Row("%s = math.trunc %a : T\n%r = arith.minimumf %b, %s : T", "f32"),
    ]
    _check(
        kind, [r for r in _constants(kind, rows, values) if "%a" not in r.text], "f64"
    )

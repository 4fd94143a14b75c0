"""Shared subexpressions get variables in scripts; inexpressible operations are errors."""

from collections.abc import Callable

import numpy as np
import pytest

import relax_mlir
from relax_mlir.tvm.script import from_source
from tests.objects.test_overwritten_loads import _module as _program

_STEPS: dict[str, Callable[[int], str]] = {
    "maxnumf": lambda n: f"%a{n} = arith.maxnumf %a{n - 1}, %l : f32",
    "one": lambda n: (
        f"""%p{n} = arith.cmpf one, %a{n - 1}, %l : f32
    %f{n} = arith.uitofp %p{n} : i1 to f32
    %a{n} = arith.addf %f{n}, %l : f32"""
    ),
    "select": lambda n: (
        f"""%p{n} = arith.cmpf ogt, %a{n - 1}, %l : f32
    %a{n} = arith.select %p{n}, %a{n - 1}, %l : f32"""
    ),
    "uno": lambda n: (
        f"""%p{n} = arith.cmpf uno, %a{n - 1}, %l : f32
    %a{n} = arith.select %p{n}, %a{n - 1}, %l : f32"""
    ),
    "round": lambda n: (
        f"""%s{n} = arith.addf %a{n - 1}, %l : f32
    %a{n} = math.round %s{n} : f32"""
    ),
    "ceildivsi": lambda n: (
        f"""%i{n} = arith.fptosi %a{n - 1} : f32 to i32
    %three{n} = arith.constant 3 : i32
    %q{n} = arith.ceildivsi %i{n}, %three{n} : i32
    %f{n} = arith.sitofp %q{n} : i32 to f32
    %a{n} = arith.addf %f{n}, %l : f32"""
    ),
    "index": lambda n: (
        f"""%i{n} = arith.fptosi %a{n - 1} : f32 to i32
    %x{n} = arith.index_cast %i{n} : i32 to index
    %z{n} = arith.cmpi eq, %x{n}, %c0 : index
    %d{n} = arith.select %z{n}, %c1, %x{n} : index
    %q{n} = arith.floordivsi %c2, %d{n} : index
    %j{n} = arith.index_cast %q{n} : index to i32
    %f{n} = arith.sitofp %j{n} : i32 to f32
    %a{n} = arith.addf %f{n}, %l : f32"""
    ),
    "scf.if": lambda n: (
        f"""%p{n} = arith.cmpf ogt, %l, %seven : f32
    %a{n} = scf.if %p{n} -> f32 {{
      %s{n} = arith.addf %a{n - 1}, %l : f32
      scf.yield %s{n} : f32
    }} else {{
      %t{n} = arith.subf %a{n - 1}, %l : f32
      scf.yield %t{n} : f32
    }}"""
    ),
}


def _chain(step: str, length: int) -> relax_mlir.IRModule:
    """A program in which each step has the previous one as an operand."""
    steps = "\n    ".join(_STEPS[step](n) for n in range(1, length + 1))
    return _program(f"""
    %a0 = memref.load %o[%c0] : memref<2xf32>
    %l = memref.load %x[%c1] : memref<2xf32>
    {steps}
    memref.store %a{length}, %o[%c1] : memref<2xf32>""")


@pytest.mark.parametrize("step", _STEPS)
def test_a_script_of_a_chain_is_as_long_as_the_chain(step: str) -> None:
    scripts = [_chain(step, length).script() for length in (20, 30, 40)]
    short, middle, long = map(len, scripts)

    assert long - middle <= middle - short + 400  # longer names, at most
    assert long < 30_000


@pytest.mark.parametrize("step", _STEPS)
def test_names_keep_what_a_program_computes(step: str) -> None:
    module = _chain(step, 12)
    again = from_source(module.script())
    x = np.array([3, 2.5], np.float32)

    expected, actual = (
        relax_mlir.compile(program, cache=False)(x)[0].tolist()
        for program in (module, again)
    )
    assert actual == expected


def test_a_choice_has_several_results() -> None:
    module = _program(
        """
    %a, %b = scf.if %true -> (f32, f32) {
      scf.yield %seven, %seven : f32, f32
    } else {
      %v = memref.load %x[%c0] : memref<2xf32>
      %w = arith.negf %v : f32
      scf.yield %v, %w : f32, f32
    }
    memref.store %b, %o[%c0] : memref<2xf32>""".replace("%true", "%no").replace(
            "%a, %b =", "%no = arith.constant false\n    %a, %b ="
        )
    )
    again = from_source(module.script())

    for program in (module, again):
        (actual,) = relax_mlir.compile(program, cache=False)(
            np.array([3, 5], np.float32)
        )
        assert actual.tolist() == [-3, 5]


_UNSPELLED = {
    "a cast to 24 bits": (
        """%b = arith.fptosi %seven : f32 to i24
    %r = arith.sitofp %b : i24 to f32""",
        r"loc\(.*: `arith.fptosi`: unsupported element type `i24`",
    ),
    "a store in a choice of values": (
        """%r = scf.if %true -> f32 {
      memref.store %seven, %o[%c1] : memref<2xf32>
      scf.yield %seven : f32
    } else {
      scf.yield %seven : f32
    }""",
        r"loc\(.*: `memref.store`: TVMScript cannot express it in a choice",
    ),
    "an operation without a result": (
        """memref.copy %x, %o : memref<2xf32> to memref<2xf32>
    %r = arith.negf %seven : f32""",
        r"loc\(.*: `memref.copy`: TVMScript cannot express it",
    ),
    "a function": (
        "%r = math.clampf %seven to [%seven, %seven] : f32",
        r"loc\(.*: `math.clampf`: TVMScript cannot express it as a scalar",
    ),
    "lanes that differ": (
        """%b = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
    %r = vector.extract %b[0] : f32 from vector<2xf32>""",
        r"loc\(.*: `vector.extract`: TVMScript cannot express it",
    ),
    "a shift by too many bits": (
        """%b = arith.fptosi %seven : f32 to i32
    %n = arith.constant 32 : i32
    %s = arith.shli %b, %n : i32
    %r = arith.sitofp %s : i32 to f32""",
        r"loc\(.*: `arith.shli`: .*from 0 to 31, got 32",
    ),
}


@pytest.mark.parametrize("name", _UNSPELLED)
def test_inexpressible_operations_are_reported_with_location(name: str) -> None:
    body, message = _UNSPELLED[name]
    module = _program(f"{body}\n    memref.store %r, %o[%c0] : memref<2xf32>")

    with pytest.raises(ValueError, match=message):
        module.script()


def test_loop_carried_indices_have_64_bits() -> None:
    module = _program("""
    %big = arith.constant 3000000000 : index
    %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%p = %c1) -> index {
      %q = arith.addi %p, %big : index
      scf.yield %q : index
    }
    %j = arith.index_cast %r : index to i64
    %f = arith.sitofp %j : i64 to f32
    memref.store %f, %o[%c0] : memref<2xf32>""")
    again = from_source(module.script())

    for program in (module, again):
        (actual,) = relax_mlir.compile(program, cache=False)(
            np.array([3, 5], np.float32)
        )
        assert actual.tolist() == [6e9, 5]

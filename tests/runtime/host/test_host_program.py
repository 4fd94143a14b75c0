"""Host programs as data: serialisation, and verification of damaged programs."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.errors import ModelError, RunError
from relax_mlir.runtime.host import archive
from relax_mlir.runtime.host.program import OPCODES, HostProgram
from relax_mlir.runtime.host.verifier import Callees, check_program
from relax_mlir.tvm.relax.vm import VMExecutable, build
from relax_mlir.tvm.script import ir as I
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T

# ruff: noqa: N803, N805, N812  scripts are not plain Python


@I.ir_module
class _Module:
    """Something of everything that a host program can hold."""

    @T.prim_func
    def step(A: T.Buffer((2,), "float32"), n: T.int32):
        assert n <= 4, "too many"
        for i in range(2):
            with T.block("b"):
                vi = T.axis.spatial(2, i)
                A[vi] = A[vi] + T.float32(1)

    @R.function
    def count(k: R.Prim(value="n"), x: R.Object) -> R.Object:
        n = T.int64()
        c = R.call_pure_packed(
            "tests.vm.is_positive", R.prim_value(n), sinfo_args=R.Tensor((), "bool")
        )
        if c:
            r: R.Object = _Module.count(R.prim_value(n - 1), x)
        else:
            r: R.Object = x
        return r

    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), s: R.Shape(["n * 2", "m"]), y: R.Object):
        n = T.int64()
        m = T.int64()
        a = R.add(x, x)
        b = R.call_pure_packed(
            "tests.vm.twice", a, sinfo_args=R.Tensor((n, 2), "float32")
        )
        c = R.multiply(b, R.const([2.0, 3.0], "float32"))

        @R.function
        def inner(z: R.Object) -> R.Object:
            w: R.Object = R.call_pure_packed(
                "tests.vm.first", y, z, sinfo_args=R.Object
            )
            return w

        d: R.Object = inner(c)
        e = R.shape([n + m, T.max(n // 2, m), m * m])
        f: R.Object = _Module.count(R.prim_value(m), d)
        return (c, d, e, (f, R.shape_of(c)))


@pytest.fixture(scope="module")
def built() -> VMExecutable:
    tvm.register_func("tests.vm.first", lambda a, b: a, override=True)
    tvm.register_func("tests.vm.is_positive", lambda n: n > 0, override=True)
    return build(_Module)


def _arguments() -> tuple[Any, ...]:
    return np.ones((3, 2), "float32"), (6, 2), "object"


def _assert_right(result: Any) -> None:
    """That a call with :func:`_arguments` gave what it has to."""
    c, d, e, (f, shape) = result
    assert c.numpy().tolist() == [[8, 12]] * 3
    assert (d, tuple(e), f, tuple(shape)) == ("object", (5, 2, 4), "object", (3, 2))


def test_a_program_is_the_same_after_json(built: VMExecutable) -> None:
    program = built.host.program
    text = json.dumps(program.to_json())
    again = HostProgram.from_json(json.loads(text))

    assert again == program
    assert json.dumps(again.to_json()) == text
    _assert_right(_rebuilt(built, json.loads(text))(*_arguments()))


def _rebuilt(built: VMExecutable, fields: Any) -> VMExecutable:
    host = copy.copy(built.host)
    host.program = HostProgram.from_json(fields)
    return VMExecutable(built.codes, host, built.hosted, built.options)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree of JSON: a container, and a key of it."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from _places(node[key])


_ODD = (
    *(None, True, False, -1, 0, 1, 2, 3, 5, 7, 40, 10**9, 10**30, 0.5, float("nan")),
    *("", "main", "count", "float32", "object", "int64", "x" * 50, [], {}, [[]], [0]),
    *OPCODES,
)


def _mutated(fields: Any, rng: random.Random) -> Any:
    made = copy.deepcopy(fields)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(made))
        container, key = rng.choice(places)
        other, from_key = rng.choice(places)
        kind = rng.randrange(4)
        if kind == 0:
            container[key] = rng.choice(_ODD)
        elif kind == 1:
            container[key] = copy.deepcopy(other[from_key])
        elif kind == 2:
            del container[key]
        elif isinstance(container, list):
            container.insert(key, copy.deepcopy(other[from_key]))
        elif isinstance(container[key], int):
            container[key] += rng.choice((-1, 1))
    return made


def _survives(built: VMExecutable, fields: Any, call: Callable[..., Any]) -> str:
    """What becomes of a damaged program: it is refused, raises, or gives something."""
    try:
        made = _rebuilt(built, fields)
    except ValueError:
        return "refused"
    try:
        call(made)
    except MemoryError:
        raise
    except Exception:
        return "raised"
    return "ran"


def _fuzzed(built: VMExecutable, seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    fields = json.loads(json.dumps(built.host.program.to_json()))
    found = {"refused": 0, "raised": 0, "ran": 0}
    for _ in range(count):
        damaged = _mutated(fields, rng)
        found[_survives(built, damaged, lambda made: made(*_arguments()))] += 1
    return found


def test_a_few_damaged_programs_are_refused_or_run(built: VMExecutable) -> None:
    assert _fuzzed(built, seed=0, count=60)["refused"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_damaged_programs_are_refused_or_run(built: VMExecutable, seed: int) -> None:
    """None crashes, hangs, or takes all memory: the test itself would not go on."""
    found = _fuzzed(built, seed, count=1000)

    assert found["refused"] > 500


def test_a_file_whose_program_is_damaged_is_refused(
    built: VMExecutable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.rxm"
    built.export_library(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"multiply"', b'"subtract"'))
    with pytest.raises(ModelError, match="damaged"):
        relax_mlir.load(path)

    # Also one whose checksum fits: what it says is checked by itself.
    whole = HostProgram.to_json
    monkeypatch.setattr(
        HostProgram, "to_json", lambda self: {**whole(self), "functions": {}}
    )
    built.export_library(path)
    with pytest.raises(ModelError, match="public function `count`: expected a host"):
        relax_mlir.load(path)


def test_a_file_holds_no_python_and_loading_calls_nothing(
    built: VMExecutable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.rxm"
    built.export_library(path)
    with archive.open_archive(path) as file:
        manifest = archive.read_member(file, "vm.json").decode()
    assert not any(word in manifest for word in ("def ", "lambda", "import ", "R."))
    called: list[Any] = []
    tvm.register_func("tests.vm.first", lambda a, b: called.append(a), override=True)

    loaded = relax_mlir.load(path)

    assert not called
    tvm.register_func("tests.vm.first", lambda a, b: a, override=True)
    _assert_right(loaded(*_arguments()))


def _function(body: list[Any], result: int = 0, **fields: Any) -> dict[str, Any]:
    parts = {"params": ["x"], "captured": 0, "literals": [], "names": {}}
    return {**parts, "block": [body, result], **fields}


_WRONG = {
    "no opcode": (_function([["exec", [1], [0], []]]), "known opcode"),
    "an opcode that is not a string": (_function([[[], [1], [0], []]]), "known opcode"),
    "too few operands": (_function([["add", [1], [0], []]]), "expected 2 operands"),
    "too many results": (_function([["not", [1, 2], [0], []]]), "expected 1 results"),
    "an unwritten register": (_function([["not", [1], [2], []]]), "written before"),
    "a negative register": (_function([["not", [1], [-1], []]]), "written before"),
    "a boolean as register": (_function([["not", [1], [True], []]]), "written before"),
    "a parameter as result": (_function([["not", [0], [0], []]]), "register of 1"),
    "a register out of range": (_function([["not", [9], [0], []]]), "register of 1"),
    "a result that is not there": (_function([], 1), "written before"),
    "what only one branch writes": (
        _function([["if", [2], [0], [], [[["not", [1], [0], []]], 1], [[], 1]]]),
        "written before",
    ),
    "an odd type": (_function([["cast", [1], [0], ["O"]]]), "another immediate"),
    "an odd literal": (_function([], literals=[["value", []]]), "expected a literal"),
    "an unknown tensor": (_function([], literals=[["tensor", "a"]]), "no tensor"),
    "an unknown function": (
        _function([["call_segment", [1], [0], ["a"]]]),
        "no segment has the name `a`",
    ),
    "another count for a segment": (
        _function([["call_segment", [1, 2], [0], ["s"]]]),
        "expected 1 arguments and 1 results, got 1 and 2",
    ),
    "another count for a function": (
        _function([["call", [2], [1], []]], literals=[["function", "main"]]),
        "expected 1 arguments, got 0",
    ),
    "a closure without its values": (
        _function([["closure", [1], [0], ["main"]]]),
        "expected 0 captured values, got 1",
    ),
    "more sizes than there are": (
        _function([["check_tensor", [1, 2], [0], [[None], "", ""]]]),
        "expected 1 results, got 2",
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_no_compiler_writes_is_refused(name: str) -> None:
    function, message = _WRONG[name]
    callees = Callees({"s": (1, 1)}, (), ())

    with pytest.raises(ValueError, match=message):
        check_program(
            HostProgram.from_json({"format": 1, "functions": {"main": function}}),
            callees,
            {"main": ["x"]},
        )


def test_blocks_do_not_nest_without_end() -> None:
    block: list[Any] = [[], 0]
    for _ in range(200):
        block = [[["if", [1], [0], [], block, [[], 0]]], 1]
    function = {**_function([]), "block": block}

    with pytest.raises(ValueError, match="nested blocks"):
        HostProgram.from_json({"format": 1, "functions": {"main": function}})


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="expected format 1, got 2"):
        HostProgram.from_json({"format": 2, "functions": {}})


@I.ir_module
class _Endless:
    @R.function
    def main(x: R.Object) -> R.Object:
        y: R.Object = _Endless.main(x)
        return y


def test_a_function_that_calls_itself_for_ever_is_stopped() -> None:
    with pytest.raises(RunError, match="nested calls"):
        build(_Endless)["main"](1)


def test_recursion_may_be_deeper_than_pythons(built: VMExecutable) -> None:
    assert built["count"](3000, "x") == "x"


@I.ir_module
class _Growing:
    @R.function
    def main(k: R.Prim(value="n")):
        n = T.int64()
        return R.prim_value(n * n * n * n * n * n * n * n)


def test_integers_do_not_grow_beyond_memory() -> None:
    function = build(_Growing)["main"]

    assert function(3) == 3**8
    with pytest.raises(RunError, match="at most 256 bits"):
        function(2**40)

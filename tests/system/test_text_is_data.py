"""Texts of files never become code: each way in is tried with hostile names and strings."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import relax_mlir
from relax_mlir.compiler.tuning.database import TuningDatabase
from relax_mlir.errors import RelaxError
from relax_mlir.ir.module import IRModule
from relax_mlir.tools.cli import main
from relax_mlir.tvm.relax.vm import VMExecutable, build
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from relax_mlir.tvm.tir.schedule.trace import Trace
from tests.compiler.tuning.test_tuning import record, softmax
from tests.lint.dynamic_code import findings, unlisted

# Each of them runs `TOUCH` if it is pasted into Python text somewhere.
_TOUCH = "__import__('pathlib').Path('pwned').touch()"
_HOSTILE = (
    f"main():\n    pass\n{_TOUCH}\ndef f_z",
    f"x'); {_TOUCH}; ('",
    f'x"); {_TOUCH}; ("',
    f"{{{_TOUCH}}}",
    f"x\\'\\n{_TOUCH}\\n#",
    f"f(lambda: {_TOUCH})()",
    "a\0b",
    "__builtins__",
    "rt",
    "é'\u2028\"",
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not Path("pwned").exists()


def _quoted(text: str) -> str:
    """A string of MLIR."""
    plain = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"
    return "".join(
        c if c.isascii() and (c.isalnum() or c in plain) else f"\\{b:02X}"
        for c in text
        for b in (c.encode() if c.isascii() else b"?")
    )


_MLIR = """
module {
  func.func @"NAME"(%arg0: tensor<?xf32, #relax.shape<["n"]>>) -> !relax.object
      attributes {relax.input_names = ["HOSTILE"], relax.name = "HOSTILE"} {
    %1 = "relax.extern_func"() {callee = "CALLEE"} : () -> !relax.callable<[!relax.object, false]>
    %2 = builtin.unrealized_conversion_cast %1, %arg0 : !relax.callable<[!relax.object, false]>,
      tensor<?xf32, #relax.shape<["n"]>> to
      tuple<!relax.callable<[!relax.object, false]>, tensor<?xf32, #relax.shape<["n"]>>>
    %3 = "relax.call_operator"(%2) {attrs = {}, operator = "relax.call_pure_packed",
      types = [!relax.object], relax.name = "HOSTILE"} :
      (tuple<!relax.callable<[!relax.object, false]>, tensor<?xf32, #relax.shape<["n"]>>>)
      -> !relax.object
    return %3 : !relax.object
  }
}
"""


def _mlir(name: str, callee: str) -> str:
    text = _MLIR.replace("NAME", _quoted(name)).replace("HOSTILE", _quoted(name))
    return text.replace("CALLEE", _quoted(callee))


@pytest.mark.parametrize("text", _HOSTILE)
def test_names_of_mlir_are_names(text: str, tmp_path: Path) -> None:
    """Of functions, of variables, and of what they call."""
    x = np.array([0, 2, 3], np.float32)
    made = relax_mlir.compile(IRModule.parse(_mlir(text, "relax_mlir.nonzero")))
    assert isinstance(made, VMExecutable)
    made.export_library(tmp_path / "m.rxm")

    for executable in (made, relax_mlir.load(tmp_path / "m.rxm")):
        (name,) = executable.function_names()
        assert executable[name](x).numpy().tolist() == [[1, 2]]
        assert executable.as_text()


@pytest.mark.parametrize("text", _HOSTILE)
def test_names_of_functions_that_are_called_are_names(text: str) -> None:
    made = relax_mlir.compile(IRModule.parse(_mlir("main", text)))

    with pytest.raises(ValueError, match="no such function"):
        made["main"](np.ones(2, np.float32))


def test_the_command_runs_nothing_of_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evil.mlir"
    path.write_text(_mlir(_HOSTILE[0], "relax_mlir.nonzero"))

    assert main(["compile", str(path), "-o", "m.rxm"]) == 1
    assert "whose one public function is `main`" in capsys.readouterr().err


@pytest.mark.parametrize("text", _HOSTILE)
def test_names_of_onnx_are_names(text: str, tmp_path: Path) -> None:
    name = text.replace("\0", "")
    nodes = [
        helper.make_node("NonZero", [f"{name} in"], [f"{name} found"], name=name),
        helper.make_node("Cast", [f"{name} found"], [f"{name} out"], name=name, to=1),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        name or "g",
        [info(f"{name} in", TensorProto.FLOAT, ["n"])],
        [info(f"{name} out", TensorProto.FLOAT, [1, "m"])],
        doc_string=name,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    x = np.array([0, 2, 3], np.float32)

    made = relax_mlir.compile(model, cache=False)
    made.save(tmp_path / "m.rxm")

    for executable in (made, relax_mlir.load(tmp_path / "m.rxm")):
        (y,) = executable(x)
        np.testing.assert_array_equal(y, [[1, 2]])


_INDEX_MAPS = (
    f"lambda i: ({_TOUCH},)",
    f"lambda i, j={_TOUCH}: (i, j)",
    f"lambda i: (i, T.exp.__globals__.get('x', {_TOUCH}))",
    "lambda i: (T.exp.__globals__,)",
    "lambda i: (i.__class__,)",
    "lambda i: ().__class__",
    "lambda i: (i(),)",
    f"lambda i: (f'{{{_TOUCH}}}',)",
    "lambda i: (T.exp(*i),)",
    "lambda i: ('a' * 100000000000,)",
    "lambda i: ('%1000000000d' % 5,)",
    "lambda i: (1 << 100000000000,)",
    "lambda i: (9 ** 9 ** 9,)",
    "lambda i: [x for x in (i,)]",
    "lambda: (lambda: 0)()",
    "(lambda i: i)(__import__)",
    "lambda " + "(" * 1000,
    "lambda i: " + "-" * 20000 + "i",
    "lambda i: (i,\0)",
    _TOUCH,
    "",
)


@pytest.mark.parametrize("text", _INDEX_MAPS)
def test_index_maps_are_arithmetic(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        IndexMap.from_text(text)


_PROGRAM = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""")


@pytest.mark.parametrize("text", _INDEX_MAPS[:6])
def test_index_maps_of_traces_are_arithmetic(text: str) -> None:
    schedule = Schedule(_PROGRAM)
    schedule.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    calls, decisions = json.loads(json.dumps(schedule.trace.as_json()))
    for call in calls:
        call[2] = [
            text if isinstance(a, str) and a.startswith("lambda") else a
            for a in call[2]
        ]

    with pytest.raises((RelaxError, ValueError, TypeError)):
        Trace.apply_json_to_schedule([calls, decisions], Schedule(_PROGRAM))


@pytest.mark.parametrize("text", _HOSTILE)
def test_strings_of_traces_are_strings(text: str) -> None:
    schedule = Schedule(_PROGRAM)
    block = schedule.get_block("B")
    schedule.annotate(block, "note", text)

    again = verify_trace_roundtrip(schedule, _PROGRAM)

    assert again.get(again.get_block("B")).annotations["note"] == text


@pytest.mark.parametrize("text", _HOSTILE)
def test_strings_of_tuning_databases_are_strings(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    for field in ("kernel", "target", "configuration", "default"):
        TuningDatabase(path).with_records([record(**{field: text})]).write()

        with suppress(RelaxError):  # refused, with a reason
            relax_mlir.compile(softmax(), tuning=path, cache=False)


@pytest.mark.parametrize(
    "text", ["{0.__class__}", "{:>1000000000}", "{x}", "{!r}", "{"]
)
def test_formats_of_printing_have_plain_fields(text: str) -> None:
    made = build(
        from_source(f"""
@R.function(pure=False)
def main(x: R.Object):
    _ = R.print(x, format={text!r})
    return x
""")
    )

    with pytest.raises(RelaxError, match="expected a field"):
        made["main"](1)


@pytest.mark.slow
def test_nothing_in_the_package_turns_text_into_code() -> None:
    assert unlisted() == ([], [])


@pytest.mark.parametrize(
    "source",
    [
        "exec(text)",
        "eval(text)",
        "f = eval",
        "compile(text, '', 'exec')",
        "__import__(name)",
        "import builtins; builtins.exec(text)",
        "import builtins; getattr(builtins, name)",
        "from builtins import eval as run",
        "import pickle",
        "from pickle import loads",
        "import marshal as m",
        "import runpy",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
        "types.FunctionType(code, {})",
        "import_module(name)",
        "importlib.import_module(f'{name}.x')",
        "list(map(import_module, names))",
        "class A:\n    def eval(self): return eval(text)",
    ],
)
def test_what_turns_text_into_code_is_found(source: str) -> None:
    assert list(findings("module.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "re.compile(text)",
        "from relax_mlir.compiler.compile import compile\ncompile(model)",
        "def compile(model): ...\ncompile(model)",
        "model.eval()",
        "import builtins; builtins.range(3)",
        "import_module('relax_mlir.tvm')",
        "import_module(f'relax_mlir.{name}')",
        "import_module(f'{__name__}.{name}')",
        "np.load(path, allow_pickle=False)",
    ],
)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert not list(findings("module.py", source))

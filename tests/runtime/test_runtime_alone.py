"""Files of compiled models are loaded and run where nothing of the compiler is installed."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.codegen import linker, object_code
from relax_mlir.tvm.relax import build
from relax_mlir.tvm.script import from_source

pytestmark = [
    pytest.mark.slow,  # a process each
    pytest.mark.skipif(
        linker.linker_command(object_code.host_cpu()[0]) is None,
        reason="no linker is installed, so saved models are object files",
    ),
]

# What the distribution of the runtime does not hold, and packages that it does not need.
_ABSENT = (
    *("analysis", "codegen", "compiler", "dialects", "frontends", "integrations", "ir"),
    *(
        "nn",
        "objects",
        "passes",
        "pipeline",
        "rewrite",
        "schedules",
        "targets",
        "tools",
    ),
    "tvm",
)
_PACKAGES = (
    *("mlir", "llvm", "onnx", "torch", "tvm_ffi_orcjit", "ml_dtypes", "platformdirs"),
    *("rich", "safetensors"),
)
_BEGIN = f"""
import sys

class Absent:
    names = {_PACKAGES} + tuple("relax_mlir." + name for name in {_ABSENT})

    def find_spec(self, name, path, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import relax_mlir
x = np.array([[-1, 2, -3, 4]], np.float32)
"""


def run(source: str, *arguments: str | Path) -> str:
    made = subprocess.run(
        [sys.executable, "-c", _BEGIN + source, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def _model() -> Any:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }"""
    return relax_mlir.compile(onnx.parser.parse_model(text), cache=False)


def _kernels() -> Any:
    return tvm.build(
        from_source(
            textwrap.dedent("""
        @T.prim_func
        def main(x: T.Buffer((1, 4), "float32"), y: T.Buffer((1, 4), "float32")):
            for i, j in T.grid(1, 4):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = T.max(x[vi, vj], T.float32(0))
        """)
        )
    )


def _host_program() -> Any:
    return build(
        from_source(
            textwrap.dedent("""
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            y = R.nn.relu(x)
            found = R.call_pure_packed("relax_mlir.nonzero", y, sinfo_args=R.Object)
            return (y, found)
        """)
        )
    )


@pytest.mark.parametrize(
    ("make", "call"),
    [
        (_model, "made(x)[0]"),
        (_kernels, "made(x, y := np.empty_like(x)) or y"),
        (_host_program, "made['main'](x)[0].numpy()"),
    ],
)
def test_each_kind_of_file_runs(
    make: Callable[[], Any], call: str, tmp_path: Path
) -> None:
    made = make()
    write = made.save if hasattr(made, "save") else made.export_library
    write(tmp_path / "m.rxm")

    printed = run(
        f"made = relax_mlir.load(sys.argv[1]); print(({call}).tolist())",
        tmp_path / "m.rxm",
    )

    assert printed == "[[0.0, 2.0, 0.0, 4.0]]\n"


@pytest.mark.parametrize("name", ["import_onnx", "compile", "IRModule", "tune", "opt"])
def test_names_of_the_compiler_say_what_to_install(name: str) -> None:
    printed = run(
        f"try:\n    relax_mlir.{name}\nexcept ImportError as error:\n    print(error)\n"
    )

    assert printed.startswith(f"`relax_mlir.{name}`: the compiler is not installed")
    assert printed.endswith("Hint: `pip install relax_mlir`\n")


def test_a_model_that_compiles_at_run_time_says_what_to_install(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[n, 4] x) => (float[m] y)
        { z = NonZero (x) i, j = Split <axis = 0> (z) s = Squeeze (i)
          a = Gather (x, s) b = ReduceSum (a) y = Squeeze (b) }"""
    model = relax_mlir.compile(onnx.parser.parse_model(text), cache=False)
    model.save(tmp_path / "m.rxm")

    printed = run(
        "made = relax_mlir.load(sys.argv[1])\n"
        "try:\n"
        "    made(x)\n"
        "except ImportError as error:\n"
        "    print(error)\n",
        tmp_path / "m.rxm",
    )

    assert "pip install relax_mlir" in printed


def test_importing_the_package_imports_no_other() -> None:
    printed = run(
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'mlir', 'tvm_ffi'}))\n"
        "relax_mlir.load\n"
        "print('tvm_ffi' in sys.modules)\n"
        "relax_mlir.Executable\n"
        "print('tvm_ffi' in sys.modules)\n"
    )

    assert printed == "[]\nFalse\nTrue\n"


@pytest.mark.parametrize(
    "module", ["runtime.cpu", "compiler.compile", "frontends.onnx", "tvm", "nn"]
)
def test_torch_is_not_imported(module: str, tmp_path: Path) -> None:
    """tvm-ffi would import it, in seconds; a program that uses torch imports it itself."""
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')\n")
    code = "import relax_mlir.{}, tvm_ffi, sys; print('torch' in sys.modules)"

    made = subprocess.run(
        [sys.executable, "-c", code.format(module)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.stdout == "False\n", made.stderr

"""Models as shared libraries: from Python, C, C++ and Rust, on several kinds of processors."""

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
import tvm_ffi

import relax_mlir
from models import fashion_mlp
from relax_mlir.codegen import linker, object_code
from relax_mlir.compiler.export import export
from relax_mlir.compiler.export_wheel import export_wheel
from relax_mlir.errors import (
    CompileError,
    IndexOutOfRangeError,
    ModelError,
    SignatureError,
    UnsupportedError,
)
from relax_mlir.runtime.exported_library import ExportedLibrary
from relax_mlir.tvm.script import from_source

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "examples" / "native"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        linker.linker_command(object_code.host_cpu()[0]) is None,
        reason="no linker is installed",
    ),
]


def parsed(body: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> {body}'
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "fashion.so"
    export(fashion_mlp.path(), path)
    return path


def test_results_are_those_of_the_compiled_model(library: Path) -> None:
    model = relax_mlir.load(library, threads=2)
    images, _ = fashion_mlp.load_images()
    (expected,) = relax_mlir.compile(fashion_mlp.path())(images)
    given = np.asfortranarray(images[:7])
    out = np.empty((7, 20), np.float32)[:, ::2]

    (logits,) = model(images)
    model(x=given, out=[out])

    assert str(model.signature) == "(x: float32[n, 784]) -> (logits: float32[n, 10])"
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(out, expected[:7], rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(copy.copy(model)(images)[0], logits)


def test_a_module_of_tvm_ffi(library: Path) -> None:
    function = tvm_ffi.load_module(library).main
    images, _ = fashion_mlp.load_images()
    (expected,) = relax_mlir.compile(fashion_mlp.path())(images)
    given = tvm_ffi.from_dlpack(images)
    out = np.empty((len(images), 10), np.float32)

    (logits,) = function(given)
    function(given, tvm_ffi.from_dlpack(out))

    for found in (np.from_dlpack(logits), out):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="dimension 1: expected 784, got 7"):
        function(tvm_ffi.from_dlpack(np.zeros((2, 7), np.float32)))
    with pytest.raises(TypeError, match="argument 0 `x`: expected a tensor"):
        function(1)
    with pytest.raises(
        TypeError, match="expected 1 arguments, or 2 with outputs, got 0"
    ):
        function()


def test_variants_share_weights(library: Path, tmp_path: Path) -> None:
    export(fashion_mlp.path(), tmp_path / "one.so", targets=["cpu:x86-64-v3"])
    weights = fashion_mlp.path().stat().st_size
    code = (tmp_path / "one.so").stat().st_size - weights
    assert library.stat().st_size < weights + 2 * code


_VARIANT = """
import sys, numpy as np
import relax_mlir
x = np.load(sys.argv[2])
np.save(sys.argv[3], relax_mlir.load(sys.argv[1])(x)[0])
print("tvm_ffi" in sys.modules)
"""


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_each_variant_is_right(number: int, library: Path, tmp_path: Path) -> None:
    images, _ = fashion_mlp.load_images()
    np.save(tmp_path / "x.npy", images)
    (expected,) = relax_mlir.compile(fashion_mlp.path())(images)

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _VARIANT,
            library,
            tmp_path / "x.npy",
            tmp_path / "y.npy",
        ],
        env={**os.environ, "RELAX_MLIR_VARIANT": str(number)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    if number == 3:  # there are three: for x86-64-v4, v3 and v2
        assert "RuntimeError: the processor lacks features" in done.stderr
    elif "lacks features" in done.stderr:
        pytest.skip("this processor lacks features of the variant")
    else:
        assert done.stdout == "False\n", done.stderr
        actual = np.load(tmp_path / "y.npy")
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        (
            [np.zeros((2, 7), np.float32)],
            ValueError,
            "dimension 1: expected 784, got 7",
        ),
        ([np.zeros((2, 784))], TypeError, "expected element type float32, got float64"),
        ([np.zeros(784, np.float32)], ValueError, "expected rank 2, got 1"),
        ([], TypeError, "inputs: expected 1 arrays, got 0"),
        ([[0.0]], TypeError, "inputs: expected numpy arrays, got list"),
    ],
)
def test_wrong_inputs_are_refused(
    arrays: Sequence[np.ndarray], error: type[Exception], text: str, library: Path
) -> None:
    with pytest.raises(error, match=text):
        ExportedLibrary(library).run(arrays)


def test_constants_scalars_and_derived_sizes(tmp_path: Path) -> None:
    model = parsed(
        """g (float[n, m] x, bool s) => (float[k] y, float[n, m] z, int64 c)
        <int64[1] flat = {-1}, int64 seven = {7}> {
          f = Reshape (x, flat) y = Concat <axis = 0> (f, f)
          t = Exp (x) z = Where (s, x, t) c = Identity (seven) }"""
    )
    export(model, tmp_path / "g.so", targets=["cpu"])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    y, z, c = relax_mlir.load(tmp_path / "g.so")(x, np.array(False))

    np.testing.assert_array_equal(y, np.tile(x.reshape(-1), 2))
    np.testing.assert_allclose(z, np.exp(x), rtol=1e-6)
    assert c == 7


def test_half_precision_and_many_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = parsed(
        """g (float16[n, 256] x, float16[256, 512] w) => (float16[n, 512] y)
        { y = MatMul (x, w) }"""
    )
    export(model, tmp_path / "g.so", targets=["cpu"])
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((300, 256), (256, 512)))
    library = ExportedLibrary(tmp_path / "g.so")

    (one,), (two,) = library.run([x, w], threads=1), library.run([x, w], threads=2)

    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, x.astype(np.float32) @ w, rtol=2e-2, atol=0.2)


_THREADS = """
import os, sys, threading, numpy as np
from relax_mlir.runtime.exported_library import ExportedLibrary
library = ExportedLibrary(sys.argv[1])
x = np.random.default_rng(0).random((64, 784), np.float32)
(expected,) = library.run([x])
wrong = []

def call():
    for _ in range(20):
        wrong.extend([1] if not (library.run([x])[0] == expected).all() else [])

threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong))
if (child := os.fork()) == 0:
    os._exit(0 if (library.run([x])[0] == expected).all() else 1)
print(os.waitpid(child, 0)[1], flush=True)

def forever():
    while True: library.run([x])

for _ in range(4): threading.Thread(target=forever, daemon=True).start()
"""


def test_many_threads_a_fork_and_an_exit_in_the_middle(library: Path) -> None:
    for _ in range(3):
        printed = run(sys.executable, "-c", _THREADS, library, cwd=ROOT)

        assert printed == "0\n0\n"


def test_a_model_that_sorts(tmp_path: Path) -> None:
    sorting = parsed(
        """g (float[n, 500] x) => (float[n, 20] y, int64[n, 20] i)
        <int64[1] k = {20}> { y, i = TopK (x, k) }"""
    )
    path = tmp_path / "top.so"
    export(sorting, path, targets=["cpu"])
    x = np.random.default_rng(0).standard_normal((3, 500), np.float32)
    expected = np.argsort(-x, axis=1)[:, :20]

    values, places = relax_mlir.load(path)(x)

    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


def test_a_model_that_checks_indices(tmp_path: Path) -> None:
    gather = parsed(
        """g (float[5] x, int64[n] i) => (float[n] y) { y = Gather (x, i) }"""
    )
    path = tmp_path / "gather.so"
    export(gather, path, targets=["cpu"], checks="indices")
    model = relax_mlir.load(path)
    x = np.arange(5, dtype=np.float32)

    np.testing.assert_array_equal(model(x, np.array([4, -1, 0]))[0], [4, 4, 0])
    with pytest.raises(
        IndexOutOfRangeError, match=r"at \[1\]: expected -5 to 4, got 5"
    ):
        model(x, np.array([0, 5]))
    np.testing.assert_array_equal(model(x, np.array([1]))[0], [1])
    with pytest.raises(IndexError, match="got -6"):
        ExportedLibrary(path).run([x, np.array([-6])])
    with pytest.raises(IndexError, match="got 9"):
        tvm_ffi.load_module(path).main(
            tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(np.array([9]))
        )


def test_models_that_need_more_than_the_library_are_refused(tmp_path: Path) -> None:
    staged = parsed("""g (float[n] x) => (int64[1, m] y) { y = NonZero (x) }""")
    calling = from_source(
        "@R.function\n"
        'def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):\n'
        '    return R.call_dps_packed("my.function", (x,), R.Tensor((4,), "float32"))\n'
    )

    with pytest.raises(UnsupportedError, match="compiled ahead of time as a whole"):
        export(staged, tmp_path / "g.so")
    with pytest.raises(UnsupportedError, match=r"got one of `my\.function`"):
        export(calling, tmp_path / "g.so")
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parsed("g (float[2] x) => (float[2] y) { y = Relu (x) }")

    with pytest.raises(ValueError, match="expected a C identifier, got `1st`"):
        export(model, tmp_path / "1st.so")
    with pytest.raises(ValueError, match="expected a C identifier"):
        export(model, tmp_path / "g.so", name="a b")
    with pytest.raises(UnsupportedError, match="expected a CPU"):
        export(model, tmp_path / "g.so", targets=["cuda:sm_90"])
    with pytest.raises(OSError, match="nowhere"):
        export(model, tmp_path / "nowhere" / "g.so")
    monkeypatch.setattr(
        "relax_mlir.codegen.exported_library.linker_command", lambda triple: None
    )
    with pytest.raises(CompileError, match="pip install ziglang"):
        export(model, tmp_path / "g.so", targets=["cpu"])


def test_other_libraries_are_refused(tmp_path: Path, library: Path) -> None:
    runtime = ROOT / "relax_mlir" / "runtime" / "librelax_mlir_rt.so"
    (tmp_path / "short.so").write_bytes(library.read_bytes()[:5000])

    with pytest.raises(ModelError, match="not an exported model"):
        relax_mlir.load(runtime)
    with pytest.raises(
        ModelError, match=r"short\.so: expected \d+ bytes or more, got 5000"
    ):
        relax_mlir.load(tmp_path / "short.so")
    with pytest.raises(SignatureError, match="a shared library has no signature"):
        relax_mlir.load(library, public_key=b"key")


def test_a_wheel_needs_numpy_alone(tmp_path: Path) -> None:
    wheel, targets = export_wheel(
        fashion_mlp.path(), tmp_path, name="fashion", version="1.2", targets=["cpu"]
    )
    folder = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", folder, wheel, cwd=tmp_path)
    images, _ = fashion_mlp.load_images()
    np.save(tmp_path / "x.npy", images)
    code = """
import sys
import fashion, numpy as np
x = np.load("x.npy")
np.save("y.npy", fashion.run(x)[0])
assert (fashion.run(x=x[:2], threads=1)[0] == np.load("y.npy")[:2]).all()
for wrong in (dict(z=x), dict(x=x, z=x)):
    try:
        fashion.run(**wrong)
    except TypeError as error:
        print(error)
print(fashion.signature["outputs"])
print({"relax_mlir", "tvm_ffi", "onnx", "mlir"} & {n.partition(".")[0] for n in sys.modules})
"""

    printed = run(
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}",
        cwd=tmp_path,
    ).splitlines()

    (expected,) = relax_mlir.compile(fashion_mlp.path())(images)
    np.testing.assert_allclose(
        np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-4
    )
    assert targets == ["cpu"]
    assert wheel.name.startswith("fashion-1.2-py3-none-")
    assert printed == [
        "inputs: expected ['x'] by name, got ['z']",
        "inputs: expected ['x'] by name, got ['x', 'z']",
        "[{'name': 'logits', 'dtype': 'float32', 'shape': ['n', '10']}]",
        "set()",
    ]


def test_bad_names_and_versions_of_wheels(tmp_path: Path) -> None:
    model = parsed("g (float[2] x) => (float[2] y) { y = Relu (x) }")

    with pytest.raises(ValueError, match=r"expected one such as `1\.0`, got `new`"):
        export_wheel(model, tmp_path, name="g", version="new")
    with pytest.raises(ValueError, match="expected a C identifier, got `a-b`"):
        export_wheel(model, tmp_path, name="a-b")


def images_file(folder: Path) -> tuple[Path, np.ndarray]:
    images, _ = fashion_mlp.load_images()
    path = folder / "images.bin"
    images[:20].tofile(path)
    (logits,) = relax_mlir.compile(fashion_mlp.path())(images[:20])
    return path, logits.argmax(1)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("source", ["classify.c", "classify.cc"])
def test_the_example_in_c(source: str, library: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc" if source.endswith(".c") else "c++")
    if compiler is None:
        pytest.skip("no compiler is installed")
    strict = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    folder = library.parent
    include = ("-I", folder, NATIVE / source)
    run(
        compiler,
        *strict,
        *include,
        library,
        f"-Wl,-rpath,{folder}",
        "-o",
        "c",
        cwd=tmp_path,
    )
    path, classes = images_file(tmp_path)

    printed = run(tmp_path / "c", path, cwd=tmp_path)

    assert printed.split() == [str(c) for c in classes]


def test_the_example_in_rust(library: Path, tmp_path: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    shutil.copytree(NATIVE / "rust", tmp_path / "rust")
    os.environ["FASHION_LIB_DIR"] = str(library.parent)
    try:
        run(cargo, "build", "--offline", "--quiet", cwd=tmp_path / "rust")
    finally:
        del os.environ["FASHION_LIB_DIR"]
    path, classes = images_file(tmp_path)

    printed = run(tmp_path / "rust/target/debug/classify", path, cwd=tmp_path)

    assert printed.split() == [str(c) for c in classes]


def test_the_library_needs_the_c_library_alone(library: Path) -> None:
    readelf = object_code.llvm_c.directory() / "bin" / "llvm-readelf"

    dynamic = run(readelf, "--dynamic", library, cwd=library.parent)
    symbols = run(readelf, "--dyn-syms", library, cwd=library.parent)

    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libm.so.6", "libc.so.6"]
    assert "TEXTREL" not in dynamic
    assert "BIND_NOW" in dynamic
    assert "NODELETE" in dynamic
    exported = {
        line.split()[7]
        for line in symbols.splitlines()
        if "GLOBAL" in line and "UND" not in line
    }
    functions = ("run", "output_shapes", "error", "signature")
    names = {f"{p}_{f}" for p in ("fashion", "relax_mlir") for f in functions}
    assert exported == {*names, "__tvm_ffi_main"}

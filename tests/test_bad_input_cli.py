"""No call of `relax-mlir` ends in a traceback, a dead process or half a file."""

import hashlib
import json
import platform
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import relax_mlir
from relax_mlir.constant_pool import save_pool
from relax_mlir.errors import IRError, ModelError
from relax_mlir.tools.cli import main

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 20] x, int64[n] i) => (float[n, 20] y, int64[n] j)
<float[20] shift = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}>
{
   [first] s = Add (x, shift)
   [second] y = Relu (s)
   [third] j = Neg (i)
}
"""
BAD_AXIS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "relax.softmax"(%x) {axis = 7 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
CALL = """
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
_LISTS = ("inputs", "outputs", "symbols", "derived", "constraints", "constants")
_SIGNATURE = json.dumps({"arena": "0", **{name: [] for name in _LISTS}})
NO_KERNEL = """
module attributes {relax.signature = "SIGNATURE"} {
func.func private @f()
func.func @main() {
  func.call @f() : () -> ()
  return
}
}
""".replace("SIGNATURE", _SIGNATURE.replace('"', "\\22"))
COMMANDS = {
    "check": ["check"],
    "import": ["import", "-o", "{out}"],
    "compile": ["compile", "-o", "{out}"],
    "run": ["run", "--random-inputs", "--output", "y={out}"],
    "bench": ["bench"],
}
X = np.ones((2, 20), np.float32)


@dataclass(frozen=True)
class Run:
    """What a call did.

    Attributes:
        status: its exit status.
        error: what it wrote to stderr.
        out: where `{out}` was.
    """

    status: int
    error: str
    out: Path

    def failed(self, pattern: str, status: int = 1) -> None:
        """One clear message, and nothing left behind."""
        assert self.status == status
        assert self.error.startswith("relax-mlir: error: ")
        assert self.error.count("relax-mlir: error: ") == 1
        assert re.search(pattern, self.error), self.error
        assert "Traceback" not in self.error
        assert "--debug" not in self.error  # said of what nobody thought of
        assert list(self.out.parent.iterdir()) == []


Call = Callable[..., Run]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good model as model.onnx, model.mlir and model.rxm."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(parser.parse_model(MODEL), folder / "model.onnx")
    relax_mlir.import_onnx(folder / "model.onnx").save(folder / "model.mlir")
    model = relax_mlir.compile(folder / "model.onnx", cache=False)
    model.save(folder / "model.rxm")
    np.save(folder / "x.npy", X)
    np.save(folder / "i.npy", np.zeros(2, np.int64))
    return folder


@pytest.fixture
def call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Call]:
    """Run the command in this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out" / "file"
    out.parent.mkdir()

    def run(*argv: object) -> Run:
        status = main([str(a).replace("{out}", str(out)) for a in argv])
        return Run(status, capsys.readouterr().err, out)

    yield run
    assert (tmp_path / "out").is_dir()


def damaged(models: Path, folder: Path, kind: str, suffix: str) -> Path:
    """A file that is no model."""
    path = folder / f"bad{suffix}"
    whole = (models / f"model{suffix}").read_bytes()
    contents = {
        "empty": b"",
        "random": np.random.default_rng(0).bytes(2000),
        "truncated": whole[: len(whole) // 2],
    }
    if kind == "directory":
        path.mkdir()
    elif kind in contents:
        path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    "kind", ["missing", "directory", "empty", "random", "truncated"]
)
@pytest.mark.parametrize("suffix", [".onnx", ".mlir", ".rxm"])
@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_no_models(
    command: str, suffix: str, kind: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = damaged(models, tmp_path, kind, suffix)

    run = call(*COMMANDS[command], path)

    run.failed("bad" if kind != "empty" else "bad|`main`")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("module {\n  func.func @main(", r"bad.mlir: malformed module: line 2"),
        ("{" * 100_000, "nested deeper than"),
        ("func.func private @main(tensor<4xf32>)", "bad.mlir: `main` is declared only"),
        (BAD_AXIS, "line 3, column 8: `relax.softmax`: axis is out of range"),
        (CALL, "line 4, column 8: `func.call` is left"),
        (NO_KERNEL, "line 5, column 3: `main` calls `f`: expected a tensor program"),
        ("func.func @main(%x: i32) -> i32 { return %x : i32 }", "`main` of tensors"),
        (
            'module attributes {relax.signature = "{"} {}',
            "`relax.signature` is damaged",
        ),
        ("module attributes {relax.signature = 1} {}", "`relax.signature` is damaged"),
        (
            'module attributes {relax.signature = "{\\22constants\\22: []}"} {}',
            "`relax.signature` is damaged",
        ),
    ],
)
@pytest.mark.parametrize("command", ["compile", "run", "bench"])
def test_modules_that_are_no_models(
    command: str, text: str, problem: str, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "bad.mlir").write_text(text)

    call(*COMMANDS[command], tmp_path / "bad.mlir").failed(problem)


@pytest.mark.parametrize("command", ["compile", "import", "run", "bench"])
def test_operators_without_a_rule(command: str, tmp_path: Path, call: Call) -> None:
    text = MODEL.replace("Relu", "Wobble")
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")

    run = call(*COMMANDS[command], tmp_path / "m.onnx")

    run.failed(r"no rule for 1 operator.*\n.*`Wobble`: 1 node, `second`")


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (None, "m.safetensors: no such file: expected the module's constants"),
        (b"", "m.safetensors: not a safetensors file, or damaged"),
        (b"\xff" * 100, "m.safetensors: not a safetensors file, or damaged"),
        ({}, "m.safetensors: no constant `shift`"),
        (
            {"shift": np.ones(19, np.float32)},
            r"expected float32\[20\], got float32\[19",
        ),
        ({"shift": np.ones(20)}, r"`shift`: expected float32\[20\], got float64\[20\]"),
    ],
    ids=["missing", "empty", "garbage", "other", "shape", "type"],
)
@pytest.mark.parametrize("command", ["compile", "run", "bench"])
def test_constants_that_do_not_fit(
    command: str,
    arrays: "bytes | dict[str, np.ndarray] | None",
    problem: str,
    models: Path,
    tmp_path: Path,
    call: Call,
) -> None:
    shutil.copy(models / "model.mlir", tmp_path / "m.mlir")
    if isinstance(arrays, bytes):
        (tmp_path / "m.safetensors").write_bytes(arrays)
    elif arrays is not None:
        save_pool(tmp_path / "m.safetensors", arrays)

    call(*COMMANDS[command], tmp_path / "m.mlir").failed(problem)


def test_constants_that_are_cut_off(models: Path, tmp_path: Path) -> None:
    shutil.copy(models / "model.mlir", tmp_path)
    whole = (models / "model.safetensors").read_bytes()

    for size in range(0, len(whole), 11):
        (tmp_path / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(IRError, match="not a safetensors file, or damaged"):
            relax_mlir.IRModule.load(tmp_path / "model.mlir")


def test_the_text_does_not_take_the_place_of_its_constants(
    models: Path, tmp_path: Path, call: Call
) -> None:
    out = tmp_path / "out" / "m.safetensors"

    call("import", models / "model.onnx", "-o", out).failed("expected another name")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--target", "gpu"], "unknown target `gpu`: expected cpu"),
        (["--target", "cpu:znver33"], "no such processor .*znver3"),
        (["--target", "cpu:"], None),
        (["--shape", "z=1,20"], "shapes: .*`z`"),
        (["--shape", "x=1,20,3"], "`x`: expected 2 sizes, got 3"),
        (["--shape", "x=1,19"], "19"),
        (["--shape", "x=n+,20"], "`x`"),
        (["--dump", "{model}"], "File exists"),
    ],
)
def test_compile_refuses(
    flags: list[str], problem: str | None, models: Path, call: Call
) -> None:
    path = models / "model.onnx"
    flags = [flag.replace("{model}", str(path)) for flag in flags]

    run = call("compile", path, "-o", "{out}", *flags)

    if problem is None:
        assert run.status == 0
    else:
        run.failed(problem)


def test_shapes_are_for_onnx_models(models: Path, call: Call) -> None:
    flags = ["-o", "{out}", "--shape", "x=1,20"]

    call("compile", models / "model.mlir", *flags).failed("`--shape` is for .onnx")


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("{folder}/none/file", "/none/file: No such file or directory"),
        ("{folder}", ": Is a directory"),
        ("{model}/file", "/file: Not a directory"),
        ("", ": Is a directory"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "import"])
def test_outputs_that_cannot_be_written(
    command: str, out: str, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = models / "model.onnx"
    out = out.replace("{folder}", str(tmp_path / "out")).replace("{model}", str(path))

    call(command, path, "-o", out).failed(re.escape(problem))

    assert not list((tmp_path / "cache").rglob("*"))  # said before the work began


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("{model}", "File exists|Not a directory"),
        ("{model}/sub", "Not a directory"),
        ("y={folder}", "Is a directory"),
        ("z=z.npy", "no output `z`: expected one of `y`, `j`"),
    ],
)
def test_run_cannot_write(
    output: str, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = models / "model.rxm"
    output = output.replace("{model}", str(path)).replace("{folder}", str(tmp_path))

    call("run", path, "--random-inputs", "--output", output).failed(problem)


def test_a_failed_run_leaves_an_old_output_alone(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "y.npy"
    out.write_text("old")
    np.save(tmp_path / "x.npy", X[:, :19])
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"i={models / 'i.npy'}"]

    status = main(["run", str(models / "model.rxm"), *flags, "--output", f"y={out}"])

    assert status == 1
    assert out.read_text() == "old"


def npy(array: np.ndarray) -> Callable[[Path], None]:
    return lambda path: np.save(path, array, allow_pickle=True)


def npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, X)


def huge(path: Path) -> None:
    """The header of an array that no machine holds."""
    np.save(path, X)
    data = path.read_bytes().replace(b"(2, 20), }", b"(2, 20%s), }" % (b"0" * 10))
    path.write_bytes(data.replace(b" " * 10, b"", 1))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "input `x`: .*x.npy: no such file"),
        (lambda path: path.mkdir(), "input `x`: .*x.npy: not a regular file"),
        (lambda path: path.write_bytes(b""), "not a .npy file, or damaged"),
        (lambda path: path.write_bytes(b"x" * 500), "not a .npy file, or damaged"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"), "not a .npy file"),
        (npz, r"expected one array \(.npy\), got an archive"),
        (npy(np.array([None, {}])), "not a .npy file"),
        (npy(np.array(["a", "b"])), "element type float32, got <U1"),
        (npy(np.ones(2, [("a", "f4")])), "element type float32, got"),
        (huge, "not a .npy file, or damaged"),
        (
            npy(X.astype(np.float64)),
            "input `x`: .*expected element type float32, got float64",
        ),
        (npy(X.astype(np.uint8)), "expected element type float32, got uint8"),
        (npy(X.astype(np.complex64)), "expected element type float32, got complex64"),
        (npy(X[0]), "`x`: expected rank 2, got 1"),
        (npy(X[:, :19]), "`x`: dimension 1: expected 20, got 19"),
        (npy(X[:1]), r"`i`: dimension 0 \(`n`\): expected 1 .*, got 2"),
    ],
    ids=[
        *("missing", "directory", "empty", "garbage", "cut", "npz", "pickle", "text"),
        *("fields", "huge", "f64", "u8", "complex", "rank", "size", "symbol"),
    ],
)
def test_inputs_that_do_not_fit(
    make: Callable[[Path], None],
    problem: str,
    models: Path,
    tmp_path: Path,
    call: Call,
) -> None:
    make(tmp_path / "x.npy")
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"i={models / 'i.npy'}"]

    call("run", models / "model.rxm", *flags).failed(problem)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "inputs without a value: `x`, `i`. Give them"),
        (["--input", "x={x}"], "inputs without a value: `i`"),
        (["--input", "z={x}"], "no input `z`: expected `x`, `i`"),
        (["--random-inputs", "--size", "m=2"], "no size `m`: expected `n`"),
        (["--random-inputs", "--size", f"n={2**40}"], "input `x`: cannot make"),
        (
            ["--random-inputs", "--input", "i={x}"],
            "expected element type int64, got float32",
        ),
    ],
)
def test_run_refuses(
    flags: Sequence[str], problem: str, models: Path, call: Call
) -> None:
    flags = [flag.replace("{x}", str(models / "x.npy")) for flag in flags]

    call("run", models / "model.rxm", *flags).failed(problem)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["run"],
        ["check", "a", "b"],
        ["compile", "m.onnx"],
        ["compile", "m.onnx", "-o", "x", "--threads", "0"],
        ["compile", "m.onnx", "-o", "x", "--threads", "many"],
        ["compile", "m.onnx", "-o", "x", "--threads", "9" * 30],
        ["compile", "m.onnx", "-o", "x", "--shape", "x"],
        ["compile", "m.onnx", "-o", "x", "--shape", "x=1,,2"],
        ["run", "m.onnx", "--input", "x"],
        ["run", "m.onnx", "--size", "n=2"],
        ["run", "m.onnx", "--random-inputs", "--size", "n=-2"],
        ["run", "m.onnx", "--random-inputs", "--size", "n"],
        ["run", "m.onnx", "--input", "x=a", "--input", "x=b"],
        ["run", "m.onnx", "--random-inputs", "--seed", "-1"],
        ["bench", "m.onnx", "--rounds", "0"],
        ["doctor", "--fix"],
    ],
    ids=" ".join,
)
def test_wrong_calls(argv: list[str], call: Call) -> None:
    call(*argv).failed(".", status=2)


def test_tracebacks_only_on_demand(call: Call, tmp_path: Path) -> None:
    run = call("check", tmp_path / "none.onnx", "--debug")

    assert run.status == 1
    assert "Traceback" in run.error
    assert "relax-mlir: error: " in run.error


def answer(path: Path) -> np.ndarray | None:
    """What a compiled model makes of X; None if the file is refused."""
    try:
        return relax_mlir.load(path)(X, np.zeros(2, np.int64))[0]
    except ModelError:
        return None


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_compiled_model_that_is_damaged_is_not_run(
    damage: str, models: Path, tmp_path: Path
) -> None:
    """Bytes cut off, or bits flipped: it is refused, or nothing was lost."""
    whole = (models / "model.rxm").read_bytes()
    path = tmp_path / "m.rxm"
    rng = np.random.default_rng(0)
    expected = answer(models / "model.rxm")
    refused = 0

    for position in rng.integers(0, len(whole), 60).tolist():
        data = bytearray(whole[:position] if damage == "cut" else whole)
        if damage == "flipped":
            data[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        found = answer(path)
        if found is None:
            refused += 1
        else:  # a date, or something else that nobody reads
            np.testing.assert_array_equal(found, expected)

    assert refused >= 50


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, found: dict[str, bytes], kind: int = 0) -> None:
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in found.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("name", ["manifest.json", "objects/0.o", "constants/0"])
def test_members_that_are_missing(
    name: str, models: Path, tmp_path: Path, call: Call
) -> None:
    found = members(models / "model.rxm")
    del found[name]
    write_members(tmp_path / "m.rxm", found)

    run = call(*COMMANDS["run"], tmp_path / "m.rxm")

    run.failed(f"m.rxm: not a compiled model, or damaged: `{name}` is missing")


def test_code_for_another_architecture(
    models: Path, tmp_path: Path, call: Call
) -> None:
    other = "znver3" if platform.machine() == "aarch64" else "neoverse-v1"
    path = tmp_path / "other.rxm"
    target = f"cpu:{other}"
    relax_mlir.compile(models / "model.onnx", target=target, cache=False).save(path)

    run = call(*COMMANDS["run"], path)

    run.failed(r"other.rxm: compiled for \S+, this machine is \S+\n")


def test_code_that_is_not_what_was_written(
    models: Path, tmp_path: Path, call: Call
) -> None:
    found = members(models / "model.rxm")
    found["objects/0.o"] = found["objects/0.o"][:-8] + bytes(8)
    found["objects/1.o"] = b"garbage" + found["objects/1.o"]
    write_members(tmp_path / "m.rxm", found)

    run = call(*COMMANDS["run"], tmp_path / "m.rxm")

    run.failed("the code is not what was written")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"threads": 1', b'"threads": 9', "not what was written"),
        (b'["n", "20"]', b'["n", "99"]', "not what was written"),
        (b'["n", "20"]', b'["n", "-9"]', "not what was written"),
        (b'"format": 2', b'"format": 1', "expected format 2, got 1. Compile it again"),
        (b'"format": 2', b'"farmot": 2', "format"),
        (b'"objects": ', b'"objects": 9', "is missing"),
        (b"{", b"[", "damaged"),
        (b"{", b"{" * 100_000, "damaged"),
        (b"{", b"\xff", "damaged"),
    ],
)
def test_manifests_that_were_changed(
    old: bytes, new: bytes, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    found = members(models / "model.rxm")
    assert old in found["manifest.json"]
    found["manifest.json"] = found["manifest.json"].replace(old, new)
    write_members(tmp_path / "m.rxm", found)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed(problem)


def test_compressed_members_are_not_read(
    models: Path, tmp_path: Path, call: Call
) -> None:
    """A few bytes could claim to be more than memory holds."""
    found = members(models / "model.rxm")
    found["constants/0"] = bytes(10_000_000)
    write_members(tmp_path / "m.rxm", found, zipfile.ZIP_DEFLATED)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed("is compressed")


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("float32", [-20]), ("float32", [2**62, 4]), ("float32", [21]), ("f", [20])],
)
def test_weights_of_impossible_shapes(
    kind: str, shape: list[int], models: Path, tmp_path: Path, call: Call
) -> None:
    """Also where the checksum was made for them."""
    found = members(models / "model.rxm")
    manifest = json.loads(found["manifest.json"])
    manifest["constants"]["shift"] = [kind, shape]
    del manifest["digest"]
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for number in range(manifest["objects"]):
        code = found[f"objects/{number}.o"]
        digest.update(len(code).to_bytes(8, "little") + code)
    manifest["digest"] = digest.hexdigest()
    found["manifest.json"] = json.dumps(manifest).encode()
    write_members(tmp_path / "m.rxm", found)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed("`constants/0`|element type `f`")

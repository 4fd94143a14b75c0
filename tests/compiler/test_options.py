"""Compile options: one list of them for all entry points, and what modules do with each."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.compiler.driver import target_of
from relax_mlir.compiler.host.build import jit_options
from relax_mlir.compiler.options import INHERITED, CompileOptions
from relax_mlir.errors import ArgumentTypeError, RelaxError, UnsupportedError
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.targets import LoweringOptions, TargetError
from relax_mlir.tvm import relax, te
from relax_mlir.tvm.relax import vm

_DEFAULTS = {f.name: f.default for f in fields(CompileOptions)}
X = np.arange(6, dtype=np.float32).reshape(2, 3)

MODEL = """g (float[2, 3] x) => (float[2, 3] y) { h = Exp (x)  y = Neg (h) }"""


def model() -> bytes:
    text = f'<ir_version: 10, opset_import: ["" : 20]> {MODEL}'
    return parser.parse_model(text).SerializeToString()


def primfunc(name: str = "double") -> Any:
    x = te.placeholder((4,), "float32", name="x")
    y = te.compute((4,), lambda i: x[i] * np.float32(2), name="y")
    return te.create_prim_func([x, y]).with_attr("global_symbol", name)


def kernels() -> IRModule:
    return IRModule({name: primfunc(name) for name in ("double", "twice")})


def hosted() -> IRModule:
    """A module with a kernel that is called by the host, and a function of the machine."""
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    with block.function("main", [x]):
        y = block.emit(relax.op.exp(x))
        shape = relax.Call(relax.ExternFunc("vm.builtin.shape_of"), [y])
        block.emit(relax.Call(shape.op, [y], sinfo_args=[relax.ObjectStructInfo()]))
        block.emit_func_output(y)
    return block.get()


@pytest.mark.parametrize(
    "function",
    [relax_mlir.compile, relax_mlir.lower, relax_mlir.explain, relax_mlir.tune],
)
def test_entry_points_have_the_same_options(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    common = {name: p.default for name, p in parameters.items() if name in _DEFAULTS}

    assert common == {name: _DEFAULTS[name] for name in common}
    assert {"target", "precision", "winograd"} <= common.keys()
    if function is relax_mlir.compile:
        assert common.keys() == _DEFAULTS.keys()


def test_every_option_is_documented() -> None:
    texts = [
        relax_mlir.compile.__doc__,
        CompileOptions.__doc__,
        LoweringOptions.__doc__,
    ]
    public, ours, lowering = (text or "" for text in texts)
    for name in _DEFAULTS:
        assert f"{name}:" in public or f"{name}, " in public
        assert f"{name}:" in ours + lowering or f"{name}, " in ours


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"precision": "f33"}, TargetError, r"unknown precision `f33`.*f32"),
        ({"library": "often"}, TargetError, r"unknown library `often`: .*always"),
        ({"winograd": "no"}, TargetError, r"unknown winograd `no`: .*auto, never"),
        ({"checks": "all"}, TargetError, r"unknown checks `all`: .*none, indices"),
        ({"verify": "all"}, RelaxError, r"`verify`: expected `each-pass`, got `all`"),
        ({"inputs": [X]}, RelaxError, r"`inputs`: expected `verify`.*Hint: `verify="),
        ({"threads": 0}, ValueError, r"threads: expected 1 to \d+, got 0"),
    ],
)
def test_wrong_values_are_refused_everywhere(
    options: Mapping[str, Any], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        CompileOptions(**options)
    for subject in (model(), kernels(), hosted()):
        with pytest.raises(kind, match=message):
            relax_mlir.compile(subject, **options)
    others: dict[Callable[..., Any], Mapping[str, Any]] = {
        relax_mlir.lower: {},
        relax_mlir.explain: {},
        relax_mlir.tune: {"database": tmp_path / "tuned.json"},
    }
    for function, more in others.items():
        if options.keys() <= inspect.signature(function).parameters.keys():
            with pytest.raises(kind, match=message):
                function(relax_mlir.import_onnx(model()), **options, **more)


def test_only_some_options_are_inherited() -> None:
    options = CompileOptions(dump="a", progress=print, precision="bf16", cache="b")

    inherited = jit_options(options)

    assert inherited.inherited == CompileOptions(precision="bf16", cache="b")
    assert hash(inherited) == hash(jit_options(options))
    assert set(INHERITED) < _DEFAULTS.keys()


def test_a_file_holds_the_options_of_code() -> None:
    target = replace(target_of("cpu"), unit=VectorUnit(128, amx=True))
    options = CompileOptions(target=target, winograd="never", threads=2, dump="a")

    read = CompileOptions.from_fields({**options.to_fields(), "other": 1})

    assert read == replace(options, dump=None)
    assert all(default is not MISSING for default in _DEFAULTS.values())


def test_a_saved_model_has_the_machine_it_was_compiled_for(tmp_path: Path) -> None:
    target = replace(target_of("cpu"), unit=VectorUnit(128))
    compiled = relax_mlir.compile(hosted(), target, winograd="never", cache=False)
    assert isinstance(compiled, vm.VMExecutable)

    compiled.export_library(tmp_path / "m.rxm")
    loaded = relax_mlir.load(tmp_path / "m.rxm")

    assert isinstance(loaded, vm.VMExecutable)
    options = CompileOptions.from_fields(json.loads(loaded.options.text))
    assert (options.target, options.winograd) == (target, "never")


def test_dump_of_primfuncs_has_a_folder_for_each(tmp_path: Path) -> None:
    relax_mlir.compile(kernels(), dump=tmp_path, cache=False)

    for name in ("double", "twice"):
        files = sorted(path.name for path in (tmp_path / name).iterdir())
        assert files == ["0-linalg.mlir", "1-loops.mlir", "2-llvm.mlir"]


def test_names_of_primfuncs_are_no_paths(tmp_path: Path) -> None:
    module = IRModule({"../up": primfunc("../up")})

    relax_mlir.compile(module, dump=tmp_path / "dump", cache=False)

    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_progress_of_primfuncs_is_told() -> None:
    told: list[tuple[str, int, int]] = []

    relax_mlir.compile(kernels(), progress=lambda *step: told.append(step), cache=False)

    assert told == [("kernels", 1, 2), ("kernels", 2, 2)] * 2


@pytest.mark.parametrize("inputs", [None, [np.zeros(4, np.float32)] * 2])
def test_primfuncs_are_not_verified(inputs: list[np.ndarray] | None) -> None:
    with pytest.raises(
        UnsupportedError, match=r"`verify`: expected a model.*PrimFuncs"
    ):
        relax_mlir.compile(kernels(), verify="each-pass", inputs=inputs)


def test_inputs_are_for_whole_models() -> None:
    with pytest.raises(RelaxError, match="`inputs`: expected a model that is compiled"):
        relax_mlir.compile(hosted(), verify="each-pass", inputs=[X])


@pytest.mark.parametrize("make", [model, hosted, kernels])
@pytest.mark.parametrize("option", ["relax_pipeline", "tir_pipeline"])
def test_pipelines_of_users_run_on_every_module(
    make: Callable[[], Any], option: str
) -> None:
    seen: list[IRModule] = []

    def noted(module: IRModule) -> IRModule:
        seen.append(module)
        return module

    def compiled(pipeline: Any) -> Any:
        options: dict[str, Any] = {option: pipeline, "cache": False}
        return relax_mlir.compile(make(), **options)

    assert type(compiled(noted)) is type(compiled("default"))
    assert len(seen) == 1
    with pytest.raises(TypeError, match=f"`{option}`: expected it to return an IRMod"):
        compiled(lambda module: None)
    with pytest.raises(ArgumentTypeError, match=f"`{option}`: expected `default` or"):
        compiled(3)


def test_pipelines_of_models_are_known_by_name() -> None:
    (y,) = relax_mlir.compile(model(), relax_pipeline="zero", cache=False)(X)

    np.testing.assert_allclose(y, -np.exp(X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"unknown pipeline `zeroo`.*zero"):
        relax_mlir.compile(model(), relax_pipeline="zeroo")
    with pytest.raises(ArgumentTypeError, match=r"`tir_pipeline`: expected .*'none'"):
        relax_mlir.compile(model(), tir_pipeline="none")


def test_build_of_primfuncs_takes_options() -> None:
    seen: list[IRModule] = []

    def noted(module: IRModule) -> IRModule:
        seen.append(module)
        return module

    built = vm.build_any(kernels(), threads=3, tir_pipeline=noted, cache=False)

    assert isinstance(built, vm.KernelModule)
    assert len(seen) == 1
    assert built["double"].code.threads == 3
    with pytest.raises(TypeError, match="params"):
        vm.build_any(kernels(), params={})

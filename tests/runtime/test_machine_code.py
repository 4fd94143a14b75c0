"""Machine code: linking, loading into this process, and what is refused."""

import ctypes
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.codegen import linker, object_code
from relax_mlir.compiler import driver
from relax_mlir.errors import CompileError
from relax_mlir.runtime import executable
from relax_mlir.runtime.archive import pack, unpack
from relax_mlir.runtime.machine_code import MachineCode, load_code
from tests.codegen.llvm_modules import DOUBLE, HOST, compile_text, resident_kib

_ARM = {"triple": "aarch64-unknown-linux-gnu", "cpu": "", "features": ""}
_RELU = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }"""

_CALLER = """
llvm.func @double(f32) -> f32
llvm.func @quadruple(%x: f32) -> f32 {
  %a = llvm.call @double(%x) : (f32) -> f32
  %b = llvm.call @double(%a) : (f32) -> f32
  llvm.return %b : f32
}
"""

needs_linker = pytest.mark.skipif(
    linker.linker_command(HOST["triple"]) is None, reason="no linker is installed"
)


def loaded(objects: list[bytes], *symbols: str) -> tuple[object, Mapping[str, int]]:
    return load_code(object_code.machine_code(objects, symbols), symbols)


def linked(objects: list[bytes], *symbols: str) -> MachineCode:
    code = linker.link(
        object_code.machine_code(objects, symbols), HOST["triple"], symbols
    )
    assert code is not None
    return code


def compiled_relu() -> executable.Executable:
    model = onnx.parser.parse_model(_RELU).SerializeToString()
    return driver.compile(model, cache=False)


def function_of(address: int) -> Callable[[float], float]:
    return ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address)


def test_missing_symbols_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    data = compile_text(
        """llvm.func @absent_one()
        llvm.func @absent_two()
        llvm.func @f() {
          llvm.call @absent_one() : () -> ()
          llvm.call @absent_two() : () -> ()
          llvm.return
        }"""
    )

    with pytest.raises(
        CompileError, match="undefined functions: `absent_one`, `absent_two`"
    ):
        loaded([data], "f")
    with pytest.raises(CompileError, match="no object defines `g`"):
        loaded([data], "g")
    assert capfd.readouterr().err == ""


def test_objects_see_each_other_but_not_another_load() -> None:
    callee = compile_text(DOUBLE)
    caller = compile_text(_CALLER)

    library, address = loaded([caller, callee], "quadruple", "double")
    quadruple = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address["quadruple"])

    assert quadruple(1.5) == 6.0
    assert address["double"] != address["quadruple"]
    with pytest.raises(CompileError, match="`double`"):
        loaded([caller], "quadruple")
    del library


@pytest.mark.slow
def test_damaged_and_foreign_objects_are_errors() -> None:
    data = compile_text(DOUBLE)

    for broken in (data[:300], data[:16], b"\x7fELF", b"garbage", b""):
        with pytest.raises(CompileError, match=r"corrupt|not recognized"):
            loaded([broken], "double")
    with pytest.raises(CompileError, match="duplicate definition of symbol 'double'"):
        loaded([data, data], "double")
    with pytest.raises(CompileError, match="for another machine"):
        loaded([compile_text(DOUBLE, **_ARM)], "double")
    with pytest.raises(ValueError, match="`a b`: not a symbol"):
        object_code.address_object(["a b"], **HOST)


@needs_linker
def test_a_linked_library_exports_the_named_symbols() -> None:
    code = linked([compile_text(_CALLER), compile_text(DOUBLE)], "quadruple")

    library, address = load_code(code, ["quadruple"])

    assert (code.objects, code.addresses) == ((), b"")
    assert function_of(address["quadruple"])(1.5) == 6.0
    with pytest.raises(CompileError, match="double"):
        load_code(code, ["double"])
    del library


@needs_linker
def test_a_library_is_the_same_bytes_each_time() -> None:
    objects = [compile_text(_CALLER), compile_text(DOUBLE)]

    first, second = (linked(objects, "quadruple") for _ in range(2))

    assert first == second
    assert str(Path.cwd()).encode() not in first.library


@needs_linker
def test_two_libraries_with_the_same_symbols_are_apart() -> None:
    other = DOUBLE.replace("llvm.fadd %x, %x", "llvm.fmul %x, %x")
    codes = [linked([compile_text(text)], "double") for text in (DOUBLE, other)]

    libraries = [load_code(code, ["double"]) for code in codes]

    assert [function_of(a["double"])(3.0) for _, a in libraries] == [6.0, 9.0]


@needs_linker
def test_undefined_functions_of_a_library_are_named() -> None:
    code = linked([compile_text(_CALLER)], "quadruple")

    with pytest.raises(CompileError, match=r"undefined symbol: double"):
        load_code(code, ["quadruple"])


@needs_linker
@pytest.mark.parametrize("bytes_", [0, 3, 64, 400])
def test_a_damaged_library_is_an_error(bytes_: int) -> None:
    code = linked([compile_text(DOUBLE)], "double")

    with pytest.raises(CompileError, match="loading compiled code"):
        load_code(MachineCode(code.library[:bytes_] + b"?"), ["double"])


@needs_linker
def test_a_library_is_loaded_from_a_file_where_memory_has_no_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = linked([compile_text(DOUBLE)], "double")
    monkeypatch.delattr("os.memfd_create", raising=False)

    library, address = load_code(code, ["double"])

    assert function_of(address["double"])(2.0) == 4.0
    del library


@needs_linker
def test_objects_that_cannot_be_linked_are_an_error() -> None:
    with pytest.raises(CompileError, match=r"ld.*`?double"):
        linked([compile_text(DOUBLE), compile_text(DOUBLE)], "double")


def test_no_linker_for_a_machine_is_none() -> None:
    code = object_code.machine_code([compile_text(DOUBLE)], ["double"])

    assert linker.link(code, "vax-dec-vms", ["double"]) is None


@pytest.mark.slow
@pytest.mark.parametrize("is_linked", [False, pytest.param(True, marks=needs_linker)])
def test_unloading_frees_code(is_linked: bool) -> None:
    data = [compile_text(DOUBLE)]
    code = (
        linked(data, "double")
        if is_linked
        else object_code.machine_code(data, ["double"])
    )

    def work(count: int) -> None:
        for _ in range(count):
            load_code(code, ["double"])

    work(200)
    before = resident_kib()
    work(1000)
    assert resident_kib() - before < 8192


@needs_linker
def test_a_saved_model_is_linked(tmp_path: Path) -> None:
    model = compiled_relu()
    assert model.code.objects

    model.save(tmp_path / "m.rxm")
    again = relax_mlir.load(tmp_path / "m.rxm")

    assert again.code.library
    assert not again.code.objects
    x = np.array([[-1, 2, -3, 4]], np.float32)
    np.testing.assert_array_equal(again(x)[0], np.maximum(x, 0))


def test_a_model_is_saved_as_objects_without_a_linker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = compiled_relu()
    monkeypatch.setattr(linker, "linker_command", lambda triple: None)

    contents = unpack(pack(model.contents()))

    assert contents.code == model.code
    again = executable.Executable.of_contents(contents, "m.rxm")
    x = np.array([[-1, 2, -3, 4]], np.float32)
    np.testing.assert_array_equal(again(x)[0], np.maximum(x, 0))


def test_objects_without_the_jit_linker_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = object_code.machine_code([compile_text(DOUBLE)], ["double"])
    monkeypatch.setitem(sys.modules, "tvm_ffi_orcjit", None)

    with pytest.raises(
        CompileError, match=r"pip install relax-mlir-runtime\[objects\]"
    ):
        load_code(code, ["double"])

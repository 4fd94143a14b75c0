"""Machine code of modules in the LLVM dialect: making it, refusing it."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from mlir import ir

from relax_mlir.codegen import object_code
from relax_mlir.errors import CompileError
from relax_mlir.runtime.machine_code import load_code
from tests.codegen.llvm_modules import DOUBLE, HOST, compile_text, resident_kib

# Any: keyword arguments of several types come from dictionaries.
X86: dict[str, Any] = {
    "triple": "x86_64-unknown-linux-gnu",
    "cpu": "x86-64",
    "features": "",
}


def function_of(data: bytes, symbol: str) -> Callable[[float], float]:
    """A function of one float, which keeps its code alive."""
    library, address = load_code(object_code.machine_code([data], [symbol]), [symbol])
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address[symbol])
    function.library = library  # pyright: ignore[reportAttributeAccessIssue]
    return function


def test_compiled_code_runs() -> None:
    assert function_of(compile_text(DOUBLE), "double")(1.25) == 2.5


@pytest.mark.parametrize(
    ("target", "machine"),
    [
        (X86, 62),
        ({**X86, "cpu": "znver3", "features": "+avx2,-fma"}, 62),
        (
            {
                "triple": "aarch64-unknown-linux-gnu",
                "cpu": "neoverse-v1",
                "features": "",
            },
            183,
        ),
    ],
    ids=["x86-64", "znver3", "aarch64"],
)
def test_other_processors_are_targets_too(target: dict[str, str], machine: int) -> None:
    data = compile_text(DOUBLE, **target)

    assert int.from_bytes(data[18:20], "little") == machine


def test_assembly_shows_the_code() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(DOUBLE)

        assert "addss\t%xmm0, %xmm0" in object_code.assembly(module, **X86)


def test_assembly_of_a_gpu_is_ptx() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(
            """llvm.func @kernel(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
              %id = nvvm.read.ptx.sreg.tid.x : i32
              llvm.store %id, %p : i32, !llvm.ptr<1>
              llvm.return
            }"""
        )
        text = object_code.assembly(
            module, triple="nvptx64-nvidia-cuda", cpu="sm_90", features=""
        )

    assert ".target sm_90" in text
    assert "%tid.x" in text


def test_strided_loads_of_bf16_are_compiled_for_processors_that_have_it() -> None:
    """LLVM ends the process on a masked load of 34 bf16, as it makes of strided ones."""
    mask = ", ".join(str(int(lane % 3 == 0)) for lane in range(34))
    lanes = ", ".join(str(lane) for lane in [*range(0, 34, 3), 1, 4, 7, 10])
    text = f"""llvm.func @every_third(%p: !llvm.ptr, %q: !llvm.ptr) {{
      %mask = llvm.mlir.constant(dense<[{mask}]> : vector<34xi1>) : vector<34xi1>
      %rest = llvm.mlir.poison : vector<34xbf16>
      %all = llvm.intr.masked.load %p, %mask, %rest {{alignment = 2 : i32}}
        : (!llvm.ptr, vector<34xi1>, vector<34xbf16>) -> vector<34xbf16>
      %some = llvm.shufflevector %all, %rest [{lanes}] : vector<34xbf16>
      llvm.store %some, %q {{alignment = 2 : i64}} : vector<16xbf16>, !llvm.ptr
      llvm.return
    }}"""

    assert compile_text(text, **{**X86, "cpu": "cooperlake"}).startswith(b"\x7fELF")


def test_passes_and_level_change_the_code() -> None:
    loop = """llvm.func @last(%n: i64) -> i64 {
      %zero = llvm.mlir.constant(0 : i64) : i64
      %one = llvm.mlir.constant(1 : i64) : i64
      llvm.br ^head(%zero : i64)
    ^head(%i: i64):
      %next = llvm.add %i, %one : i64
      %more = llvm.icmp "slt" %next, %n : i64
      llvm.cond_br %more, ^head(%next : i64), ^exit
    ^exit:
      llvm.return %i : i64
    }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(loop)
        as_written = object_code.assembly(module, **X86, passes="verify")
        optimized = object_code.assembly(module, **X86)

    assert "jl" in as_written
    assert "jl" not in optimized  # the loop became arithmetic


MATH = """
llvm.func @expf(f32) -> f32
llvm.func @memcpy(!llvm.ptr, !llvm.ptr, i64) -> !llvm.ptr
llvm.func @memset(!llvm.ptr, i32, i64) -> !llvm.ptr
llvm.func @through_memory(%x: f32) -> f32 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %four = llvm.mlir.constant(4 : i64) : i64
  %zero = llvm.mlir.constant(0 : i32) : i32
  %a = llvm.alloca %one x f32 : (i64) -> !llvm.ptr
  %b = llvm.alloca %one x f32 : (i64) -> !llvm.ptr
  %cleared = llvm.call @memset(%a, %zero, %four) : (!llvm.ptr, i32, i64) -> !llvm.ptr
  llvm.store volatile %x, %a : f32, !llvm.ptr
  %copied = llvm.call @memcpy(%b, %a, %four) : (!llvm.ptr, !llvm.ptr, i64) -> !llvm.ptr
  %v = llvm.load volatile %b : !llvm.ptr -> f32
  %e = llvm.call @expf(%v) : (f32) -> f32
  llvm.return %e : f32
}
"""


def test_c_library_resolves() -> None:
    data = compile_text(MATH, opt_level=0)

    assert function_of(data, "through_memory")(1.0) == pytest.approx(2.7182817)


def test_bfloat16_works_on_processors_without_it() -> None:
    """LLVM calls __truncsfbf2, which few C libraries have; ours does."""
    source = """llvm.func @round(%x: f32) -> f32 {
      %narrow = llvm.fptrunc %x : f32 to bf16
      %wide = llvm.fpext %narrow : bf16 to f32
      llvm.return %wide : f32
    }"""
    if not HOST["triple"].startswith("x86_64"):
        pytest.skip("a processor of x86-64 is asked for")
    data = compile_text(source, **X86)

    assert b"__truncsfbf2" in data
    assert function_of(data, "round")(1.2345) == 1.234375


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("func.func @f() { return }", "`func.func`: not in the LLVM dialect"),
        ("memref.global @x : memref<4xf32>", "`memref.global`: not in the LLVM"),
        ('"foo.bar"() : () -> ()', "`foo.bar`: not in the LLVM dialect"),
        (
            "llvm.func @f(%x: f32) { %0 = arith.addf %x, %x : f32 llvm.return }",
            r'loc\("-":1:\d+\): cannot be converted to LLVM IR: .*arith\.addf',
        ),
        (
            """llvm.func @f(%x: i64) {
              %0 = builtin.unrealized_conversion_cast %x : i64 to index
              llvm.return
            }""",
            "unrealized_conversion_cast",
        ),
        (
            """llvm.func @f() {
              llvm.call_intrinsic "llvm.nope"() : () -> ()
              llvm.return
            }""",
            'could not find LLVM intrinsic: "llvm.nope"',
        ),
        (
            'llvm.func @f() { llvm.inline_asm "bogus", "" : () -> () llvm.return }',
            "invalid instruction mnemonic 'bogus'",
        ),
        (
            """llvm.func @f(%p: !llvm.ptr) {
              %0 = nvvm.read.ptx.sreg.tid.x : i32
              llvm.store %0, %p : i32, !llvm.ptr
              llvm.return
            }""",
            r"`llvm\.nvvm\.read\.ptx\.sreg\.tid\.x`: not an intrinsic of x86_64",
        ),
    ],
)
def test_what_cannot_be_compiled_is_an_error(
    body: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompileError, match=message):
        compile_text(body, **X86)

    assert capfd.readouterr().err == ""


def test_invalid_module_is_an_error() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("llvm.func @f() { llvm.return }")
        next(iter(module.body.operations)).regions[0].blocks[0].operations[0].erase()

        with pytest.raises(CompileError, match="terminator"):
            object_code.compile_object(module, **X86)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "znver"}, r"`znver`: no such processor .*Did you mean `znver"),
        ({"cpu": "help"}, "`help`: no such processor"),
        ({"features": "+avx"}, None),
        ({"features": "avx"}, r"`avx`: expected \+ or - and a feature"),
        ({"features": "+axv2"}, "`\\+axv2`: .*Did you mean `avx"),
        ({"features": "+avx,"}, "``: expected"),
        ({"triple": "vax-dec-vms"}, 'compatible with triple "vax-dec-vms"'),
        ({"opt_level": 4}, "expected 0 to 3, got 4"),
        ({"passes": "default<O2>,nope"}, "unknown module pass 'nope'"),
    ],
)
def test_unknown_targets_and_passes_are_errors(
    options: dict[str, Any], message: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if message is None:
        compile_text(DOUBLE, **{**X86, **options})
    else:
        with pytest.raises((ValueError, CompileError), match=message):
            compile_text(DOUBLE, **{**X86, **options})

    assert capfd.readouterr().err == ""


def test_threads_compile_at_once() -> None:
    """Also modules of one context, and each gets its own errors."""
    results: dict[int, object] = {}
    with ir.Context(), ir.Location.unknown():
        good = [ir.Module.parse(DOUBLE) for _ in range(4)]
        bad = [
            ir.Module.parse(
                f"llvm.func @f(%x: i{8 + i}) {{ %0 = arith.addi %x, %x : i{8 + i} llvm.return }}"
            )
            for i in range(4)
        ]

    def work(number: int) -> None:
        for _ in range(10):
            results[number] = object_code.compile_object(good[number], **HOST)
            with pytest.raises(CompileError) as error:
                object_code.compile_object(bad[number], **HOST)
            assert str(error.value).count("arith.addi") == 1
        results[number] = len(str(results[number]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 4
    assert len(set(results.values())) == 1


@pytest.mark.slow
def test_compiling_frees_what_it_makes() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(MATH)
        wrong = ir.Module.parse(
            "llvm.func @f(%x: i8) { %0 = arith.addi %x, %x : i8 llvm.return }"
        )

        def work(count: int) -> None:
            for _ in range(count):
                object_code.compile_object(module, **HOST)
                with pytest.raises(CompileError):
                    object_code.compile_object(wrong, **HOST)
                with pytest.raises(CompileError):
                    object_code.compile_object(module, **HOST, passes="nope")

        work(200)  # pools of LLVM fill up first
        before = resident_kib()
        work(1000)

    # A leaked context, module or target machine is at least 20 KiB.
    assert resident_kib() - before < 4096


@pytest.mark.slow
def test_python_runs_while_code_is_made() -> None:
    """The GIL is free: no pause of this thread is as long as the other's work."""
    functions = "".join(DOUBLE.replace("@double", f"@double{i}") for i in range(1500))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(functions)
    object_code.compile_object(module, **HOST)

    thread = threading.Thread(
        target=object_code.compile_object, args=(module,), kwargs=HOST
    )
    start = now = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        before, now = now, time.perf_counter()
        longest = max(longest, now - before)
    assert longest < (now - start) / 2

"""Translation of modules into launch plans, and the operations that they reject."""

import pytest

from relax_mlir.compiler.kernel_modules import CompilationUnit
from relax_mlir.compiler.launch_plan import main_plan, serialize_program, unpack_program
from relax_mlir.errors import CompileError, PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.cuda.plan import Call, Copy, Launch, Pointer
from relax_mlir.runtime.profile import KernelCall

_NO_KERNELS = """
func.func @k(%x: memref<?xf32> {{tir.shape = #relax.shape<["s"]>}}, %s: index {{tir.symbol = "s"}})
    attributes {{tir.prim_func}} {{
  {}
  return
}}
"""


def test_a_program_without_launches_is_one() -> None:
    code = serialize_program(IRModule.parse(_NO_KERNELS.format("")))

    program, ptx = unpack_program(code)

    assert (program.sizes, program.scratch, program.launches, ptx) == (
        ("s",),
        (),
        (),
        b"",
    )


_MODULE = """
module attributes {gpu.container_module} {
  gpu.module @k_gpu {
    gpu.func @k_0(%x: memref<1xf32, strided<[1], offset: ?>>, %y: memref<1xf16>, %n: index) kernel { gpu.return }
  }
  func.func @k(%x: memref<?x4xf32> {tir.shape = #relax.shape<["s", "4"]>},
               %s: index {tir.symbol = "s"}, %t: index {tir.symbol = "t"})
      attributes {tir.prim_func} {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 2048 : i32
    %a = arith.ceildivui %s, %c64 : index
    %b = arith.remui %s, %c3 : index
    %c = arith.minui %a, %t : index
    %d = arith.maxsi %s, %t : index
    %e = arith.subi %s, %t : index
    %own = memref.alloc(%s, %t) : memref<?x?xf16>
    %p = memref.reinterpret_cast %own to offset: [0], sizes: [1], strides: [1]
      : memref<?x?xf16> to memref<1xf16>
    %q = memref.reinterpret_cast %x to offset: [%t], sizes: [1], strides: [1]
      : memref<?x4xf32> to memref<1xf32, strided<[1], offset: ?>>
    gpu.launch_func @k_gpu::@k_0 blocks in (%c, %d, %b) threads in (%c64, %c1, %c1)
      dynamic_shared_memory_size %bytes
      args(%q : memref<1xf32, strided<[1], offset: ?>>, %p : memref<1xf16>, %e : index)
      {tir.waits}
    return
  }
}
"""


def test_sizes_and_pointers_are_read() -> None:
    program, _ = unpack_program(serialize_program(IRModule.parse(_MODULE)))

    assert program.sizes == ("s", "t")
    assert program.scratch == ("2*s*t",)
    pointers = Pointer("argument", 0, "4*t"), Pointer("scratch", 0, 0)
    assert program.launches == (
        Launch(
            "k_0",
            ("min(ceildiv(s, 64), t)", "max(s, t)", "mod(s, 3)"),
            (64, 1, 1),
            2048,
            (*pointers, "s - t"),
            waits=True,
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "%v = memref.load %x[%s] : memref<?xf32>",
            "`memref.load` is unsupported between launches",
        ),
        (
            "%i = arith.xori %s, %s : index  %o = memref.alloc(%i) : memref<?xf32>",
            "`arith.xori` is unsupported in sizes of a",
        ),
    ],
)
def test_unsupported_operations_are_named(text: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        serialize_program(IRModule.parse(_NO_KERNELS.format(text)))


def test_a_kernel_module_is_one_program() -> None:
    with pytest.raises(CompileError, match="expected one PrimFunc, got 0"):
        serialize_program(IRModule.parse("module {}"))


_MAIN = """
func.func private @k(memref<?xf32>, memref<?xf32>, index) attributes {{tir.prim_func}}
func.func @main(%x: memref<?xf32> {{relax.input = "x", tir.shape = #relax.shape<["n"]>}},
                %y: memref<?xf32> {{relax.output = "y", tir.shape = #relax.shape<["n"]>}},
                %w: memref<8xf32> {{relax.constant = "w"}},
                %arena: memref<?xi8> {{relax.arena}}, %n: index {{tir.symbol = "n"}}) {{
  %c4 = arith.constant 4 : index
  %at = arith.muli %n, %c4 : index
  %v = memref.view %arena[%at][%n] : memref<?xi8> to memref<?xf32>
  {}
  return
}}
"""


def test_main_is_read() -> None:
    module = IRModule.parse(
        _MAIN.format("""
        %z = memref.cast %w : memref<8xf32> to memref<?xf32>
        call @k(%x, %v, %n) : (memref<?xf32>, memref<?xf32>, index) -> ()
        call @k(%v, %z, %c4) : (memref<?xf32>, memref<?xf32>, index) -> ()
        memref.copy %v, %y : memref<?xf32> to memref<?xf32>
        """)
    )

    units = [CompilationUnit("", "k_1", ("other",)), CompilationUnit("", "k_2", ("k",))]
    kernels = [KernelCall("k", "ByHand")] * 2
    plan, named = main_plan(module, units, [], kernels)

    x, y, w = (Pointer(role, 0) for role in ("input", "output", "constant"))
    v = Pointer("arena", 0, "4*n")
    assert plan.steps == (
        Call(1, 0, (x, v), ("n",)),
        Call(1, 1, (v, w), (4,)),
        Copy(v, y, "4*n"),
    )
    assert list(named) == kernels


def test_strided_copies_are_refused() -> None:
    text = """
    %p = memref.reinterpret_cast %w to offset: [0], sizes: [4], strides: [2]
      : memref<8xf32> to memref<4xf32, strided<[2]>>
    memref.copy %p, %p : memref<4xf32, strided<[2]>> to memref<4xf32, strided<[2]>>
    """
    module = IRModule.parse(_MAIN.format(text))

    with pytest.raises(PassError, match=r"expected a contiguous buffer"):
        main_plan(module, [], [], [])

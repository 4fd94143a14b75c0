"""TMA descriptors of compiled models, for matmul operands."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import import_onnx
from relax_mlir.compiler.launch_plan import serialize_program, unpack_program
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Launch, Pointer, TensorMap
from tests.frontends.onnx.differential import parse
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.schedules.low_precision import drawn

_PRODUCT = """g (float16[n, 72] x, float16[72, 80] w) => (float16[n, 80] y) {
    p = MatMul (x, w)
    y = Relu (p) }"""


def test_models_have_tensor_maps(stub: Stub, emulation: Emulation) -> None:
    module = import_onnx(parse(_PRODUCT, opset=17))
    model = relax_mlir.compile(module, target=TARGET, cache=False)
    assert isinstance(model, CudaExecutable)

    for rows in (70, 3, 130):
        x, w = drawn(rows, 72).astype(np.float16), drawn(72, 80).astype(np.float16)
        (y,) = model(x, w)
        expected = np.maximum(x.astype(np.float64) @ w, 0)
        np.testing.assert_allclose(y, expected, rtol=2e-3, atol=2e-3)

    assert stub.count("cuTensorMapEncodeTiled") == 2 * 3
    (launch,) = model.contents.plan.programs[0].launches
    assert isinstance(launch, Launch)
    maps = [a for a in launch.arguments if isinstance(a, TensorMap)]
    pointers = [a for a in launch.arguments if isinstance(a, Pointer)]
    assert sorted(m.pointer.number for m in maps) == [0, 1]
    assert [p.number for p in pointers] == [2]
    by_number = {m.pointer.number: m for m in maps}
    x_map, w_map = by_number[0], by_number[1]
    assert (x_map.element, x_map.sizes, x_map.strides_bytes, x_map.swizzle) == (
        "FLOAT16",
        (72, launch.arguments[-1]),
        (144,),
        "128B",
    )
    assert (w_map.sizes, w_map.strides_bytes, w_map.box) == ((80, 72), (160,), (64, 64))


_DESCRIPTOR = """
module attributes {{gpu.container_module}} {{
  gpu.module @k_gpu {{ gpu.func @k_0(%x: !llvm.ptr) kernel {{ gpu.return }} }}
  func.func @k(%x: memref<64x64x{element}>) attributes {{tir.prim_func}} {{
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %whole = memref.cast %x : memref<64x64x{element}> to memref<*x{element}>
    %d = nvgpu.tma.create.descriptor %whole box[%c64, %c64] : memref<*x{element}>
      -> !nvgpu.tensormap.descriptor<tensor = memref<64x64x{element}, 3>,
           swizzle = swizzle_128b, l2promo = none, oob = {fill}, interleave = none>
    %p = builtin.unrealized_conversion_cast %d : !nvgpu.tensormap.descriptor<
           tensor = memref<64x64x{element}, 3>, swizzle = swizzle_128b, l2promo = none,
           oob = {fill}, interleave = none> to !llvm.ptr
    gpu.launch_func @k_gpu::@k_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%p : !llvm.ptr)
    return
  }}
}}
"""


@pytest.mark.parametrize("steps", [(), (1, 2)])
def test_descriptors_are_read_from_a_program(steps: tuple[int, ...]) -> None:
    text = _DESCRIPTOR.format(element="bf16", fill="zero")
    if steps:  # the outermost first
        text = text.replace("%c64] :", "%c64] {tir.steps = array<i64: 2, 1>} :")

    program, _ = unpack_program(serialize_program(IRModule.parse(text)))

    (launch,) = program.launches
    assert isinstance(launch, Launch)
    (found,) = launch.arguments
    whole = ((64, 64), (128,), (64, 64))
    assert found == TensorMap(Pointer("argument", 0), "BFLOAT16", *whole, "128B", steps)
    assert TensorMap.from_fields(found.fields()) == found


@pytest.mark.parametrize(("element", "fill"), [("i16", "zero"), ("f16", "nan")])
def test_others_have_no_place_in_a_plan(element: str, fill: str) -> None:
    text = _DESCRIPTOR.format(element=element, fill=fill)
    with pytest.raises(PassError, match=r"nvgpu.tensormap.descriptor.* is unsupported"):
        serialize_program(IRModule.parse(text))

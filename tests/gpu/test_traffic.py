"""Memory traffic of kernels: the counters, and coalescing of all rules."""

import numpy as np
import pytest

from relax_mlir import import_onnx
from relax_mlir.ir.module import IRModule
from tests.frontends.onnx.differential import parse as model
from tests.gpu.emulated import compiled
from tests.gpu.test_gemm import layer
from tests.ptx_emulator import Traffic, emulate
from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.text import parse
from tests.schedules.low_precision import drawn

_KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
	.reg .b32 %r<8>; .reg .b64 %rd<4>; .shared .align 16 .b8 s[16384];
	ld.param.b64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.b32 %r2, s;
	mad.lo.s32 %r3, %r1, {stride}, %r2; mul.wide.u32 %rd2, %r1, {stride};
	add.s64 %rd3, %rd1, %rd2;
	{access}
	ret;
}}
"""


def counted(access: str, stride: int, threads: int = 64) -> Traffic:
    program = parse(_KERNEL.format(access=access, stride=stride))
    device, traffic = DeviceMemory(), Traffic()
    address = device.place(np.zeros(1 << 14, np.uint8)).to_bytes(8, "little")
    grid, extents = (1, 1, 1), (threads, 1, 1)
    launch(program, "k", grid, extents, 0, address, device, traffic=traffic)
    return traffic


@pytest.mark.parametrize(
    ("access", "stride", "parts", "least"),
    [
        ("ld.global.b32 %r4, [%rd3];", 4, 8, 8),
        ("ld.global.b32 %r4, [%rd3];", 8, 16, 8),
        ("ld.global.b32 %r4, [%rd3];", 128, 64, 8),
        ("ld.global.b32 %r4, [%rd3];", 0, 2, 2),
        ("ld.global.b8 %r4, [%rd3];", 1, 2, 2),
        ("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd3];", 16, 32, 32),
        ("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd3];", 32, 64, 32),
        ("st.global.b32 [%rd3], %r1;", 4, 8, 8),
        ("st.shared.b32 [%r3], %r1;", 4, 2, 2),
        ("st.shared.b32 [%r3], %r1;", 8, 4, 2),
        ("st.shared.b32 [%r3], %r1;", 128, 64, 2),
        ("ld.shared.b32 %r4, [%r3];", 132, 2, 2),
        ("ld.shared.b32 %r4, [%r3];", 0, 2, 2),
        ("st.shared.v2.b32 [%r3], {%r1, %r1};", 8, 4, 4),
        ("st.shared.v4.b32 [%r3], {%r1, %r1, %r1, %r1};", 16, 8, 8),
        ("st.shared.v4.b32 [%r3], {%r1, %r1, %r1, %r1};", 32, 16, 8),
        ("cp.async.ca.shared.global [%r3], [%rd3], 4; cp.async.wait_all;", 128, 64, 2),
    ],
)
def test_accesses_are_counted(access: str, stride: int, parts: int, least: int) -> None:
    found = counted(access, stride).accesses
    space = "shared" if "shared" in access else "global"

    (own,) = (a for a in found if a.space == space)

    assert (own.parts, own.least) == (parts, least)
    assert own.text == access.split(";")[0]
    assert own.ratio == parts / least


def test_blocks_and_parts_of_warps() -> None:
    traffic = counted("st.shared.b32 [%r3], %r1;", 4, threads=40)
    assert [(a.parts, a.least) for a in traffic.accesses] == [(2, 2)]
    assert traffic.ratio("shared") == 1
    assert traffic.ratio("global") == 1  # of nothing
    assert counted("st.shared.b32 [%r3], %r1;", 128).ratio("shared", "k") == 32
    assert counted("st.shared.b32 [%r3], %r1;", 128).ratio("shared", "other") == 1


def onnx(text: str) -> IRModule:
    return import_onnx(model(text, opset=17))


_SOFTMAX = "g (float[64, 1024] x) => (float[64, 1024] y) { y = Softmax (x) }"
_TURNED = "g (float[128, 96] x) => (float[96, 128] y) { y = Transpose (x) }"
_STEP = (
    "g (float[1, 512] x, float[512, 256] w) => (float[1, 256] y) { y = MatMul (x, w) }"
)
_ADDED = "g (float[37, 5] x) => (float[37, 5] y) { y = Exp (x) }"

_KERNELS = {
    "f16 on tensor cores": (layer(256, 512, 256, is_transposed=False), "sm_80", "f16"),
    "f16, transposed": (layer(256, 512, 256, is_transposed=True), "sm_80", "f16"),
    "tf32": (layer(256, 512, 256, is_transposed=False), "sm_80", "tf32"),
    "tf32, transposed": (layer(256, 512, 256, is_transposed=True), "sm_80", "tf32"),
    "f16 by wgmma": (layer(256, 512, 256, is_transposed=True), "sm_90", "f16"),
    "rows": (onnx(_SOFTMAX), "sm_90", "f32"),
    "squares": (onnx(_TURNED), "sm_90", "f32"),
    "one row": (onnx(_STEP), "sm_90", "f32"),
    "maps of uneven rows": (onnx(_ADDED), "sm_90", "f32"),
}


@pytest.mark.parametrize("name", _KERNELS)
def test_kernels_coalesce(name: str) -> None:
    module, chip, precision = _KERNELS[name]
    made, traffic = compiled(module, f"cuda:{chip}", precision=precision), Traffic()
    shapes = [[int(n) for n in p.shape] for p in made.signature.inputs]

    emulate(made, *(drawn(*shape) for shape in shapes), max_blocks=2, traffic=traffic)

    assert traffic.accesses
    assert traffic.ratio("shared") == 1
    assert traffic.ratio("global") == pytest.approx(1, abs=0.02)


def test_stores_of_uneven_rows_coalesce() -> None:
    text = """g (float16[128, 64] x, float16[136, 64] w) => (float16[128, 131] y) {
        b = Constant <value_ints = [0]> () e = Constant <value_ints = [131]> ()
        a = Constant <value_ints = [0]> () s = Slice (w, b, e, a)
        t = Transpose <perm = [1, 0]> (s) y = MatMul (x, t) }"""
    made, traffic = compiled(onnx(text), "cuda:sm_90"), Traffic()
    assert "GemmWgmma" in [kernel.rule for kernel in made.kernels]

    x, w = (drawn(n, 64).astype(np.float16) for n in (128, 136))
    emulate(made, x, w, traffic=traffic)

    written = [a for a in traffic.accesses if a.text.startswith("st.global")]
    assert max(a.ratio for a in written) < 1.6  # 8 and more, if one by one

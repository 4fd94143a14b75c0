"""Kernel profiles of models: names, order and totals."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.codegen.target_machines import machine_of
from relax_mlir.compiler import driver
from relax_mlir.errors import CompileError, OutOfMemoryError, UnsupportedError
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.profile import KernelCall, KernelTime, Profile

ROWS = 256
# Two layers of one shape, which share a program, and a softmax.
_LAYERS = """
    <ir_version: 10, opset_import: ["" : 21]>
    layers (float[256, 64] x, float[64, 64] w, float[64, 64] v) => (float[256, 64] y) {
        [first] a = MatMul (x, w)
        [first_act] b = Relu (a)
        [second] c = MatMul (b, v)
        [second_act] d = Relu (c)
        [scores] y = Softmax (d)
    }
"""
# One kernel, for any number of rows.
_PRODUCT = """
    <ir_version: 10, opset_import: ["" : 21]>
    product (float[n, 3] x, float[3, 3] w) => (float[n, 3] y) { y = MatMul (x, w) }
"""
INPUTS = [np.ones((ROWS, 64), np.float32), *2 * [np.eye(64, dtype=np.float32)]]


def read(text: str) -> relax_mlir.IRModule:
    return relax_mlir.import_onnx(onnx.parser.parse_model(text).SerializeToString())


@pytest.fixture(scope="module")
def layers() -> Executable:
    """The two layers, compiled."""
    return driver.compile(read(_LAYERS), cache=False)


@pytest.fixture(scope="module")
def product() -> Executable:
    """The one kernel, compiled."""
    return driver.compile(read(_PRODUCT), cache=False)


def test_every_kernel_is_named_in_order(layers: Executable) -> None:
    times = layers.profile(*INPUTS, calls=2).by_call()

    first, second, scores = times
    assert first.name == second.name == "fused_matmul_relu1"
    assert first.nodes == ("first_act",)
    assert second.nodes == ("second_act",)
    assert (scores.name, scores.nodes) == ("softmax", ("scores",))
    assert [time.runs for time in times] == [1, 1, 1]


def test_a_kernel_that_runs_once_has_the_nodes_it_was_fused_from() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[5] x) => (float[5] y) {
            [up] a = Exp (x)
            [shift] b = Add (a, x)
            [clip] y = Relu (b)
        }
    """
    (kernel,) = driver.compile(read(text)).kernels

    assert sorted(kernel.nodes) == ["clip", "shift", "up"]
    assert kernel.nodes[-1] == "clip"


def test_runs_of_a_kernel_are_summed(layers: Executable) -> None:
    profile = layers.profile(*INPUTS, calls=3)

    times = {time.name: time for time in profile.by_kernel()}

    both = times["fused_matmul_relu1"]
    assert (both.runs, both.nodes) == (2, ("first_act", "second_act"))
    durations = profile.durations_ns[:, :2].sum(axis=1)
    assert both.time_ms == pytest.approx(np.median(durations) / 1e6)
    assert both.rate_gflop_s == pytest.approx(
        2 * 2 * ROWS * 64 * 64 / both.time_ms / 1e6
    )
    assert times["softmax"].rate_gflop_s is None


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_take_no_longer_than_the_call(layers: Executable, threads: int) -> None:
    parts = (layers.code, layers.signature, layers.constants, layers.machine)
    model = Executable(*parts, threads=threads, kernels=layers.kernels)

    profile = model.profile(*INPUTS, calls=5)

    assert profile.durations_ns.shape == (5, 3)
    assert (profile.durations_ns > 0).all()
    shares = profile.durations_ns.sum(axis=1) / profile.totals_ns
    # Kernels of this size take more than nine tenths on a machine with nothing else to do.
    assert 0.1 < np.median(shares) <= shares.max() <= 1


def test_rules_are_those_of_the_loops(layers: Executable) -> None:
    lowered = relax_mlir.lower(read(_LAYERS), to="loops")
    rules = {
        f.name.value: f.attributes["tir.rule"].value
        for f in lowered.func_ops()
        if "tir.rule" in f.attributes
    }

    assert [k.rule for k in layers.kernels] == [rules[k.name] for k in layers.kernels]


def test_a_module_that_has_its_loops_keeps_their_rules(product: Executable) -> None:
    lowered = relax_mlir.lower(read(_PRODUCT), to="loops")

    assert driver.compile(lowered).kernels == product.kernels


def test_kernels_out_of_the_cache_have_their_rules(tmp_path: Path) -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[5] x) => (float[5] y) { y = Neg (x) }
    """
    (first,), (second,) = (
        driver.compile(read(text), cache=tmp_path).kernels for _ in range(2)
    )

    assert first == second
    assert first.rule


def test_a_saved_model_tells_its_kernels(layers: Executable, tmp_path: Path) -> None:
    layers.save(tmp_path / "layers.rxm")

    loaded = relax_mlir.load(tmp_path / "layers.rxm")

    assert loaded.kernels == layers.kernels
    names = [time.name for time in loaded.profile(*INPUTS, calls=1).by_call()]
    assert names == [kernel.name for kernel in layers.kernels]


def test_sizes_may_be_open_and_empty(product: Executable) -> None:
    for n in (3, 0):  # without rows a kernel has no tiles, but its place
        x = np.ones((n, 3), np.float32)
        (time,) = product.profile(x, np.eye(3, dtype=np.float32), calls=2).by_call()
        assert (time.name, time.rate_gflop_s) == ("matmul", None)


def test_inputs_are_those_of_a_call(layers: Executable) -> None:
    x, w, v = INPUTS

    assert len(layers.profile(x, v=v, w=w, calls=1).by_call()) == 3
    with pytest.raises(ValueError, match="`x`: dimension 0: expected 256, got 255"):
        layers.profile(x[1:], w, v)
    with pytest.raises(TypeError, match="expected inputs `w`, `v` by name"):
        layers.profile(x, w=w)
    with pytest.raises(ValueError, match="calls: expected 1 or more, got 0"):
        layers.profile(x, w, v, calls=0)


def test_code_for_another_machine_is_not_measured(layers: Executable) -> None:
    # Nothing built today has this one's four-operand multiply-add.
    machine = machine_of("x86_64-unknown-linux-gnu", "bdver4", "")
    model = Executable(layers.code, layers.signature, {}, machine)

    with pytest.raises(CompileError, match="this machine"):
        model.profile(*INPUTS)


def test_memory_that_is_not_there_is_told() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[1] x) => (float[281474976710656] y)
            <int64[1] s = {281474976710656}> { y = Expand (x, s) }
    """
    model = relax_mlir.compile(read(text))

    with pytest.raises(OutOfMemoryError, match="out of memory"):
        model.profile(np.ones(1, np.float32))


def test_code_whose_kernels_nobody_told_is_refused(layers: Executable) -> None:
    bare = Executable(layers.code, layers.signature, {}, layers.machine)

    with pytest.raises(CompileError, match="expected calls of 0 kernels, got 3"):
        bare.profile(*INPUTS)


def test_a_model_in_stages_is_refused() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[n] x) => (int64[1, m] y) { y = NonZero (x) }
    """
    model = relax_mlir.compile(read(text))

    with pytest.raises(UnsupportedError, match=r"JIT-compiled.*bench"):
        model.profile(np.ones(3, np.float32))


def test_medians_shares_and_the_rest() -> None:
    kernels = (
        KernelCall("short", "RowWise", ("a",)),
        KernelCall("long", "Gemm", ("b",), 600_000, moved_bytes=3_000_000),
        KernelCall("short", "RowWise", ("c",)),
    )
    durations_ns = np.array([[1, 6, 1], [2, 7, 4], [2, 6, 2]]) * 1_000_000
    profile = Profile(kernels, durations_ns, np.array([10, 20, 11]) * 1_000_000)

    assert profile.by_kernel() == (
        KernelTime("long", "Gemm", ("b",), 1, 6, 6 / 11, 0.1, 0.5),
        KernelTime("short", "RowWise", ("a", "c"), 2, 4, 4 / 11, None),
    )
    assert [time.time_ms for time in profile.by_call()] == [2, 6, 2]
    assert (profile.total_ms, profile.rest_ms) == (11, 2)
    assert repr(profile) == "<Profile of 3 kernels, 3 calls, 11 ms>"


def test_products_are_told_by_their_sizes() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 3, 5, 40] x, float[3, 40, 6] w, float[1, 4, 9, 9] i, float[8, 4, 3, 3] f)
            => (float[2, 3, 5, 6] y, float[1, 8, 7, 7] z) {
            y = MatMul (x, w)
            z = Conv (i, f)
        }
    """
    kernels = driver.compile(read(text), cache=False).kernels

    found = {k.product: k for k in kernels if k.product is not None}
    assert found.keys() == {(3, 10, 6, 40, "f32"), (1, 49, 8, 36, "f32")}
    product = found[3, 10, 6, 40, "f32"]
    assert product.operations == 2 * 3 * 10 * 6 * 40
    assert product.moved_bytes == 4 * (2 * 3 * 5 * 40 + 3 * 40 * 6 + 2 * 3 * 5 * 6)

"""Machine code for AMX, detection of AMX, and permission to use it."""

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, compile, load, lower
from relax_mlir.codegen import object_code
from relax_mlir.compiler.driver import target_of
from relax_mlir.errors import CompileError
from relax_mlir.runtime import cpu, cpu_features
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.targets import parse_target
from tests.schedules.cpu.amx import (
    BYTES,
    drawn_bytes,
    matmul_of_bytes,
    run_with_tiles,
)
from tests.schedules.low_precision import assert_close, drawn, matmul, rounded

_HOST = target_of("cpu")


def assembly(module: IRModule, precision: str = "f32") -> str:
    target = target_of("cpu:sapphirerapids")
    lowered = lower(module, target=target, precision=precision)
    return object_code.assembly(
        cast(ir.Module, lowered.mlir),
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
    )


def functions(text: str) -> Iterator[str]:
    """The code of each function that uses tiles."""
    for code in re.split(r"\n\s*\.type\s", text):
        if "tmm" in code:
            yield code


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("k", [1024, 720])
def test_accumulators_stay_in_registers(is_constant: bool, k: int) -> None:
    w = drawn(k, 128) if is_constant else None

    found = list(functions(assembly(matmul(128, k, 128, w), "bf16")))

    assert found
    for code in found:
        # Tiles are configured once, and none is spilled.
        assert len(re.findall(r"\bldtilecfg\b", code)) == 1
        assert not re.search(r"\btile(loadd|stored)\b.*%rsp", code)
        products, loads, stores = (
            len(re.findall(rf"\b{name}\b", code))
            for name in ("tdpbf16ps", "tileloadd", "tilestored")
        )
        # Two LHS and two RHS tiles for four multiplications; four accumulator tiles.
        assert loads == products
        assert stores % 4 == 0
        assert products % 4 == 0


@pytest.mark.parametrize(
    ("a", "b", "instruction"),
    [
        ("int8", "int8", "tdpbssd"),
        ("int8", "uint8", "tdpbsud"),
        ("uint8", "int8", "tdpbusd"),
        ("uint8", "uint8", "tdpbuud"),
    ],
)
def test_each_signedness_has_an_instruction(a: str, b: str, instruction: str) -> None:
    text = assembly(matmul_of_bytes(40, 72, 48, a, b))

    assert set(re.findall(r"\btdp\w+", text)) == {instruction}


# detection


@pytest.mark.parametrize(
    ("name", "has_tiles"),
    [
        ("sapphirerapids", True),
        ("emeraldrapids", True),
        ("graniterapids", True),
        ("diamondrapids", True),
        ("icelake-server", False),
        ("znver5", False),
        ("neoverse-v1", False),
    ],
)
def test_cpus_by_name(name: str, has_tiles: bool) -> None:
    target = target_of(f"cpu:{name}")

    assert target.unit.amx == has_tiles
    if has_tiles:
        assert target.unit.vector_bits == 512


@pytest.mark.parametrize(
    ("features", "has_tiles"),
    [
        ("+avx,+avx512f,+amx-tile,+amx-bf16,+amx-int8", True),
        ("+avx,+avx512f,+amx-tile,+amx-bf16,-amx-int8", False),
        ("+avx,-avx512f,+amx-tile,+amx-bf16,+amx-int8", False),
    ],
)
def test_cpus_by_features(features: str, has_tiles: bool) -> None:
    host = ("x86_64-unknown-linux-gnu", "unheard-of", features)

    assert parse_target("cpu", lambda: host).unit.amx == has_tiles


# permission to use tiles


@pytest.fixture
def machine_with_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host as a CPU with AMX, whose operating system permits its use."""
    if not _HOST.unit.amx:
        triple, name, features = object_code.host_cpu()
        signed = [f for f in features.split(",") if f and not f[1:].startswith("amx-")]
        with_tiles = ",".join([*signed, "+amx-tile", "+amx-bf16", "+amx-int8"])
        monkeypatch.setattr(
            object_code, "_system_cpu", lambda: (triple, name, with_tiles)
        )
        monkeypatch.setattr(cpu, "request_amx_tiles", lambda: True)
    clear_caches()
    yield
    monkeypatch.undo()
    clear_caches()


def clear_caches() -> None:
    for function in (object_code.host_cpu, cpu_features.refused_features):
        function.cache_clear()


@pytest.mark.usefixtures("machine_with_tiles")
def test_tiles_denied_by_the_system_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "request_amx_tiles", lambda: False)
    triple, name, features = object_code.host_cpu()
    machine = Machine(triple, name, ("amx-bf16", "amx-tile"))

    assert {"-amx-tile", "-amx-bf16", "-amx-int8"} <= set(features.split(","))
    assert not parse_target("cpu", object_code.host_cpu).unit.amx
    obstacle = machine.obstacle()
    assert obstacle is not None
    assert "does not let this process use amx-bf16, amx-tile" in obstacle


@pytest.mark.usefixtures("machine_with_tiles")
def test_permission_is_requested_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(cpu, "request_amx_tiles", lambda: not asked.append(True))
    triple, name, features = object_code.host_cpu()

    assert "+amx-tile" in features.split(",")
    assert Machine(triple, name, ("amx-bf16", "amx-tile")).obstacle() is None
    assert Machine(triple, name, ("amx-int8",)).obstacle() is None
    assert len(asked) == 1


def test_cpus_without_tiles_request_no_permission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "+amx-tile" in object_code.host_cpu()[2].split(","):
        pytest.skip("this machine has AMX")
    monkeypatch.setattr(cpu, "request_amx_tiles", lambda: pytest.fail("it asked"))
    clear_caches()

    assert cpu_features.refused_features() == frozenset()


# execution; on CPUs without AMX a signal handler emulates its instructions


@pytest.fixture
def processor(tmp_path: Path) -> Iterator[None]:
    """Enable AMX instructions in this process, and check that they were executed."""
    if _HOST.unit.amx:
        yield
        return
    compiler = shutil.which("c++")
    if compiler is None or sys.platform != "linux" or _HOST.unit.vector_bits != 512:
        pytest.skip("needs Linux, a C++ compiler and AVX-512")
    library = tmp_path / "tile_emulator.so"
    source = Path(__file__).parents[2] / "runtime/native/tile_emulator.cc"
    flags = ("-std=c++17", "-O2", "-fPIC", "-shared")
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    emulator = ctypes.CDLL(str(library))
    emulator.emulated_products.restype = ctypes.c_int64
    assert emulator.begin_tiles() == 0
    yield
    assert emulator.end_tiles() == 0
    assert emulator.emulated_products() > 0


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.usefixtures("machine_with_tiles", "processor")
@pytest.mark.parametrize("threads", [1, 2])
def test_machine_code_is_correct(threads: int) -> None:
    for m, k, n in ((64, 64, 64), (37, 40, 16), (5, 32, 7), (67, 144, 130)):
        x, w = drawn(m, k), drawn(k, n)
        for arrays, known in (((x,), w), ((x, w), None)):
            module = matmul(m, k, n, known)
            made = compile(module, precision="bf16", threads=threads, cache=False)
            (y,) = made(*arrays)

            (expected,) = run_with_tiles(module, *arrays, precision="bf16")
            np.testing.assert_array_equal(y, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("machine_with_tiles", "processor")
@pytest.mark.parametrize("a", BYTES)
@pytest.mark.parametrize("b", BYTES)
def test_machine_code_of_bytes_is_exact(a: str, b: str) -> None:
    x, y = drawn_bytes(a, 45, 72), drawn_bytes(b, 72, 50)

    (z,) = compile(matmul_of_bytes(45, 72, 50, a, b), cache=False)(x, y)

    np.testing.assert_array_equal(z, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.slow
@pytest.mark.usefixtures("machine_with_tiles", "processor")
def test_saved_models_run_on_cpus_with_tiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x, w = drawn(40, 64), drawn(64, 50)
    made = compile(matmul(40, 64, 50, w), precision="bf16", cache=False)
    made.save(tmp_path / "model.rxm")
    (y,) = load(tmp_path / "model.rxm")(x)

    assert_close(y, rounded(x) @ rounded(w))
    clear_caches()
    monkeypatch.setattr(cpu, "request_amx_tiles", lambda: False)
    with pytest.raises(CompileError, match="does not let this process use amx-"):
        load(tmp_path / "model.rxm")

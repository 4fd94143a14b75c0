"""ptxas accepts the generated PTX, without register spills.

It is in the extra ``cuda-tools``; without it these tests are skipped.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from mlir import ir
from mlir.dialects.gpu import ObjectAttr  # pyright: ignore[reportAttributeAccessIssue]

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.testing import case_module
from tests.frontends.onnx.differential import parse
from tests.gpu.test_gemm import layer

_TARGET = "cuda:sm_90"


def tool(name: str) -> str:
    """Path of a CUDA tool; skips the test if it is not installed."""
    found = shutil.which(name)
    for package in ("nvidia-cuda-nvcc", "nvidia-cuda-cuobjdump"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        paths = [str(f.locate()) for f in files if Path(f).name == name]
        found = found or next(iter(paths), None)
    if found is None:
        pytest.skip(f"no `{name}`: pip install relax_mlir[cuda-tools]")
    return found


def assembled(
    module: IRModule, folder: Path, machine: str = "sm_90a"
) -> Iterator[tuple[str, str, Path]]:
    """The ptxas output of each kernel: name, messages, machine code."""
    ptxas = tool("ptxas")
    for operation in module.mlir.body.operations:
        if operation.operation.name != "gpu.binary":
            continue
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        (made,) = ir.ArrayAttr(operation.attributes["objects"])
        code = bytes(ObjectAttr(made).object)
        ptx, cubin = folder / f"{name}.ptx", folder / f"{name}.cubin"
        ptx.write_bytes(code.rstrip(b"\0"))
        command = [ptxas, f"-arch={machine}", "-v", str(ptx), "-o", str(cubin)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        yield name, made.stderr, cubin


def product_of(module: IRModule, folder: Path) -> tuple[str, Path]:
    """The ptxas messages and the machine code of the only matmul of a module."""
    made = [
        (said, code)
        for name, said, code in assembled(module, folder)
        if "matmul" in name
    ]
    (product,) = made
    return product


def scheduled(precision: str, config: str) -> IRModule:
    module = layer(1024, 1024, 1024, is_transposed=False)
    linalg = lower(module, target=_TARGET, to="linalg", precision=precision)
    for function in linalg.func_ops():
        if "matmul" in function.name.value:
            with linalg.context:
                function.attributes[CONFIGURATION] = ir.StringAttr.get(config)
    return lower(linalg, target=_TARGET, to="ptx")


@pytest.mark.parametrize(
    ("precision", "config", "most_registers"),
    [
        ("f16", "GemmMmaSync{rows=128}", 128),
        ("bf16", "GemmMmaSync{rows=128}", 128),
        ("f16", "GemmMmaSync{rows=64}", 80),
        ("f16", "GemmWgmma{rows=128,columns=256}", 168),
        ("bf16", "GemmWgmma{rows=128,columns=256}", 168),
        ("bf16", "GemmWgmma{rows=128,columns=128}", 168),
        ("f16", "GemmWgmma{rows=64,columns=128}", 128),
        ("f16", "GemmWgmma{rows=64,columns=64}", 80),
        ("f32", "GemmSimt{rows=128}", 128),
        ("f32", "GemmSimt{rows=64}", 64),
    ],
)
def test_accumulators_stay_in_registers(
    precision: str, config: str, most_registers: int, tmp_path: Path
) -> None:
    text, _ = product_of(scheduled(precision, config), tmp_path)
    assert "0 bytes spill stores, 0 bytes spill loads" in text
    (registers,) = re.findall(r"Used (\d+) registers", text)
    assert int(registers) <= most_registers


@pytest.mark.parametrize("length", [4096, 32768, 65536])
def test_rows_are_cached_in_registers_if_they_fit(length: int, tmp_path: Path) -> None:
    text = f"g (float[2, {length}] x) => (float[2, {length}] y) {{ y = Softmax (x) }}"
    module = lower(import_onnx(parse(text, opset=17)), target=_TARGET, to="ptx")
    for _, said, _ in assembled(module, tmp_path):
        assert "0 bytes spill stores" in said


def instructions(cubin: Path) -> Counter[str]:
    """Number of occurrences of each instruction in machine code."""
    command = [tool("cuobjdump"), "-sass", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True)
    return Counter(
        re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@\S+ )?([A-Z0-9_.x]+)", text.stdout)
    )


def test_matmuls_use_tensor_cores(tmp_path: Path) -> None:
    _, cubin = product_of(scheduled("f16", "GemmMmaSync{rows=128}"), tmp_path)
    found = instructions(cubin)
    assert found["HMMA.16816.F32"] == 32
    assert found["LDSM.16.M88.4"] + found["LDSM.16.MT88.4"] == 12
    assert found["LDGSTS.E.BYPASS.128"] == 16
    assert not {"LDL", "STL"} & set(found)


def test_wgmma_kernels_use_tma(tmp_path: Path) -> None:
    module = scheduled("bf16", "GemmWgmma{rows=128,columns=256}")
    said, cubin = product_of(module, tmp_path)
    found = instructions(cubin)
    # Two K tiles per iteration, of four instructions each, without moves of accumulators or
    # serialization in between.
    assert found["HGMMA.64x256x16.F32.BF16"] == 8
    assert found["UTMALDG.2D"] == 10
    assert found["USETMAXREG.DEALLOC.CTAPOOL"] == 1
    assert {name for name in found if name.startswith("STG")} == {"STG.E.128"}
    assert not {"LDL", "STL"} & set(found)
    assert "serialized" not in said


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.every_case)])
def test_ptxas_accepts_all_operators(step: int, tmp_path: Path) -> None:
    for op in [op for op in relax_ops() if hasattr(op, "legalize")][::step]:
        module = lower(case_module(op, op.cases[0]), target=_TARGET, to="ptx")
        for _ in assembled(module, tmp_path):
            pass

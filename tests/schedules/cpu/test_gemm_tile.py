"""Accumulators of register tiles are not spilled, on any CPU."""

import re

import pytest

from relax_mlir import IRModule, lower
from relax_mlir.codegen import object_code
from relax_mlir.compiler.driver import target_of

SUMS = re.compile(r"fmadd|fmla|dpbf16ps")


def innermost_loops(assembly: str) -> list[str]:
    """The basic blocks that end with a jump to their own label."""
    blocks = re.split(r"^(\.L\w+):", assembly, flags=re.MULTILINE)
    jump = r"^\s*(?:j\w+|b\.\w+|cbnz\s+\w+,|tbnz\s+\w+,.*,)\s*{}$"
    loops: list[str] = []
    for label, code in zip(blocks[1::2], blocks[2::2], strict=True):
        found = re.search(jump.format(re.escape(label)), code, flags=re.MULTILINE)
        if found is not None:
            loops.append(code[: found.start()])
    return loops


def matmul(element: str) -> IRModule:
    return IRModule.parse(
        f"""func.func @main(%x: tensor<128x512x{element}>, %y: tensor<512x512x{element}>)
            -> tensor<128x512xf32> {{
          %0 = "relax.matmul"(%x, %y) {{out_dtype = f32}}
            : (tensor<128x512x{element}>, tensor<512x512x{element}>) -> tensor<128x512xf32>
          return %0 : tensor<128x512xf32>
        }}"""
    )


@pytest.mark.parametrize(
    ("machine", "element"),
    [
        ("znver5", "f32"),
        ("znver5", "bf16"),
        ("znver4", "bf16"),
        ("sapphirerapids", "f32"),
        ("icelake-server", "f32"),
        ("znver3", "f32"),
        ("haswell", "f32"),
        ("neoverse-v1", "f32"),
    ],
)
def test_accumulators_are_not_spilled(machine: str, element: str) -> None:
    target = target_of(f"cpu:{machine}")
    module = lower(matmul(element), target=target)

    text = object_code.assembly(
        module.mlir,
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
    )

    vectors = r"%[yz]mm\d+" if target.triple.startswith("x86") else r"\bq\d+"
    stack = r"%rsp|%rbp" if target.triple.startswith("x86") else r"\bsp\b"
    loops = [loop for loop in innermost_loops(text) if len(SUMS.findall(loop)) > 10]
    sums = sum(len(SUMS.findall(loop)) for loop in loops)
    moves = [
        line
        for loop in loops
        for line in loop.splitlines()
        if re.search(vectors, line) and re.search(stack, line)
    ]
    assert sums > 30
    # The totals of blocked summation are spilled outside of these loops.
    assert len(moves) < sums / 5, f"{len(moves)} spills for {sums} multiply-adds"

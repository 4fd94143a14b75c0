"""The sums of a register tile stay in registers, on every machine we generate code for."""

import re

import pytest

from relax_mlir import IRModule, lower
from relax_mlir.compiler import target_of
from relax_mlir.runtime import objects

SUMS = re.compile(r"fmadd|fmla|dpbf16ps")


def innermost_loops(assembly: str) -> list[str]:
    """The basic blocks that end in a jump to their own label."""
    blocks = re.split(r"^(\.L\w+):", assembly, flags=re.MULTILINE)
    jump = r"^\s*(?:j\w+|b\.\w+|cbnz\s+\w+,|tbnz\s+\w+,.*,)\s*{}$"
    loops: list[str] = []
    for label, code in zip(blocks[1::2], blocks[2::2], strict=True):
        found = re.search(jump.format(re.escape(label)), code, flags=re.MULTILINE)
        if found is not None:
            loops.append(code[: found.start()])
    return loops


def product(element: str) -> IRModule:
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
def test_no_sum_goes_to_memory_and_back(machine: str, element: str) -> None:
    target = target_of(f"cpu:{machine}")
    module = lower(product(element), target=target)

    text = objects.assembly(
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
    # Totals of blocks of a long sum are added up outside of these loops.
    assert len(moves) < sums / 5, f"{len(moves)} moves beside {sums} multiply-adds"

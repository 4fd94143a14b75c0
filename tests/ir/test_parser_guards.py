"""Text on which upstream's parser ends the process is refused before it."""

import random
import subprocess
import sys

import pytest

from relax_mlir import IRModule
from relax_mlir.errors import IRError
from tests.ir.mutated_texts import mutated, texts

_MAP = "affine_map<(d0) -> (d0)>"


def generic(iterators: str, before: str = "", attributes: str = "") -> str:
    fields = attributes or f"{{indexing_maps = [{_MAP}], iterator_types = {iterators}}}"
    return f"""{before}
    func.func @f(%x: memref<4xf32>) {{
      linalg.generic {fields} outs(%x : memref<4xf32>) {{
      ^bb0(%o: f32):
        linalg.yield %o : f32
      }}
      return
    }}"""


def quoted(iterators: str) -> str:
    return f"""
    func.func @f(%x: memref<4xf32>) {{
      "linalg.generic"(%x) <{{indexing_maps = [{_MAP}], iterator_types = {iterators},
          operandSegmentSizes = array<i32: 0, 1>}}> ({{
      ^bb0(%o: f32):
        linalg.yield %o : f32
      }}) : (memref<4xf32>) -> ()
      return
    }}"""


def contract(maps: str, iterators: str = '["reduction"]') -> str:
    return f"""
    func.func @f(%x: vector<4xf32>, %y: f32) -> f32 {{
      %r = vector.contract {{indexing_maps = {maps}, iterator_types = {iterators},
        kind = #vector.kind<add>}} %x, %x, %y : vector<4xf32>, vector<4xf32> into f32
      return %r : f32
    }}"""


_MAPS = f"[{_MAP}, {_MAP}, affine_map<(d0) -> ()>]"
_ENUM = "#linalg.iterator_type<parallel>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module attributes {tir.a = array<index: 1>} {}", "1:28.*`array` of `index`"),
        ("module attributes {tir.a = array < index>} {}", "`array` of `index`"),
        ("!t = index\nmodule attributes {tir.a = array<!t: 1>} {}", "of `index`"),
        (generic("[0]"), r"`iterator_types`: expected strings.*got `\[0\]`"),
        (generic('["parallel", [i32]]'), "expected strings"),
        (generic(f"[{_ENUM}]"), "expected strings"),
        (generic("#i", before="#i = [unit]"), "expected strings"),
        (
            generic(
                "", attributes=f'{{indexing_maps = [{_MAP}], "iterator_types" = [0]}}'
            ),
            "expected strings",
        ),
        (contract(_MAPS, "[0]"), "expected strings"),
        (contract('["x"]'), "`indexing_maps`: expected affine maps"),
    ],
)
def test_text_that_would_abort(text: str, message: str) -> None:
    with pytest.raises(IRError, match=message):
        IRModule.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        'module attributes {tir.a = array<i64: 1>, tir.s = "array<index: 1>"} {}',
        "// array<index: 1>\nmodule {}",
        "!t = i32\nmodule attributes {tir.a = array<!t: 1>} {}",
        generic('["parallel"]'),
        generic("#i", before='#i = ["parallel"]'),
        quoted(f"[{_ENUM}]"),
        contract(_MAPS),
    ],
)
def test_what_is_valid_is_read(text: str) -> None:
    assert IRModule.parse(text).mlir.operation.name == "builtin.module"


def test_mutants_are_damaged() -> None:
    known = texts()
    originals = {"".join(tokens) for tokens in known}

    found = [mutated(random.Random(seed), known) for seed in range(20)]

    assert sum(text not in originals for text in found) > 15


@pytest.mark.slow
def test_no_mutated_text_ends_the_process() -> None:
    """Each of 4,000 is parsed or refused; the last seed printed is at fault."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.ir.mutated_texts", "0", "4000"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode == 0, (made.stdout[-20:], made.stderr[-2000:])

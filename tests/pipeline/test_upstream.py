"""The table of refused upstream passes is correct and complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relax_mlir.passes.relax
from relax_mlir.errors import PassError, PipelineError
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import (
    Pipeline,
)
from relax_mlir.pipeline.upstream import ALLOWED_ANCHORS, REFUSED


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("text", ["{}", "inline{{default-pipeline={}}}"])
def test_aborting_passes_are_refused_with_a_reason(name: str, text: str) -> None:
    with pytest.raises(PipelineError, match=f"`{name}` is refused: it"):
        Pipeline.parse(text.format(name))


@pytest.mark.parametrize("name", sorted(ALLOWED_ANCHORS))
def test_passes_that_abort_on_functions_are_refused_there(name: str) -> None:
    Pipeline.parse(name)
    with pytest.raises(PipelineError, match=f"`{name}` runs on .*, not on `any`"):
        Pipeline.parse(f"any({name})")
    with pytest.raises(PipelineError, match="refused inside the options of `inline`"):
        Pipeline.parse(f"inline{{default-pipeline={name}}}")


@pytest.mark.parametrize("name", ["<lambda>", "a b", "a@b", "é"])
@pytest.mark.parametrize("linkage", ["", "internal"])
def test_names_invalid_in_ptx_are_rejected(name: str, linkage: str) -> None:
    module = IRModule.parse(f"""
        module attributes {{gpu.container_module}} {{
          gpu.module @m {{
            llvm.func {linkage} @"{name}"() attributes {{no_inline}} {{ llvm.return }}
            llvm.func @k() attributes {{gpu.kernel, nvvm.kernel}} {{
              llvm.call @"{name}"() : () -> ()
              llvm.return
            }}
          }}
        }}""")
    pipeline = Pipeline.parse(
        "nvvm-attach-target{chip=sm_90a features=+ptx80},"
        "gpu-module-to-binary{format=isa}"
    )

    if linkage:  # LLVM renames what only the module sees
        pipeline.run(module)
        assert ".visible .entry k(" in str(module)
    else:
        with pytest.raises(PassError, match=f"`{name}` cannot be a name in PTX"):
            pipeline.run(module)


EVERY_PASS = """
import contextlib, sys
from pathlib import Path
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import upstream
from relax_mlir.ir.traversal import walk

program = '''
attributes {tir.prim_func} {
  "tir.block"() ({
  }, {
  ^bb0(%i: index):
    %0 = memref.load %a[%i] : memref<2xf32>
    memref.store %0, %b[%i] : memref<2xf32>
    gpu.yield
  }) {kinds = "S", name = "copy", operandSegmentSizes = array<i32: 0, 0>,
      static_extents = array<i64: 2>} : () -> ()
  return
}'''
module = IRModule.parse(f'''
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {{callee = @program, sizes = #relax.shape<[]>}}
    : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.exp"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}}
func.func private @program(%a: memref<2xf32>, %b: memref<2xf32>) {program}
func.func @sum(%x: memref<4xf32>, %n: index) -> f32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {{
    %v = memref.load %x[%i] : memref<4xf32>
    %t = arith.addf %acc, %v : f32
    scf.yield %t : f32
  }}
  return %s : f32
}}
func.func @first(%x: index) -> index {{ return %x : index }}
func.func @second(%x: index) -> index {{ return %x : index }}
func.func private @external(index)
gpu.module @kernels {{
  gpu.func @kernel(%a: memref<4xf32>) kernel {{
    %t = gpu.thread_id x
    %v = memref.load %a[%t] : memref<4xf32>
    memref.store %v, %a[%t] : memref<4xf32>
    gpu.return
  }}
}}
''')


def lost(module):
    ops = list(walk(module.mlir.operation))
    symbols = {op.attributes["sym_name"].value for op in ops if "sym_name" in op.attributes}
    called = {
        op.attributes["callee"].value
        for op in ops
        if op.operation.name == "relax.call_tir"
    }
    return (called | {"main", "first", "second"}) - symbols


progress = Path(sys.argv[1])
trials = [
    (name, anchors)
    for name in upstream.known_passes()
    for anchors in ([], ["func.func"], ["gpu.module"])
    # What that one does depends on its options.
    if name != "composite-fixed-point-pass"
]
for name, anchors in trials[int(sys.argv[2]):]:
    refused = 0
    with contextlib.suppress(ValueError):
        refused = 1
        upstream.check_pass(anchors, name, "")
        refused = 0
    with progress.open("a") as file:
        file.write(f"{name} {refused}\\n")
    changed = module.clone()
    text = upstream.nested(anchors, name, "")
    with contextlib.suppress(upstream.UpstreamError, ValueError):
        upstream.run_pass(changed.mlir, text)
        changed.verify()
        if lost(changed):
            print(name, refused)
"""


@pytest.mark.slow
@pytest.mark.every_case  # changes with the version of MLIR alone
def test_refused_upstream_passes_are_exactly_the_harmful_ones(
    tmp_path: Path,
) -> None:
    script = tmp_path / "every_pass.py"
    script.write_text(EVERY_PASS)
    progress = tmp_path / "progress"
    progress.write_text("")
    root = Path(relax_mlir.__file__).parents[1]
    harmful: list[str] = []
    alive = False
    while not alive:
        begun = progress.read_text().splitlines()
        done = subprocess.run(
            [sys.executable, script, progress, str(len(begun))],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
            check=False,
        )
        assert done.returncode <= 0, done.stderr
        alive = done.returncode == 0
        harmful += done.stdout.splitlines()
        if not alive:
            harmful.append(progress.read_text().splitlines()[-1])

    assert len(progress.read_text().splitlines()) > 600
    found = {line.split()[0] for line in harmful}
    assert found == {*REFUSED, *ALLOWED_ANCHORS} - {"composite-fixed-point-pass"}
    assert all(line.endswith(" 1") for line in harmful), harmful

"""Imports that go up, planted where import-linter alone would not see them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.string_imports import ROOT, contracts, findings, unlisted

_KNOWN = frozenset(
    f"relax_mlir.{name}"
    for name in (
        "objects.expr",
        "pipeline.syntax",
        "runtime.cuda.loading",
        "tvm.script",
    )
)


def named(module: str, source: str) -> list[str]:
    """The refused names in a module of this source."""
    return [f.name for f in findings(module, source, _KNOWN, contracts())]


@pytest.mark.parametrize(
    "source",
    [
        'import_module("relax_mlir.tvm.script")',
        'TABLE = {"printer": "relax_mlir.tvm.script"}',
        'import_module(f"relax_mlir.tvm.script.{name}")',
    ],
)
def test_a_string_that_names_a_higher_module_is_refused(source: str) -> None:
    assert named("relax_mlir.objects.purity", source) == ["relax_mlir.tvm.script"]
    assert named("relax_mlir.compiler.driver", source) == ["relax_mlir.tvm.script"]
    assert named("relax_mlir.nn.core", source) == []
    assert named("relax_mlir.tools.opt", source) == []


def test_lower_modules_and_those_beside_may_be_named() -> None:
    load = 'import_module("relax_mlir.runtime.cuda.loading")'
    assert named("relax_mlir.runtime.executable", load) == []
    assert named("relax_mlir.objects.purity", load) == []
    assert named("relax_mlir.support.files", load) == [
        "relax_mlir.runtime.cuda.loading"
    ]

    assert named("relax_mlir.ir.module", 'NAME = "relax_mlir.objects.expr"') == []


def test_modules_beside_that_do_not_see_each_other_are_refused() -> None:
    source = 'import_module("relax_mlir.pipeline.syntax")'

    assert named("relax_mlir.codegen.jit", source) == ["relax_mlir.pipeline.syntax"]


def test_texts_that_mention_a_module_are_no_imports() -> None:
    source = '"""See :mod:`relax_mlir.tvm.script`."""\nNAME = "relax_mlir.tvm.absent"'

    assert named("relax_mlir.objects.purity", source) == []


def test_the_package_names_no_higher_module_but_in_its_list_of_hooks() -> None:
    assert unlisted() == ([], [])


_FOR_TYPES = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from relax_mlir.tvm.script import ir
"""


@pytest.mark.slow  # 10 s: import-linter reads a copy of the package
def test_an_import_for_type_checkers_alone_that_goes_up_is_refused(
    tmp_path: Path,
) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "native")
    package = tmp_path / "relax_mlir"
    shutil.copytree(ROOT / "relax_mlir", package, ignore=ignored)
    shutil.copytree(ROOT / "dialects", package / "dialects", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (package / "objects/purity.py").open("a") as file:
        file.write(_FOR_TYPES)

    run = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert "relax_mlir.objects.purity -> relax_mlir.tvm.script" in run.stdout

"""The command ``relax-mlir`` as a whole, and the names of the package."""

import re
import subprocess
import sys

import pytest

import relax_mlir
from relax_mlir.tools import cli


def test_the_version_names_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        rf"relax-mlir {relax_mlir.__version__}, MLIR 22\.\S+, Python 3\.\S+\n", printed
    )


@pytest.mark.slow
def test_the_package_is_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["--version"])
    command = [sys.executable, "-m", "relax_mlir", "--version"]
    printed = subprocess.check_output(command, text=True)
    assert printed == capsys.readouterr().out


def test_the_package_lists_its_names() -> None:
    names = {name for name in dir(relax_mlir) if not name.startswith("__")}
    assert {*relax_mlir.__all__, "dialects", "nn", "onnxruntime", "tvm"} <= names
    for name in names:
        assert getattr(relax_mlir, name) is not None
    assert not {"Any", "import_module"} & names

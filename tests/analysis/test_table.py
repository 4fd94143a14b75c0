"""Every analysis is in the table of what mutants are planted in."""

from pathlib import Path

import pytest

from tests.analysis.table import ANALYSES, FOLDERS

_TESTS = Path(__file__).parents[1]
_PACKAGE = _TESTS.parent / "relax_mlir"


def modules_in(folder: str) -> set[str]:
    """The modules directly in a folder of the package, without its name."""
    prefix = f"{folder}/".lstrip("/").replace("/", ".")
    files = (_PACKAGE / folder).glob("*.py")
    return {f"{prefix}{f.stem}" for f in files if f.stem != "__init__"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_is_an_analysis_or_said_to_be_none(folder: str) -> None:
    prefix = f"{folder}/".lstrip("/").replace("/", ".")
    others = {f"{prefix}{name}" for name in FOLDERS[folder].split()}

    assert modules_in(folder) - set(ANALYSES) == others, "see tests/analysis/table.py"


def test_every_analysis_has_tests() -> None:
    for name, files in ANALYSES.items():
        assert (_PACKAGE / f"{name.replace('.', '/')}.py").exists(), name
        assert files, name
        for file in files:
            assert (_TESTS / file).exists(), file


def test_every_file_of_tests_belongs_to_an_analysis() -> None:
    listed = {file for files in ANALYSES.values() for file in files}
    found = {f"analysis/{f.name}" for f in Path(__file__).parent.glob("test_*.py")}

    assert found - listed == {"analysis/test_table.py"}

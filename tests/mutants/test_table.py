"""Every analysis is in the table of mutation tests."""

from pathlib import Path

import pytest

from tests.mutants.table import ANALYSES, FOLDERS

_TESTS = Path(__file__).parents[1]


def path_in_package(name: str) -> Path:
    """A module or folder of the package; ``dialects`` is beside it."""
    root = (
        _TESTS.parent if name.startswith("dialects") else _TESTS.parent / "relax_mlir"
    )
    return root / name


def modules_in(folder: str) -> set[str]:
    """The modules directly in a folder of the package, by their names in it."""
    prefix = f"{folder}/".replace("/", ".")
    files = path_in_package(folder).glob("*.py")
    return {f"{prefix}{f.stem}" for f in files if f.stem != "__init__"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_is_listed_as_an_analysis_or_not(folder: str) -> None:
    prefix = f"{folder}/".replace("/", ".")
    others = {f"{prefix}{name}" for name in FOLDERS[folder].split()}

    assert modules_in(folder) - set(ANALYSES) == others, "see tests/mutants/table.py"


def test_every_analysis_has_tests() -> None:
    for name, files in ANALYSES.items():
        assert path_in_package(f"{name.replace('.', '/')}.py").exists(), name
        assert files, name
        for file in files:
            assert (_TESTS / file).exists(), file


def test_every_test_file_belongs_to_an_analysis() -> None:
    listed = {file for files in ANALYSES.values() for file in files}
    folders = ("analysis", "symbolic")
    found = {f"{d}/{f.name}" for d in folders for f in (_TESTS / d).glob("test_*.py")}

    assert found <= listed
    for name, files in ANALYSES.items():
        folder, _, module = name.replace(".", "/").rpartition("/")
        own = f"{folder}/test_{module}.py"
        assert own in files or not (_TESTS / own).exists(), own

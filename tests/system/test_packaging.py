"""The project as a checkout, a source archive, a wheel and an editable install."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relax_mlir.compiler.source_digest import source_digest

ROOT = Path(__file__).parents[2]
CODE = ("relax_mlir", "dialects", "models", "tests", "benchmarks")

# Where things are loaded from, and whether a module is there twice.
REPORT = """
import sys
import relax_mlir.dialects.ext
from pathlib import Path
from relax_mlir.runtime import cpu

print(Path(relax_mlir.__file__).parent)
print(cpu.load_library()._name)
files = [Path(m.__file__).resolve() for m in sys.modules.values()
         if (getattr(m, "__name__", "") + ".").startswith(("relax_mlir.", "dialects."))]
print(len(files) == len(set(files)))
"""

# What `relax_mlir.dialects` is, which must not depend on how the package is installed.
DIALECTS = """
from importlib.resources import files
from pkgutil import iter_modules
import relax_mlir.dialects.relax
from relax_mlir.compiler.source_digest import source_digest

spec, relax = relax_mlir.dialects.__spec__, relax_mlir.dialects.relax
print(spec.name, spec.parent, relax.AddOp.__module__, len([*iter_modules(relax.__path__)]))
print(files("relax_mlir.dialects").joinpath("relax.irdl.mlir").is_file(), source_digest())
"""
# The name that the folder has in a source tree.
REFUSAL = """
try:
    import dialects.relax
except ImportError as error:
    print(str(error).partition(". ")[0] == "`dialects`: expected the name `relax_mlir.dialects`")
"""


def expected_dialects() -> list[str]:
    """What `DIALECTS` prints of this checkout's sources."""
    families = len([*(ROOT / "dialects" / "relax").glob("*.py")]) - 1
    module = "relax_mlir.dialects"
    return [
        f"{module} {module} {module}.relax.arithmetic {families}",
        f"True {source_digest()}",
    ]


def python_files() -> Iterator[Path]:
    for folder in CODE:
        yield from (ROOT / folder).rglob("*.py")


def run(*command: str | Path, cwd: Path, path: str = "") -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = path
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_dialects_have_one_name() -> None:
    """The folder could be imported as `dialects` too, which would make every op twice."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        for name in imported_names(path)
        if name.split(".")[0] == "dialects"
    ]

    assert wrong == []


def test_checkout_has_no_symbolic_links() -> None:
    """Not every system has them, and tools that follow them list files twice."""
    assert [
        p for folder in CODE for p in (ROOT / folder).rglob("*") if p.is_symlink()
    ] == []


@pytest.mark.slow
def test_dialects_of_a_checkout(tmp_path: Path) -> None:
    code = DIALECTS + REFUSAL
    by_path = run(sys.executable, "-c", code, cwd=tmp_path, path=str(ROOT))
    by_folder = run(sys.executable, "-c", code, cwd=ROOT)

    assert by_path == by_folder
    assert by_path.splitlines() == [*expected_dialects(), "True"]


def test_lock_agrees_with_the_exact_versions() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    required = text.partition("[project.optional-dependencies]")[0]
    pins = set(re.findall(r'"([\w-]+==[\w.]+)",', required))
    lock = (ROOT / "requirements.lock").read_text()
    packages = {line.partition(" ")[0] for line in locked_packages(lock)}

    assert len(pins) == 5
    assert pins <= packages


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-audit.lock"])
def test_every_locked_file_has_its_hash(name: str) -> None:
    text = (ROOT / name).read_text()

    assert "://" not in text
    for package in locked_packages(text):
        head, *hashes = package.split(" \\\n    ")
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; python_full_version .*)?", head)
        assert hashes, head
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes)


def locked_packages(lock: str) -> list[str]:
    """Packages of a lock file, each with its version, condition and hashes."""
    text = "".join(f"{x}\n" for x in lock.splitlines() if not x.startswith("#"))
    return re.split(r"\n(?=\S)", text.rstrip("\n"))


def test_all_that_tests_and_builds_need_is_locked() -> None:
    """`make env` installs this project without its dependencies, which come first."""
    text = (ROOT / "pyproject.toml").read_text()
    lock = (ROOT / "requirements.lock").read_text()
    locked = {line.partition("==")[0] for line in locked_packages(lock)}
    head, _, extras = text.partition("[project.optional-dependencies]")
    wanted = [head.partition("dependencies = [")[2]]
    wanted += [extras.partition(f"\n{name} = [")[2] for name in ("test", "native")]
    for part in wanted:
        for name in re.findall(r'"([\w-]+)[>=]=', part.partition("]\n")[0]):
            assert name.replace("_", "-") in locked


@pytest.mark.slow
def test_checkout_works_by_its_path_alone(tmp_path: Path) -> None:
    package, library, once = run(
        sys.executable, "-c", REPORT, cwd=tmp_path, path=str(ROOT)
    ).splitlines()

    assert Path(package) == ROOT / "relax_mlir"
    assert Path(library).parent == ROOT / "relax_mlir" / "runtime"
    assert once == "True"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is under version control, without what was built."""
    if importlib.util.find_spec("scikit_build_core") is None:
        pytest.skip("needs the `native` extra")
    copy = tmp_path_factory.mktemp("sources")
    for name in (
        "CMakeLists.txt",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        ".gitignore",
    ):
        shutil.copy(ROOT / name, copy)
    built = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("dialects", "relax_mlir", "tests/runtime/native"):
        shutil.copytree(ROOT / name, copy / name, ignore=built)
    return copy


def pip(
    command: str, *arguments: str | Path, cwd: Path, python: str | Path = sys.executable
) -> None:
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, command, *offline, *arguments, cwd=cwd)


@pytest.mark.slow
def test_wheel_of_the_source_archive_is_complete(sources: Path, tmp_path: Path) -> None:
    build = "import sys; from scikit_build_core.build import build_sdist as b; b(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=sources)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        tar.extractall(tmp_path, filter="data")
    assert {"dialects/ext.py", "relax_mlir/runtime/native/abi.h"} <= names
    assert not any(name.startswith("relax_mlir/dialects") for name in names)
    unpacked = str(archive).removesuffix(".tar.gz")
    code = DIALECTS + REFUSAL
    printed = run(sys.executable, "-c", code, cwd=tmp_path, path=unpacked)
    assert printed.splitlines() == [*expected_dialects(), "True"]

    pip("wheel", "-w", tmp_path, archive, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-py3-none-" in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        packed.extractall(tmp_path / "installed")
    expected = {
        f"relax_mlir/{path.relative_to(sources / 'relax_mlir')}"
        for path in (sources / "relax_mlir").rglob("*.py")
    }
    expected |= {
        f"relax_mlir/{path.relative_to(sources)}"
        for pattern in ("*.py", "*.mlir")
        for path in (sources / "dialects").rglob(pattern)
    }
    assert expected <= names
    assert not any(name.startswith("dialects") for name in names)
    assert not any("/native/" in name for name in names)

    installed = tmp_path / "installed"
    package, library, once = run(
        sys.executable, "-c", REPORT, cwd=tmp_path, path=str(installed)
    ).splitlines()
    assert Path(package) == installed / "relax_mlir"
    assert Path(library).parent == installed / "relax_mlir" / "runtime"
    assert once == "True"
    printed = run(sys.executable, "-c", DIALECTS, cwd=tmp_path, path=str(installed))
    assert printed.splitlines() == expected_dialects()


@pytest.mark.slow
@pytest.mark.every_case  # this very environment is one
def test_editable_install_follows_the_sources(sources: Path, tmp_path: Path) -> None:
    """New and renamed modules are there without another install."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours = Path(run(sys.executable, "-c", where, cwd=tmp_path).strip())
    theirs = Path(run(python, "-c", where, cwd=tmp_path).strip())
    # Our dependencies, but not an editable install of this project.
    (theirs / "dependencies.pth").write_text(
        f"import sys; sys.path.append({str(ours)!r})\n"
    )
    pip("install", "-e", sources, cwd=tmp_path, python=python)

    package, library, once = run(python, "-c", REPORT, cwd=tmp_path).splitlines()
    assert Path(package) == sources / "relax_mlir"
    assert Path(library).parent == sources / "relax_mlir" / "runtime"
    assert once == "True"
    printed = run(python, "-c", DIALECTS + REFUSAL, cwd=tmp_path)
    assert printed.splitlines() == [*expected_dialects(), "True"]

    (sources / "dialects" / "brand_new.py").touch()
    (sources / "relax_mlir" / "errors.py").rename(tmp_path / "errors.py")
    (sources / "relax_mlir" / "errors").mkdir()
    shutil.move(
        tmp_path / "errors.py", sources / "relax_mlir" / "errors" / "__init__.py"
    )
    run(
        python,
        "-c",
        "import relax_mlir.dialects.brand_new, relax_mlir.errors",
        cwd=tmp_path,
    )

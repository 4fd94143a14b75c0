"""The project as a checkout, a source archive, a wheel and an editable install."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import relax_mlir
from relax_mlir.compiler.source_digest import source_digest
from relax_mlir.runtime.signing import generate_keys

ROOT = Path(__file__).parents[2]
# Not on the path: its folder has the name of a library.
_FOUND = importlib.util.spec_from_file_location(
    "release", ROOT / "packaging" / "release.py"
)
assert _FOUND is not None
assert _FOUND.loader is not None
release = importlib.util.module_from_spec(_FOUND)
_FOUND.loader.exec_module(release)
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


def run(*command: str | Path, cwd: Path, path: str = "") -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = path
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
    pins = {
        pin
        for text in project_files()
        for pin in re.findall(r'"([\w-]+==[\w.]+)"', text)
    }
    pins -= {f"relax-mlir-runtime=={relax_mlir.__version__}"}
    lock = (ROOT / "requirements.lock").read_text()
    packages = {line.partition(" ")[0] for line in locked_packages(lock)}

    assert len(pins) == 5
    assert pins <= packages


def project_files() -> list[str]:
    """The project files of both distributions, without the extras that are not locked."""
    folders = (ROOT, ROOT / "packaging" / "runtime")
    return [
        (f / "pyproject.toml").read_text().partition("bench = [")[0] for f in folders
    ]


def test_the_compiler_needs_the_runtime_of_its_version() -> None:
    pin = f'"relax-mlir-runtime=={relax_mlir.__version__}"'

    assert pin in (ROOT / "pyproject.toml").read_text()


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
            assert name.replace("_", "-") in {*locked, "relax-mlir-runtime"}


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
    built = shutil.ignore_patterns("__pycache__", "*.so", "*.o")
    for name in ("dialects", "packaging", "relax_mlir", "tests/runtime/native"):
        shutil.copytree(ROOT / name, copy / name, ignore=built)
    return copy


@dataclass(frozen=True)
class Built:
    """A distribution: its source archive and the wheel of that."""

    archive: Path
    wheel: Path

    @property
    def files(self) -> set[str]:
        """The paths that its wheel holds of the package."""
        with zipfile.ZipFile(self.wheel) as packed:
            return {n for n in packed.namelist() if ".dist-info/" not in n}


@pytest.fixture(scope="module")
def runtime(
    sources: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Built:
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent  # that of all workers
    return built_once(sources / "packaging" / "runtime", shared / "runtime")


@pytest.fixture(scope="module")
def compiler(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("compiler")
    build(sources, folder)
    return built_in(folder)


def built_once(project: Path, folder: Path) -> Built:
    """A project's archive and wheel, which one of the processes of the tests builds."""
    done = folder / "done"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(600):
            if done.exists():
                break
            time.sleep(0.5)
    else:
        build(project, folder)
        done.touch()
    return built_in(folder)


def built_in(folder: Path) -> Built:
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(archive, wheel)


OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")


def build(project: Path, folder: Path) -> None:
    """Build a project's source archive, and its wheel from that."""
    release.build(project, folder, OFFLINE)


def pip(
    command: str, *arguments: str | Path, cwd: Path, python: str | Path = sys.executable
) -> None:
    offline = {"install": OFFLINE, "uninstall": ("--yes",)}
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, command, "--quiet", *offline[command], *arguments, cwd=cwd)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The interpreter of an environment with our dependencies, but without this project."""
    folder = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours = Path(run(sys.executable, "-c", where, cwd=tmp_path).strip())
    theirs = Path(run(python, "-c", where, cwd=tmp_path).strip())
    # Editable installs are in files of our folder, which are not read when a path is added.
    (theirs / "dependencies.pth").write_text(
        f"import sys; sys.path.append({str(ours)!r})\n"
    )
    return python


def installed_in(python: Path) -> Path:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    return packages


def package_files(python: Path) -> set[str]:
    """The files of the package that are installed, without compiled ones."""
    folder = installed_in(python)
    found = (folder / "relax_mlir").rglob("*")
    files = {str(p.relative_to(folder)) for p in found if p.is_file()}
    return {name for name in files if "__pycache__" not in name}


@pytest.mark.slow
def test_archives_hold_what_wheels_are_built_from(
    runtime: Built, compiler: Built, tmp_path: Path
) -> None:
    names: dict[Built, set[str]] = {}
    for made in (runtime, compiler):
        with tarfile.open(made.archive) as tar:
            names[made] = {name.partition("/")[2] for name in tar.getnames()}
            tar.extractall(tmp_path, filter="data")

    assert "relax_mlir/runtime/native/abi.h" in names[runtime]
    assert not any(name.startswith("dialects") for name in names[runtime])
    assert {"dialects/ext.py", "packaging/runtime/backend.py"} <= names[compiler]
    assert not any(n.startswith("relax_mlir/dialects") for n in names[compiler])
    unpacked = tmp_path / compiler.archive.name.removesuffix(".tar.gz")
    printed = run(
        sys.executable, "-c", DIALECTS + REFUSAL, cwd=tmp_path, path=str(unpacked)
    )
    assert printed.splitlines() == [*expected_dialects(), "True"]


@pytest.mark.slow
def test_wheels_share_no_file_and_are_complete(
    runtime: Built, compiler: Built, sources: Path, environment: Path
) -> None:
    package = {
        str(path.relative_to(sources))
        for path in (sources / "relax_mlir").rglob("*.py")
    }
    package |= {
        f"relax_mlir/{path.relative_to(sources)}"
        for pattern in ("*.py", "*.mlir")
        for path in (sources / "dialects").rglob(pattern)
    }

    assert runtime.files.isdisjoint(compiler.files)
    package |= {
        "relax_mlir/codegen/exported_library.h.template",
        "relax_mlir/compiler/exported_package.py.template",
        "relax_mlir/pipeline/upstream_passes.json",
        "relax_mlir/py.typed",
        "relax_mlir/runtime/exported_model.o",
        "relax_mlir/runtime/librelax_mlir_rt.so",
    }
    assert runtime.files | compiler.files == package
    assert compiler.wheel.name.endswith("-py3-none-any.whl")
    assert re.search(r"-py3-none-(?!any)\w+\.whl", runtime.wheel.name)

    cwd = environment.parent
    pip("install", runtime.wheel, compiler.wheel, cwd=cwd, python=environment)
    installed = installed_in(environment) / "relax_mlir"
    folder, library, once = run(environment, "-c", REPORT, cwd=cwd).splitlines()
    assert Path(folder) == installed
    assert Path(library).parent == installed / "runtime"
    assert once == "True"
    printed = run(environment, "-c", DIALECTS, cwd=cwd)
    assert printed.splitlines() == expected_dialects()


def test_a_release_is_signed_and_verified(tmp_path: Path) -> None:
    folder, key = tmp_path / "dist", tmp_path / "key.pem"
    folder.mkdir()
    for name in ("a.whl", "b.tar.gz"):
        (folder / name).write_text(name)
    public_key = generate_keys(key)

    release.sign(folder, key)
    release.verify(folder, public_key)

    sums = (folder / "SHA256SUMS").read_text().splitlines()
    digest = hashlib.sha256(b"a.whl").hexdigest()
    assert sums[0] == f"{digest}  a.whl"
    (folder / "c.whl").touch()
    with pytest.raises(release.ReleaseError, match=r"c\.whl: not the file"):
        release.verify(folder, public_key)
    (folder / "c.whl").unlink()
    (folder / "a.whl").write_text("b")
    with pytest.raises(release.ReleaseError, match=r"a\.whl: not the file"):
        release.verify(folder, public_key)
    (folder / "a.whl").unlink()
    with pytest.raises(release.ReleaseError, match=r"missing: a\.whl"):
        release.verify(folder, public_key)
    other = generate_keys(tmp_path / "other.pem")
    with pytest.raises(release.ReleaseError, match="not a signature by the key"):
        release.verify(folder, other)


@pytest.mark.slow
def test_metadata_are_complete(runtime: Built, compiler: Built, tmp_path: Path) -> None:
    release.check_metadata(compiler.wheel)
    with pytest.raises(release.ReleaseError, match="platform that indexes accept"):
        release.check_metadata(runtime.wheel)
    renamed = tmp_path / runtime.wheel.name.replace("-linux_", "-manylinux_2_28_")
    shutil.copy(runtime.wheel, renamed)
    release.check_metadata(renamed)


# What is installed and works, on a line each.
STATE = """
try:
    import relax_mlir
    print(relax_mlir.load.__name__)
    print(relax_mlir.compile.__name__)
except (ImportError, AttributeError) as error:
    print(error)
"""
_NO_COMPILER = "`relax_mlir.compile`: the compiler is not installed, or not completely"
_OTHER_VERSION = "relax_mlir.compiler: expected relax-mlir-runtime {}, got {}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["runtime", pytest.param("compiler", marks=pytest.mark.every_case)]
)
def test_either_is_installed_upgraded_and_removed(
    first: str, runtime: Built, compiler: Built, environment: Path, tmp_path: Path
) -> None:
    """Each step leaves the files of the other distribution as they are."""
    old = {"runtime": runtime, "compiler": compiler}
    new = {name: newer(made, tmp_path) for name, made in old.items()}
    names = {"runtime": "relax-mlir-runtime", "compiler": "relax_mlir"}
    second = "compiler" if first == "runtime" else "runtime"
    there: dict[str, Built] = {}

    def step(command: str, name: str, made: Built | None = None) -> list[str]:
        what = names[name] if made is None else made.wheel
        pip(command, what, cwd=tmp_path, python=environment)
        there.pop(name, None)
        if made is not None:
            there[name] = made
        expected = {file for made in there.values() for file in made.files}
        assert package_files(environment) == expected
        return run(environment, "-c", STATE, cwd=tmp_path).splitlines()

    alone = step("install", first, old[first])
    if first == "runtime":
        assert alone[0] == "load"
        assert alone[1].startswith(_NO_COMPILER)
        command = (environment, "-m", "relax_mlir", "--version")
        printed = run(*command, cwd=tmp_path)
        assert printed == f"relax-mlir-runtime {relax_mlir.__version__}\n"
    assert step("install", second, old[second]) == ["load", "compile"]
    mixed = step("install", first, new[first])
    versions = ("0.1.0", "0.1.1") if first == "runtime" else ("0.1.1", "0.1.0")
    assert mixed[0] == "load"
    assert mixed[1].startswith(_OTHER_VERSION.format(*versions))
    assert step("install", second, new[second]) == ["load", "compile"]
    step("uninstall", first)
    assert step("install", first, new[first]) == ["load", "compile"]
    step("uninstall", second)
    step("uninstall", first)


def newer(made: Built, folder: Path) -> Built:
    """The same distribution in a later version, with another list of files."""
    name = made.wheel.name.replace("-0.1.0-", "-0.1.1-")
    with (
        zipfile.ZipFile(made.wheel) as before,
        zipfile.ZipFile(folder / name, "w") as after,
    ):
        for entry in before.namelist():
            data = before.read(entry)
            if entry.endswith(("/METADATA", "/RECORD", ".py")):
                data = data.replace(b"0.1.0", b"0.1.1")
            if entry.endswith("/RECORD"):
                data = data.replace(b"text.py,", b"new_text.py,")
                data = re.sub(rb",sha256=[^,]*,\d*", b",,", data)
            renamed = entry.replace("-0.1.0.dist-info", "-0.1.1.dist-info")
            after.writestr(renamed, data)
    return Built(made.archive, folder / name)


@pytest.mark.slow
@pytest.mark.every_case  # this very environment is one
@pytest.mark.parametrize("order", ["runtime first", "compiler first"])
def test_editable_install_follows_the_sources(
    order: str, sources: Path, environment: Path, tmp_path: Path
) -> None:
    """New and renamed modules are there without another install."""
    copy = tmp_path / "sources"
    shutil.copytree(sources, copy)
    projects = [copy / "packaging" / "runtime", copy]
    for project in projects if order == "runtime first" else projects[::-1]:
        pip("install", "-e", project, cwd=tmp_path, python=environment)

    check_installation(environment, copy / "relax_mlir", tmp_path)
    (copy / "dialects" / "brand_new.py").touch()
    (copy / "relax_mlir" / "errors.py").rename(tmp_path / "errors.py")
    (copy / "relax_mlir" / "errors").mkdir()
    shutil.move(tmp_path / "errors.py", copy / "relax_mlir" / "errors" / "__init__.py")
    run(
        environment,
        "-c",
        "import relax_mlir.dialects.brand_new, relax_mlir.errors",
        cwd=tmp_path,
    )


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize("editable", ["runtime", "compiler"])
def test_editable_install_beside_a_wheel(
    editable: str,
    runtime: Built,
    compiler: Built,
    sources: Path,
    environment: Path,
    tmp_path: Path,
) -> None:
    """The runtime is where it is installed; the compiler's sources are found beside it."""
    copy = tmp_path / "sources"
    shutil.copytree(sources, copy)
    wheel, project = compiler.wheel, copy / "packaging" / "runtime"
    runs_from = copy / "relax_mlir"
    if editable == "compiler":
        wheel, project = runtime.wheel, copy
        runs_from = installed_in(environment) / "relax_mlir"
    pip("install", wheel, cwd=tmp_path, python=environment)
    pip("install", "-e", project, cwd=tmp_path, python=environment)

    check_installation(environment, runs_from, tmp_path)


def check_installation(python: Path, runs_from: Path, cwd: Path) -> None:
    """Check where the runtime is, and that the compiler is complete."""
    package, library, once = run(python, "-c", REPORT, cwd=cwd).splitlines()
    assert Path(package) == runs_from
    assert Path(library).parent == runs_from / "runtime"
    assert once == "True"
    printed = run(python, "-c", DIALECTS + REFUSAL, cwd=cwd)
    assert printed.splitlines() == [*expected_dialects(), "True"]

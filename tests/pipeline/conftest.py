"""Fixtures of the pipeline tests."""

import re
import sys
from collections.abc import Iterator
from importlib import invalidate_caches

import pytest

import relax_mlir.passes.relax
from relax_mlir.ir.module import IRModule
from tests.pipeline.sources import PASSES, SOURCE


@pytest.fixture(scope="module", autouse=True)
def zz_passes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes `relax-zz-*` passes, each class found through a file of its own."""
    folder = tmp_path_factory.mktemp("passes")
    (folder / "_zz_all.py").write_text(PASSES)
    for name in re.findall(r"class Zz(\w+)", PASSES):
        words = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        source = f"from relax_mlir.passes.relax._zz_all import Zz{name}\n"
        (folder / f"zz_{words}.py").write_text(source)
    path = relax_mlir.passes.relax.__path__
    path.append(str(folder))
    invalidate_caches()
    yield
    path.remove(str(folder))
    for name in [n for n in sys.modules if ".relax.zz_" in n or n.endswith("_zz_all")]:
        del sys.modules[name]


@pytest.fixture
def module() -> IRModule:
    return IRModule.parse(SOURCE)

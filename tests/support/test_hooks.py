"""Hooks are set by their providers, whatever was imported before."""

import subprocess
import sys

import pytest

from relax_mlir.objects.function import FUNCTION_BINDING
from relax_mlir.objects.printing import PRINTER
from relax_mlir.runtime.machine_code import LINK
from relax_mlir.runtime.source_model import RESPECIALIZE
from relax_mlir.support import hooks
from relax_mlir.support.hooks import Hook


@pytest.mark.parametrize("hook", [FUNCTION_BINDING, LINK, PRINTER, RESPECIALIZE])
def test_every_hook_is_set_by_its_provider(hook: Hook[object]) -> None:
    assert hook.get() is not None


def test_the_list_has_no_provider_without_a_hook() -> None:
    # That of programs of torch needs torch; its tests use it.
    assert len(hooks._PROVIDERS) == 4 + 1


@pytest.mark.slow  # 1 s: processes that import little
@pytest.mark.parametrize(
    "program",
    [
        "from relax_mlir.objects import expr\nprint(expr.Var('x'))",
        "from relax_mlir.objects import prim\nprint(prim.Var('x').script().split()[0])",
    ],
)
def test_objects_print_though_nothing_imported_the_printer(program: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout == "x\n"


def test_a_value_that_is_set_takes_the_place_of_the_provided_one() -> None:
    hook = Hook[int]("objects.printer")
    hook.set(1)
    hook.set(2)

    assert hook.get() == 2


def test_a_provider_that_sets_nothing_is_an_error() -> None:
    hook = Hook[int]("objects.printer")  # not the one that the printer sets

    with pytest.raises(ImportError, match=r"`relax_mlir.tvm.script.printer` is not"):
        hook.get()


@pytest.mark.parametrize("name", hooks._FUNCTIONS)
def test_every_function_is_registered_by_its_module(name: str) -> None:
    from relax_mlir.runtime.registry import get_global_func

    hooks.load_function(name)

    assert callable(get_global_func(name, allow_missing=True))

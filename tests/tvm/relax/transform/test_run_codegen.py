"""Partitioning of graphs for external compilers of the user."""

import itertools

import numpy as np
import pytest

from relax_mlir.compiler import driver
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.nn import ExternModule
from relax_mlir.objects.expr import Constant, Var, const
from relax_mlir.objects.function import Function
from relax_mlir.runtime.registry import register_func
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.backend import (
    get_pattern,
    get_patterns_with_prefix,
    pattern_registry,
    register_patterns,
)
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from tests.tvm.relax.transform.graphs import op, program, tensor


@pytest.fixture(autouse=True)
def _no_patterns_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_registry, "_registered", [])


@pytest.fixture
def external_name() -> str:
    """The name of an external compiler that no other test registers."""
    return f"test_codegen{next(_NUMBERS)}"


_NUMBERS = itertools.count()


def _annotated(name: str) -> IRModule:
    """exp(x) + 2 with the addition left to an external compiler."""
    x = Var("x", tensor(2))
    module = program([x], op("add", op("exp", x), const(np.float32(2))))
    pattern = (f"{name}.add", is_op("relax.add")(wildcard(), wildcard()))
    fused = transform.FuseOpsByPattern([pattern], annotate_codegen=True)
    return fused(module)


def test_patterns_are_found_by_name_and_prefix_last_first() -> None:
    add = is_op("relax.add")(wildcard(), wildcard())
    register_patterns([("mine.add", add), ("mine.sum", add), ("other.add", add)])

    names = [pattern.name for pattern in get_patterns_with_prefix("mine.")]

    assert names == ["mine.sum", "mine.add"]
    found = get_pattern("other.add")
    assert found is not None
    assert found.pattern is add
    assert get_pattern("mine.mul") is None


def test_only_patterns_can_be_registered() -> None:
    with pytest.raises(TypeError, match="expected a `FusionPattern` or a tuple"):
        register_patterns([3])  # pyright: ignore[reportArgumentType]
    assert get_patterns_with_prefix("") == []


def test_compiled_functions_are_called(external_name: str) -> None:
    told: dict[str, object] = {}

    def compile_sums(
        functions: list[Function], options: dict[str, int], names: dict[Constant, str]
    ) -> list[object]:
        told.update(options=dict(options), count=len(functions), names=len(names))

        def add(x: object, out: object) -> None:
            np.asarray(out)[...] = np.asarray(x) + 2

        return [add for _ in functions]

    register_func(f"relax.ext.{external_name}", compile_sums)
    options = {external_name: {"level": 3}}

    made = transform.RunCodegen(options)(_annotated(external_name))

    assert told == {"options": {"level": 3}, "count": 1, "names": 1}
    assert [var.name_hint for var in made.get_global_vars()] == ["main"]
    calls = [b.value.op.name for b in made["main"].body.blocks[0].bindings]
    assert "relax.call_dps_packed" in calls
    (result,) = driver.run(made, np.zeros(2, np.float32))
    np.testing.assert_array_equal(result, [3, 3])


def test_a_compiler_must_be_registered(external_name: str) -> None:
    with pytest.raises(
        ValueError, match=f"relax.ext.{external_name}`: no such function"
    ):
        transform.RunCodegen()(_annotated(external_name))


def test_a_compiler_must_compile_all(external_name: str) -> None:
    register_func(f"relax.ext.{external_name}", lambda functions, options, names: [])
    with pytest.raises(PassError, match="expected a callable for each function"):
        transform.RunCodegen()(_annotated(external_name))


def test_a_module_lists_external_modules(external_name: str) -> None:
    register_func(f"relax.ext.{external_name}", lambda functions, *_: [print])
    annotated = _annotated(external_name)
    (symbol,) = (
        str(function.attrs["global_symbol"])
        for function in annotated.functions.values()
        if "Codegen" in function.attrs
    )

    module = transform.RunCodegen()(annotated.with_attr("external_mods", [["mine"]]))

    assert module.attrs["external_mods"] == (("mine",), (symbol,))


def test_external_modules_are_loaded_and_listed() -> None:
    loaded: list[str] = []

    class Doubling(ExternModule):
        def load(self) -> None:
            loaded.extend(self.symbols)

    doubling = Doubling({"test.double": lambda x: x})
    x = Var("x", tensor(2))

    module = transform.AttachExternModules([doubling])(program([x], op("exp", x)))

    assert loaded == ["test.double"]
    assert module.attrs["external_mods"] == (("test.double",),)

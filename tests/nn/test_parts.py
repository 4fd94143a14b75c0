"""Modules as trees: names, state, element types, mutators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relax_mlir import nn
from relax_mlir.nn import core


class Tree(nn.Module):
    def __init__(self) -> None:
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(2, 2, bias=False)])])
        self.named = nn.ModuleDict({"one": nn.Linear(2, 3)})
        self.scales = nn.ParameterList([nn.Parameter((1,)), nn.Parameter((2,))])
        self.shifts = nn.ParameterDict({"a": nn.Parameter((3,))})
        self.weight = nn.Parameter((4,), "float16")


def test_parameters_have_qualified_names() -> None:
    assert [name for name, _ in Tree().named_parameters("p.")] == [
        "p.layers.0.0.weight",
        "p.named.one.weight",
        "p.named.one.bias",
        "p.scales.0",
        "p.scales.1",
        "p.shifts.a",
        "p.weight",
    ]


def test_state_is_loaded_by_name() -> None:
    source, target = nn.Linear(2, 3), nn.Linear(2, 3)
    for parameter in source.parameters():
        parameter.data = np.ones(parameter.shape, np.float32)

    missing, unexpected = target.load_state_dict(source.state_dict())

    assert (missing, unexpected) == ([], [])
    assert target.weight.data is not None
    assert target.weight.data.numpy().tolist() == [[1, 1]] * 3


def test_mismatched_state_is_rejected_if_strict() -> None:
    source, target = nn.Linear(2, 3, bias=False), nn.Linear(2, 3)
    source.weight.data = np.ones((3, 2), np.float32)
    state = {**source.state_dict(), "other": source.weight}

    with pytest.raises(KeyError, match=r"Missing keys: \['bias'\]"):
        target.load_state_dict(state)
    assert target.load_state_dict(state, strict=False) == (["bias"], ["other"])


def test_state_without_data_is_rejected() -> None:
    with pytest.raises(ValueError, match="parameter `weight` has no data"):
        nn.Linear(2, 3).load_state_dict(nn.Linear(2, 3).state_dict())


def test_element_type_of_all_parameters_changes() -> None:
    tree = Tree()
    tree.to("float64")

    assert {p.dtype for p in tree.parameters()} == {"float64"}


def test_bias_keeps_the_out_dtype() -> None:
    layer = nn.Linear(2, 3, out_dtype="float32")
    layer.to("float16")

    assert layer.bias is not None
    assert (layer.weight.dtype, layer.bias.dtype) == ("float16", "float32")


def test_a_parameter_with_data_keeps_its_type() -> None:
    parameter = nn.Parameter((2,))
    parameter.data = np.zeros(2, np.float32)

    with pytest.raises(ValueError, match="has data"):
        parameter.to("float16")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (np.zeros(3, np.float32), ValueError, "Shape mismatch"),
        (np.zeros(2, np.float64), ValueError, "Dtype mismatch"),
        ([0.0, 0.0], TypeError, "expected an array, got list"),
    ],
)
def test_data_must_match_the_parameter(
    data: Any, error: type[Exception], message: str
) -> None:
    parameter = nn.Parameter((2,))
    with pytest.raises(error, match=message):
        parameter.data = data


def test_the_default_element_type_can_be_set() -> None:
    core.set_default_dtype("float16")
    try:
        assert nn.Parameter((2,)).dtype == "float16"
    finally:
        core.set_default_dtype("float32")
    assert core.get_default_dtype() == nn.Parameter((2,)).dtype == "float32"


def test_lists_and_dictionaries_hold_only_parameters() -> None:
    with pytest.raises(TypeError, match=r"elements must be nn\.Parameter, but got int"):
        nn.ParameterList().append(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="keys must be strings, but got int"):
        nn.ParameterDict()[3] = nn.Parameter((1,))
    with pytest.raises(TypeError, match=r"values must be nn\.Parameter, but got str"):
        nn.ParameterDict({"a": "b"})


def test_dictionary_interface() -> None:
    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    modules = nn.ModuleDict({"a": one})
    modules.update({"b": two})

    assert list(modules) == [one, two]
    assert list(modules.keys()) == ["a", "b"]
    assert "a" in modules
    assert modules.pop("a") is one
    assert modules.get("a") is None
    assert len(modules) == 1
    assert list(nn.ParameterDict({"w": one.weight})) == ["w"]


def test_a_module_without_forward_cannot_be_called() -> None:
    with pytest.raises(NotImplementedError, match="`Tree` has no method `forward`"):
        Tree()()


def test_mutator_visits_all_members_by_name() -> None:
    seen: list[str] = []

    class Names(nn.Mutator):
        def visit_param(self, name: str, node: nn.Parameter) -> Any:
            seen.append(name)
            return node

    Names().visit("net", Tree())

    assert seen == [f"net.{name}" for name, _ in Tree().named_parameters()]


def test_mutator_replaces_nested_members() -> None:
    class Smaller(nn.Mutator):
        def visit_module(self, name: str, node: nn.Module) -> Any:
            return nn.Identity() if isinstance(node, nn.Linear) else node

        def visit_param(self, name: str, node: nn.Parameter) -> Any:
            return nn.Parameter(node.shape, "int8")

    tree = Smaller().visit("", Tree())

    assert isinstance(tree.layers[0][0], nn.Identity)
    assert isinstance(tree.named["one"], nn.Identity)
    assert [p.dtype for p in tree.parameters()] == ["int8"] * 4


def test_a_mutator_replaces_effects() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.effect: nn.Effect = nn.IOEffect()

    class Swap(nn.Mutator):
        def visit_effect(self, name: str, node: nn.Effect) -> Any:
            assert name == "effect"
            return nn.KVCache(1, [1])

    assert isinstance(Swap().visit("", Model()).effect, nn.KVCache)

"""Layout conversion of convolutions and their consumers, on scripts."""

from typing import Any

import numpy as np
import pytest

from relax_mlir.compiler import driver
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, Var
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.transform import ConvertLayout
from tests.tvm.relax.transform.graphs import op, program, tensor

_NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}


def _after_conv(*then: tuple[str, dict[str, object]]) -> IRModule:
    """A convolution, and operators one after the other."""
    x, w = Var("x", tensor(2, 3, 7, 5)), Var("w", tensor(4, 3, 3, 3))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            value: Expr = builder.emit(relax.op.nn.conv2d(x, w))
            for name, attrs in then[:-1]:
                value = builder.emit(op(name, value, **attrs))
            name, attrs = then[-1]
            value = builder.emit_output(op(name, value, **attrs))
        builder.emit_func_output(value)
    return builder.get()


def _calls(module: IRModule) -> list[Any]:  # Any: of as many attributes
    bindings = [b for block in module["main"].body.blocks for b in block.bindings]
    return [b.value for b in bindings if isinstance(b.value, Call)]


def _names(module: IRModule) -> list[str]:
    return [call.op.name.removeprefix("relax.") for call in _calls(module)]


def _check_same_numbers(module: IRModule, changed: IRModule) -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 3, 7, 5), (4, 3, 3, 3))
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    expected, actual = driver.run(module, *arrays), driver.run(changed, *arrays)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)  # other order of sums


def test_transposes_surround_the_convolution_and_its_consumers() -> None:
    module = _after_conv(("nn.relu", {}), ("tanh", {}))

    changed = ConvertLayout(_NHWC)(module)

    assert _names(changed) == [
        *("permute_dims", "permute_dims", "nn.conv2d", "nn.relu", "tanh"),
        "permute_dims",
    ]
    conv = _calls(changed)[2]
    layouts = [conv.attrs[f"{n}_layout"] for n in ("data", "kernel", "out")]
    assert layouts == ["NHWC", "OHWI", "NHWC"]


_AXES = [
    ("nn.softmax", {"axis": 1}, {"axis": 3}),
    ("flip", {"axis": -1}, {"axis": 2}),
    ("repeat", {"repeats": 2, "axis": 2}, {"axis": 1}),
    ("sum", {"axis": [1], "keepdims": True}, {"axis": (3,)}),
    ("mean", {"axis": [2, 3], "keepdims": False}, {"axis": (1, 2)}),
    ("max", {"axis": None, "keepdims": True}, {"axis": (0, 1, 2, 3)}),
    ("permute_dims", {"axes": [3, 2, 1, 0]}, {"axes": (2, 1, 3, 0)}),
    ("expand_dims", {"axis": [1]}, {"axis": (1,)}),
]


@pytest.mark.parametrize(("name", "attrs", "changed_attrs"), _AXES)
def test_axes_follow_the_layout(
    name: str, attrs: dict[str, object], changed_attrs: dict[str, object]
) -> None:
    module = _after_conv((name, attrs), ("nn.relu", {}))

    changed = ConvertLayout(_NHWC)(module)

    assert _names(changed)[:4] == ["permute_dims", "permute_dims", "nn.conv2d", name]
    made = _calls(changed)[3]
    for attribute, value in changed_attrs.items():
        found = made.attrs[attribute]
        assert (tuple(found) if isinstance(found, (list, tuple)) else found) == value
    result = changed["main"].ret_struct_info
    assert result == module["main"].ret_struct_info


@pytest.mark.slow  # two compilations
def test_another_layout_computes_the_same() -> None:
    module = _after_conv(("nn.softmax", {"axis": 1}), ("flip", {"axis": 2}))
    _check_same_numbers(module, ConvertLayout(_NHWC)(module))


def test_pools_take_the_layout() -> None:
    x, w = Var("x", tensor(2, 3, 7, 5)), Var("w", tensor(4, 3, 3, 3))
    pooled = relax.op.nn.max_pool2d(relax.op.nn.conv2d(x, w), (2, 2))

    changed = ConvertLayout(_NHWC)(program([x, w], pooled))

    pool = next(c for c in _calls(changed) if c.op.name == "relax.nn.max_pool2d")
    assert (pool.attrs["layout"], pool.attrs["out_layout"]) == ("NHWC", "NHWC")


@pytest.mark.parametrize(
    ("shape", "transposed"), [((2, 4, 5, 3), True), ((), False), ((4, 1, 1), None)]
)
def test_the_other_operand_is_transposed(
    shape: tuple[int, ...], transposed: bool | None
) -> None:
    x, w, b = (
        Var("x", tensor(2, 3, 7, 5)),
        Var("w", tensor(4, 3, 3, 3)),
        Var("b", tensor(*shape)),
    )
    summed = op("add", relax.op.nn.conv2d(x, w), b)

    names = _names(ConvertLayout(_NHWC)(program([x, w, b], summed)))

    before = names[names.index("nn.conv2d") + 1 : names.index("add")]
    # A first operand of lower rank: the result goes back to the old layout.
    assert before == ["permute_dims"] * (transposed is not False)
    assert names[-1] == ("add" if transposed is None else "permute_dims")


def test_operators_without_a_rule_get_the_old_layout() -> None:
    module = _after_conv(("nn.relu", {}), ("cumsum", {"axis": 1}))

    names = _names(ConvertLayout(_NHWC)(module))

    assert names[-2:] == ["permute_dims", "cumsum"]


def test_a_callback_can_choose_layouts() -> None:
    module = _after_conv(("nn.relu", {}))
    asked: list[str] = []

    def layouts(call: Call) -> dict[str, list[str]]:
        asked.append(str(getattr(call.op, "name", None)))
        return _NHWC

    changed = ConvertLayout({}, layout_cb=layouts)(module)

    assert asked == ["relax.nn.conv2d", "relax.nn.relu"]
    assert _names(changed).count("permute_dims") == 3


def test_blocked_layouts_are_refused() -> None:
    x, w = Var("x", tensor(1, 4, 5, 5)), Var("w", tensor(4, 4, 3, 3))
    module = program([x, w], relax.op.nn.conv2d(x, w))
    packed = {"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]}

    with pytest.raises(PassError, match="expected layouts that reorder axes"):
        ConvertLayout(packed)(module)
    assert _names(ConvertLayout(packed)(_after_conv(("nn.relu", {})))) == [
        "nn.conv2d",
        "nn.relu",
    ]

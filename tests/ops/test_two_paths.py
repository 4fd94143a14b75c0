"""Agreement of the two legalizations of every operator: its ``legalize`` and TOPI.

A module is compiled directly and after ``LegalizeOps``; both agree with ``reference``. CI
runs one test case of each operator, and all cases with out-of-range indices, which must
not be accessed; ``make two-paths`` runs every case.
"""

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import compile
from relax_mlir.dialects.op_interface import Case, IndexCase
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.objects.expr import Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.runtime.elements import element_type
from relax_mlir.testing import case_module, flat_inputs
from relax_mlir.tvm.relax.op import operator_function
from relax_mlir.tvm.relax.transform import LegalizeOps
from relax_mlir.tvm.relax.transform.legalize_ops import LEGALIZE_RULES
from tests.ops.cases import assert_same_results, every_op
from tests.tvm.relax.transform.graphs import program


@every_op
def test_both_paths_match_reference(
    op: type[RelaxOperation], every_case: bool, subtests: pytest.Subtests
) -> None:
    """The module, compiled directly and after ``LegalizeOps``, agrees with ``reference``."""
    for number, case in enumerate(op.cases):
        if every_case or not number or isinstance(case, IndexCase):
            with subtests.test(case=str(case)):
                _check_both_paths(op, case)


def _check_both_paths(op: type[RelaxOperation], case: Case) -> None:
    module = case_module(op, case)
    inputs = flat_inputs(case.random_inputs(seed=0))
    expected = reference.run(module, *inputs)
    paths = {"LegalizeOps": LegalizeOps()(module)}
    if hasattr(op, "legalize"):
        paths["direct"] = module

    for name, path in paths.items():
        actual = compile(path)(*inputs)

        assert_same_results(actual, expected, op.tolerance, where=name)


@pytest.mark.parametrize(
    ("name", "types", "attrs"),
    [
        ("quantize", ["float16", "float16", "float16"], {"out_dtype": "int8"}),
        ("quantize", ["float16", "float16", "int32"], {"out_dtype": "int16"}),
        ("quantize", ["float16", "float32", "uint8"], {"out_dtype": "uint8"}),
        ("quantize", ["float32", "float16", "float16"], {"out_dtype": "uint16"}),
        ("dequantize", ["int16", "float16", "float16"], {"out_dtype": "float16"}),
        ("dequantize", ["float16", "float16", "int8"], {"out_dtype": "float16"}),
        ("floor_divide", ["float16", "float16"], {}),
        ("floor_divide", ["bfloat16", "bfloat16"], {}),
    ],
)
def test_steps_of_16_bit_floats_are_at_the_same_places(
    name: str, types: list[str], attrs: dict[str, str]
) -> None:
    """A quotient that is rounded in between may be another integer: no tolerance hides it."""
    sizes = [4000, *(4000 if name == "floor_divide" else 1 for _ in types[1:])]
    x, *rest = (
        Var(f"x{i}", TensorStructInfo([size], dtype))
        for i, (size, dtype) in enumerate(zip(sizes, types, strict=True))
    )
    module = program([x, *rest], operator_function(f"relax.{name}")(x, *rest, **attrs))
    rng = np.random.default_rng(0)
    drawn = [rng.uniform(0.1, 60, size) for size in sizes]
    drawn[0][:2] = 0, 6e4
    inputs = [a.astype(element_type(t)) for a, t in zip(drawn, types, strict=True)]
    (expected,) = reference.run(module, *inputs)

    for path in (module, LegalizeOps()(module)):
        (actual,) = compile(path)(*inputs)

        np.testing.assert_array_equal(actual, expected)


def _legalized(module: IRModule) -> list[str]:
    return [f.name.value for f in LegalizeOps()(module).func_ops()]


def test_operators_legalized_without_topi() -> None:
    """Operators for which TOPI differs are legalized by their own ``legalize``."""
    ours = {f"relax.{op.script_name()}" for op in relax_ops() if op.cases}
    x, y = (Var(name, TensorStructInfo((3, 4), "float32")) for name in "xy")

    added = program([x, y], operator_function("relax.floor_divide")(x, y))
    rest = program([x, y], operator_function("relax.floor_mod")(x, y))

    assert len(ours & LEGALIZE_RULES.keys()) > 100
    assert "T_floor_divide" in LegalizeOps()(added).script()
    assert "T_floor_mod" not in LegalizeOps()(rest).script()
    assert _legalized(rest) == ["main", "floor_mod"]

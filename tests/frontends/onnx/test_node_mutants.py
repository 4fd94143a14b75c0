"""Mutants of ONNX's node tests; ``make node-mutants`` takes some thousand."""

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.frontends.onnx.node_cases import NodeCase
from tests.frontends.onnx.node_mutants import Outcome, of_defined, reason, run
from tests.frontends.onnx.node_mutations import DOMAINS, LAYOUTS, mutant
from tests.frontends.onnx.single_node import node_model


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_mutants_agree_or_have_a_listed_reason(domain: str) -> None:
    # In a process of their own: onnxruntime may end it.
    outcomes = run(range(15), domain=domain)

    bad = [o for o in outcomes if not o.is_good and reason(o) is None]

    assert not bad, "\n".join(map(str, bad))
    assert sum(o.kind == "agrees" for o in outcomes) > 5


def test_reasons_match_their_operators() -> None:
    flag = "x: keepdims=2: ModelError: attribute `keepdims`: expected 0 or 1, got 2."

    assert reason(Outcome(0, "ReduceMax", "strict", flag)) is not None
    assert reason(Outcome(0, "ReduceMax", "wrong", flag)) is None
    assert reason(Outcome(0, "Add", "accident", "KeyError: 'x'")) is None


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, ml_dtypes.int4])
def test_integers_cast_from_floats_are_compared(dtype: type) -> None:
    x = np.array([0.5, 7.5, -0.5, np.nan, np.inf, -1e30, 2.0**63], np.float32)
    model, feeds = node_model(
        "Cast", [x], to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
    results = [np.array([1, 2, 3, 4, 5, 6, 7]).astype(dtype)]

    (compared,) = of_defined(NodeCase("cast", model, feeds), results)

    assert compared.dtype == dtype
    assert compared.tolist() == [1, 2, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_keep_shapes_and_elements(layout: str) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    given = LAYOUTS[layout](array)

    np.testing.assert_array_equal(given, array)
    flags = given.flags
    assert not (flags.c_contiguous and flags.aligned and flags.writeable)


@pytest.mark.slow  # the node tests are made: five seconds
@pytest.mark.parametrize("domain", DOMAINS)
def test_seeds_reproduce_mutants_of_every_kind(domain: str) -> None:
    made = [mutant(seed, domain) for seed in range(300)]
    again = [mutant(seed, domain) for seed in range(300)]

    assert [m.mutations for m in made] == [m.mutations for m in again]
    said = "\n".join(text for m in made for text in m.mutations)
    kinds = ["constant", "without", "open", "folded", "strides", "=", " as "]
    for kind in kinds if domain == "flow" else [*kinds, "given"]:
        assert kind in said
    few = len(DOMAINS[domain]()) / 2
    assert len({m.model.SerializeToString() for m in made}) > 200
    assert len({m.name for m in made}) > min(few, 200)

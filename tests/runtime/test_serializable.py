"""Compiled models of all kinds: files, bytes, pickles and copies; and how they are called."""

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.errors import ModelError, SignatureError
from relax_mlir.runtime.serializable import Serializable

_ADD = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n, 4] x, float[n, 4] out, int64[2] k) => (float[n, 4] y, int64[2] z)
    { y = Add (x, out) z = Identity (k) }"""
# Its output has a size that only the values tell.
_STAGED = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n] x) => (float[m] y)
    { z = NonZero (x) s = Squeeze (z) a = Gather (x, s) y = Relu (a) }"""
X = np.arange(8, dtype=np.float32).reshape(2, 4)
K = np.array([3, 4])


def compiled(text: str = _ADD) -> Any:
    return relax_mlir.compile(onnx.parser.parse_model(text), cache=False)


def kernels() -> Any:
    from relax_mlir import tvm
    from relax_mlir.tvm.script import from_source

    return tvm.build(
        from_source(
            "@T.prim_func\n"
            'def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):\n'
            "    for i in T.grid(8):\n"
            '        with T.block("y"):\n'
            '            vi = T.axis.remap("S", [i])\n'
            "            y[vi] = x[vi] + x[vi]\n"
        )
    )


def functions() -> Any:
    from relax_mlir.tvm.relax import build
    from relax_mlir.tvm.script import from_source

    return build(
        from_source(
            "@R.function\n"
            'def main(x: R.Tensor(("n",), "float32")):\n'
            "    y = R.add(x, x)\n"
            '    found = R.call_pure_packed("relax_mlir.nonzero", y, sinfo_args=R.Object)\n'
            "    return (y, found)\n"
        )
    )


def _run_kernel(made: Any) -> np.ndarray:
    made(X.reshape(-1), y := np.empty(8, np.float32))
    return y


KINDS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], np.ndarray]]] = {
    "model": (compiled, lambda made: made(X, X, K)[0]),
    "model in stages": (
        lambda: compiled(_STAGED),
        lambda made: made(np.array([0, -1, 2], np.float32))[0],
    ),
    "kernels": (kernels, _run_kernel),
    "functions": (functions, lambda made: made["main"](X[0])[0].numpy()),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(
    request: pytest.FixtureRequest,
) -> tuple[Any, np.ndarray, Callable[[Any], Any]]:
    make, run = KINDS[request.param]
    made = make()
    return made, run(made), run


def test_pickles_and_copies_compute_the_same(kind: Any) -> None:
    made, expected, run = kind
    assert isinstance(made, Serializable)

    for other in (
        pickle.loads(pickle.dumps(made)),
        copy.copy(made),
        copy.deepcopy(made),
        relax_mlir.load(made.to_bytes()),
    ):
        assert type(other) is type(made)
        assert other is not made
        np.testing.assert_array_equal(run(other), expected)


def test_open_files_have_what_is_saved(kind: Any, tmp_path: Path) -> None:
    made, expected, run = kind
    made.save(tmp_path / "m.rxm")
    made.export_library(tmp_path / "again.rxm")

    with (tmp_path / "open.rxm").open("wb") as file:
        made.save(file)

    whole = (tmp_path / "m.rxm").read_bytes()
    assert whole == (tmp_path / "open.rxm").read_bytes() == made.to_bytes()
    assert whole == (tmp_path / "again.rxm").read_bytes()
    with (tmp_path / "m.rxm").open("rb") as file:
        np.testing.assert_array_equal(run(relax_mlir.load(file)), expected)


def _first_output(made: Any) -> np.ndarray:
    return made(X, X, K)[0]


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_pool_gets_a_model(method: str) -> None:
    made = compiled()
    expected = made(X, X, K)[0]

    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(_first_output, [made] * 3)

    for array in found:
        np.testing.assert_array_equal(array, expected)


def test_a_pickle_is_subject_to_the_trust_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = pickle.dumps(compiled())
    monkeypatch.setenv("RELAX_MLIR_TRUST", "signed")

    with pytest.raises(SignatureError, match="expected a public key"):
        pickle.loads(data)


@pytest.mark.parametrize("data", [b"", b"junk", b"PK\x03\x04" + bytes(40)])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match="model: not a compiled model, or damaged"):
        relax_mlir.load(data)
    with pytest.raises(ModelError, match="not a compiled model, or damaged"):
        relax_mlir.load(io.BytesIO(data))


def test_what_is_compiled_already_is_loaded_not_compiled(tmp_path: Path) -> None:
    compiled().save(tmp_path / "m.rxm")

    with pytest.raises(ModelError, match=r"Hint: `relax_mlir.load` loads a compiled"):
        relax_mlir.compile(tmp_path / "m.rxm")


# calls


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((X, X, K), {}),
        (({"x": X, "out": X, "k": K},), {}),
        (({"k": [3, 4], "x": X.tolist()},), {"out": X}),
        ((X,), {"out": X, "k": (3, 4)}),
        ((), {"x": X, "out": X.tolist(), "k": [3, 4]}),
        ((X.tolist(), X.tolist(), [3, 4]), {}),
    ],
)
def test_inputs_by_position_by_name_and_in_a_dictionary(
    args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    y, z = compiled()(*args, **named)

    np.testing.assert_array_equal(y, X + X)
    np.testing.assert_array_equal(z, K)


def test_outputs_go_to_given_arrays_where_no_input_has_that_name() -> None:
    made = compiled(_ADD.replace("out", "w"))
    y, z = np.empty_like(X), np.empty_like(K)

    made({"x": X, "w": X, "k": K}, out=[y, z])

    np.testing.assert_array_equal(y, X + X)
    np.testing.assert_array_equal(z, K)


@pytest.mark.parametrize(
    ("args", "named", "kind", "message"),
    [
        (({"x": X},), {"x": X}, TypeError, "got the input `x` twice"),
        (({"x": X},), {}, TypeError, "`out`, `k` missing"),
        ((X, X, [1.5, 2]), {}, TypeError, "`k`: expected element type int64"),
        ((X, X, [2**63, 2]), {}, (TypeError, ValueError), "`k`|numbers"),
        ((X, X, ["a", "b"]), {}, ValueError, "expected an array of numbers"),
        ((X, X, [1, 2], [3]), {}, TypeError, "expected 3 arguments"),
        (([[1, 2], [3]], X, K), {}, ValueError, "inhomogeneous"),
    ],
)
def test_wrong_inputs_are_refused(
    args: tuple[Any, ...],
    named: dict[str, Any],
    kind: type[Exception] | tuple[type[Exception], ...],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        compiled()(*args, **named)


def test_the_signature_has_integers_and_names_of_sizes() -> None:
    x, _, k = compiled().signature.inputs

    assert (x.shape, k.shape) == (("n", 4), (2,))
    assert (x.dims, k.dims) == (("n", "4"), ("2",))

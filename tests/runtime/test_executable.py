"""Input and output arrays of compiled models: layouts, types and aliasing."""

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import relax_mlir

_NEGATE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x) => (float[4] y) { y = Neg (x) }
"""
_NOT = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool[40] x) => (bool[40] y, float[40] z) { y = Not (x) z = Cast <to = 1> (x) }
"""


@pytest.fixture(scope="module")
def negate() -> relax_mlir.CompiledModel:
    return relax_mlir.compile(relax_mlir.import_onnx(parser.parse_model(_NEGATE)))


X = np.arange(4, dtype=np.float32)


def test_inputs_of_any_strides_are_read(negate: relax_mlir.Executable) -> None:
    record = np.zeros(4, [("pad", "i1"), ("a", "f4")])  # 5 bytes apart
    record["a"] = X
    grid = np.stack([X, X + 10], axis=1)
    for x in (record["a"], grid[:, 0], X[::-1][::-1], np.broadcast_to(X, (2, 4))[1]):
        assert negate(x)[0].tolist() == [0, -1, -2, -3]


def test_a_read_only_input_is_read(
    negate: relax_mlir.Executable, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert negate(x)[0].tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("writeable", [True, False])
def test_foreign_byte_order_is_refused(
    negate: relax_mlir.Executable, writeable: bool
) -> None:
    x = X.astype(">f4")
    x.flags.writeable = writeable
    with pytest.raises(TypeError, match=r"native byte order, got `>f4`\. Hint: "):
        negate(x)


def test_outputs_are_written_in_place(negate: relax_mlir.Executable) -> None:
    whole = np.full((4, 2), 7, np.float32)
    out = whole[:, 1]
    (y,) = negate(X, out=[out])
    assert y is out
    assert whole.tolist() == [[7, 0], [7, -1], [7, -2], [7, -3]]


def test_outputs_that_cannot_be_written_are_refused(
    negate: relax_mlir.Executable, tmp_path: Path
) -> None:
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    np.save(tmp_path / "y.npy", locked)
    for out in (locked, np.load(tmp_path / "y.npy", mmap_mode="r")):
        with pytest.raises(ValueError, match=r"output 0 `y`: .* got a read-only one"):
            negate(X, out=[out])
    assert not locked.any()
    odd = np.zeros(4, [("pad", "i1"), ("a", "f4")])["a"]
    with pytest.raises(ValueError, match="output 0 `y`: expected strides that are"):
        negate(X, out=[odd])


def test_outputs_must_be_as_many_arrays(negate: relax_mlir.Executable) -> None:
    with pytest.raises(TypeError, match="expected 1 arrays in `out`, got 0"):
        negate(X, out=[])
    with pytest.raises(TypeError, match="output 0 `y`: expected an array, got list"):
        negate(X, out=[[0.0] * 4])


def test_every_byte_but_0_is_true() -> None:
    exe = relax_mlir.compile(relax_mlir.import_onnx(parser.parse_model(_NOT)))
    x = np.resize(np.array([0, 1, 2, 255], np.uint8), 40).view(bool)
    y, z = exe(x)
    np.testing.assert_array_equal(y, ~x.astype(np.uint8).astype(bool))
    np.testing.assert_array_equal(z, np.resize([0, 1, 1, 1], 40).astype(np.float32))


def test_sizes_whose_products_overflow_are_refused() -> None:
    """An empty array may have any other size, so that 132 * n bytes wrap around."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 0] x) => (float[16] o)
        <int64[1] rows = {1}, int64[1] columns = {0}, float[1, 16] c = {
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}>
        { r = ReduceSum (x, rows) s = Add (r, c) q = Softmax <axis = 0> (s)
          o = ReduceSum <keepdims = 0> (q, columns) }"""
    )
    module = relax_mlir.import_onnx(model, shapes={"x": ["n", 0]})
    exe = relax_mlir.compile(module)
    assert exe(np.zeros((2, 0), np.float32))[0].tolist() == [1] * 16
    n = -(-(2**64) // 132)
    with pytest.raises(ValueError, match="the sizes are too large"):
        exe(np.empty((n - n % 16 + 16, 0), np.float32))

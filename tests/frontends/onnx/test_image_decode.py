"""ImageDecoder."""

import io

import numpy as np
import pytest
from PIL import Image

from relax_mlir import compile
from relax_mlir.errors import RunError
from tests.frontends.onnx.differential import parse

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10


def decode(data: bytes, form: str) -> np.ndarray:
    text = f"""g (uint8[n] x) => (uint8[h, w, c] y) {{
        y = ImageDecoder <pixel_format = "{form}"> (x) }}"""
    (y,) = compile(parse(text, opset=20))(np.frombuffer(data, np.uint8))
    return y


@pytest.fixture
def data() -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "expected"), [("RGB", PIXELS), ("BGR", PIXELS[..., ::-1])]
)
def test_pixels(data: bytes, form: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(decode(data, form), expected)


def test_encoded_images_are_byte_vectors(data: bytes) -> None:
    text = "g (uint8[n, m] x) => (uint8[h, w, c] y) { y = ImageDecoder (x) }"
    compiled = compile(parse(text, opset=20))

    with pytest.raises(RunError, match="expected bytes of rank 1, got rank 2"):
        compiled(np.frombuffer(data, np.uint8)[None])


def test_grayscale(data: bytes) -> None:
    y = decode(data, "Grayscale")

    assert y.shape == (2, 4, 1)
    weighted = PIXELS @ [0.299, 0.587, 0.114]  # ITU-R 601
    np.testing.assert_allclose(y[..., 0], weighted, atol=1)


@pytest.mark.parametrize("damage", [slice(0), slice(20), slice(3, None)])
def test_undecodable_image_is_empty(data: bytes, damage: slice) -> None:
    assert decode(data[damage], "RGB").shape == (0, 0, 3)

"""Constants that are computed from others when a model is loaded."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relax_mlir
from models.graph import Graph
from relax_mlir.errors import ModelError
from relax_mlir.runtime.container import manifest_digest
from relax_mlir.runtime.derived_constants import (
    Derivation,
    PaddedCopy,
    Transform,
    derivation_of_fields,
    derive,
    with_derived,
)
from relax_mlir.runtime.executable import Executable

ELEMENTS = ("uint8", "float16", "int32", "float64")


@st.composite
def copies(draw: st.DrawFn) -> tuple[PaddedCopy, np.ndarray]:
    """A copy of an array in another order, with split and padded axes."""
    rank = draw(st.integers(0, 4))
    shape = draw(st.lists(st.integers(0, 40), min_size=rank, max_size=rank))
    size = int(np.prod(shape))
    source = (np.arange(size) % 250 + 1).astype(draw(st.sampled_from(ELEMENTS)))
    source = source.reshape(shape)
    order = draw(st.permutations(range(rank)))
    strides = [stride // source.itemsize for stride in source.strides]
    axes = tuple((shape[axis], strides[axis]) for axis in order)
    dims: list[tuple[int, int, int]] = []
    for axis, (extent, _) in enumerate(axes):
        width = draw(st.integers(1, 20))
        blocks = -(-extent // width) + draw(st.integers(0, 1))
        dims += draw(
            st.sampled_from(
                [
                    [(extent, axis, 1)],
                    [(extent + 3, axis, 1)],
                    [(blocks, axis, width), (width, axis, 1)],
                ]
            )
        )
    return PaddedCopy("w", axes, tuple(draw(st.permutations(dims)))), source


def expected_copy(copy: PaddedCopy, source: np.ndarray) -> np.ndarray:
    """By its definition, one element at a time."""
    result = np.zeros(copy.shape, source.dtype)
    flat = source.reshape(-1)
    for index in np.ndindex(*copy.shape):
        at = [0] * len(copy.axes)
        for i, (_, axis, factor) in zip(index, copy.dims, strict=True):
            at[axis] += factor * i
        if all(a < extent for a, (extent, _) in zip(at, copy.axes, strict=True)):
            offset = sum(a * s for a, (_, s) in zip(at, copy.axes, strict=True))
            result[index] = flat[offset]
    return result


def small(case: tuple[PaddedCopy, np.ndarray]) -> bool:
    limit = min(20_000, 8 * max(case[1].size, 8))
    return math.prod(case[0].shape) <= limit


@given(copies().filter(small))
@settings(max_examples=100, deadline=None)
def test_copies_are_as_defined(case: tuple[PaddedCopy, np.ndarray]) -> None:
    copy, source = case
    assert derivation_of_fields(json.loads(json.dumps(asdict(copy)))) == copy
    np.testing.assert_array_equal(derive(copy, source), expected_copy(copy, source))


@given(
    st.integers(1, 8), st.integers(1, 8), st.sampled_from([(), (1,), (7, 30), (2, 64)])
)
@settings(max_examples=40, deadline=None)
def test_transforms_are_exact_up_to_one_rounding(
    rows: int, columns: int, rest: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(rows * 100 + columns * 10 + len(rest))
    matrix = rng.standard_normal((rows, columns))
    source = rng.standard_normal((columns, columns, *rest)).astype(np.float32)
    transform = Transform("w", tuple(map(tuple, matrix.tolist())), rest)
    assert derivation_of_fields(json.loads(json.dumps(asdict(transform)))) == transform
    expected = np.einsum(
        "ai,ij...,bj->ab...", matrix, source.astype(np.float64), matrix
    )
    got = derive(transform, source)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-12)


SOURCE = np.arange(12, dtype=np.float32).reshape(3, 4)
COPY = PaddedCopy("w", ((3, 4), (4, 1)), ((4, 1, 1), (3, 0, 1)))
TRANSFORM = Transform("w", ((1.0, 2.0),), ())


@pytest.mark.parametrize(
    "wrong",
    [
        replace(COPY, axes=((4, 4), (4, 1))),  # reads after the end
        replace(COPY, axes=((3, 4), (4, -1))),
        replace(COPY, axes=((3, 4), (-4, 1))),
        replace(COPY, axes=((3, 1 << 62), (4, 1))),
        replace(COPY, axes=((0, 4), (1 << 70, 1))),
        replace(COPY, dims=((4, 2, 1),)),
        replace(COPY, dims=((4, -1, 1),)),
        replace(COPY, dims=((4, 1, -1),)),
        replace(COPY, dims=((4, 1, 1 << 62),)),
        replace(COPY, dims=((-4, 1, 1),)),
        replace(COPY, dims=((1 << 40, 1, 0),)),  # endless memory
        replace(COPY, dims=((1 << 24, 1, 1 << 40),)),
        replace(COPY, dims=((1, 0, 1),) * 13),
        TRANSFORM,
        replace(TRANSFORM, matrix=()),
        replace(TRANSFORM, matrix=((),)),
        replace(TRANSFORM, matrix=((1.0,), (1.0, 2.0))),
        replace(TRANSFORM, matrix=((1.0,) * 3,) * 9, rest=(4,)),
        replace(TRANSFORM, matrix=((1.0,) * 3,), rest=(4,)),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Derivation) -> None:
    with pytest.raises(ValueError, match=r"copy|matrix|transform|times its source"):
        derive(wrong, SOURCE)


def test_sources_are_needed_first() -> None:
    again = replace(COPY, source="x")
    complete = with_derived({"w": SOURCE}, {"x": COPY, "y": again})
    np.testing.assert_array_equal(complete["x"], SOURCE.T)
    with pytest.raises(ValueError, match="`y`: no source `x`"):
        with_derived({"w": SOURCE}, {"y": again, "x": COPY})


def convolution(folder: Path) -> Path:
    """A model whose convolutions are by Winograd."""
    g = Graph("convolution")
    rng = np.random.default_rng(0)
    x = g.input("x", (1, 64, 56, 56))
    y = x
    for name in ("first", "second"):
        w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
        y = g.node("Conv", y, g.weight(name, w), pads=[1, 1, 1, 1])
    g.output("y", y, (1, 64, 56, 56))
    path = folder / "convolution.onnx"
    path.write_bytes(g.model().SerializeToString())
    return path


def test_a_file_holds_transformed_kernels_once(tmp_path: Path) -> None:
    model = relax_mlir.compile(convolution(tmp_path), cache=False)
    assert isinstance(model, Executable)
    shapes = [a.shape[:2] for a in model.constants.values()]
    assert shapes.count((6, 6)) == 1
    path = tmp_path / "convolution.rxm"
    model.save(path)
    assert path.stat().st_size < 2 * 64 * 64 * 9 * 4 + 100_000
    loaded = relax_mlir.load(path)
    assert isinstance(loaded, Executable)
    for key, array in model.constants.items():
        np.testing.assert_array_equal(loaded.constants[key], array)
    assert loaded.to_bytes() == path.read_bytes()


def test_a_wrong_derivation_in_a_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "convolution.rxm"
    relax_mlir.compile(convolution(tmp_path), cache=False).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for change in (
        lambda fields: fields.update(rest=[1, 64, 32]),
        lambda fields: fields.update(source="other"),
        lambda fields: fields.update(matrix=[["x"]]),
        lambda fields: fields.pop("source"),
        lambda fields: fields.pop("matrix"),
    ):
        manifest = json.loads(members["manifest.json"])
        (fields,) = manifest["derived"].values()
        change(fields)
        del manifest["digest"]
        code = [members[name] for name in manifest["code"]]
        manifest["digest"] = manifest_digest(manifest, code)
        changed = members | {"manifest.json": json.dumps(manifest).encode()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in changed.items():
                archive.writestr(name, data)
        with pytest.raises(ModelError, match=r"convolution\.rxm"):
            relax_mlir.load(path)

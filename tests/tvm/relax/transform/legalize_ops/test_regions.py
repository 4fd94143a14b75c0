"""Regions of interest, volumes and layouts, legalized by ``topi`` and schedules."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.compiler import reference
from relax_mlir.errors import RelaxError
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Var
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.op import operator_function
from relax_mlir.tvm.tir import IndexMap
from tests.tvm.relax.transform.graphs import program, tensor

_PICTURE = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)


def _run(value: Call, params: list[Var], *arrays: np.ndarray) -> np.ndarray:
    legal = transform.LegalizeOps()(program(params, value))
    (found,) = relax_mlir.compile(legal)(*arrays)
    return found


def _region(name: str, box: list[float], **attrs: object) -> np.ndarray:
    data, rois = Var("data", tensor(1, 1, 6, 6)), Var("rois", tensor(1, 5))
    call = operator_function(f"relax.vision.{name}")(data, rois, (2, 2), 1.0, **attrs)
    return _run(call, [data, rois], _PICTURE, np.array([[0, *box]], np.float32))[0, 0]


@pytest.mark.slow
def test_roi_pooling_takes_the_maximum_of_every_bin() -> None:
    assert _region("roi_pool", [1, 2, 4, 5]).tolist() == [[20, 22], [32, 34]]


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align_interpolates_between_pixels(ratio: int) -> None:
    # Pixels increase by 1 along x and by 6 along y, so that a mean is the value at the center.
    found = _region("roi_align", [1, 1, 3, 5], sample_ratio=ratio)

    assert found.tolist() == [[13.5, 14.5], [25.5, 26.5]]


@pytest.mark.slow
def test_the_largest_sample_of_a_bin_lies_between_pixels() -> None:
    # The last of four points is a quarter, or half a pixel, before the end of a bin.
    found = _region("roi_align", [1, 1, 3, 5], sample_ratio=2, mode="max")

    assert found.tolist() == [[16.75, 17.75], [28.75, 29.75]]


@pytest.mark.slow
def test_a_point_beyond_the_border_counts_as_zero() -> None:
    found = _region("roi_align", [-8, -8, -4, -4], sample_ratio=1, mode="max")

    assert found.tolist() == [[0, 0], [0, 0]]


def _chosen(*operands: Var) -> Call:
    return relax.op.vision.non_max_suppression(
        *operands,
        iou_threshold=0.25,
        top_k=2,
        coord_start=0,
        score_index=4,
        id_index=-1,
    )


@pytest.mark.slow
def test_boxes_are_selected_by_a_program() -> None:
    n = prim.Var("n", "int64")
    operands = [
        Var("data", tensor(2, n, 5)),
        Var("valid", tensor(2, dtype="int32")),
        Var("names", tensor(2, n, dtype="int32")),
    ]
    module = program(operands, _chosen(*operands))

    legal = transform.LegalizeOps()(module)

    assert "R.vision" not in legal.script()
    assert "T.min(valid_count[v], 2)" in legal.script()
    before, after = module["main"], legal["main"]
    assert str(before.ret_struct_info) == str(after.ret_struct_info)


@pytest.mark.slow
def test_only_valid_rows_are_returned_for_all_classes() -> None:
    boxes, scores = Var("boxes", tensor(1, 3, 4)), Var("scores", tensor(1, 2, 3))
    limits = [relax.const(2, "int64"), *map(relax.const, (0.375, 0.125))]
    call = relax.op.vision.all_class_non_max_suppression(
        boxes, scores, *limits, output_format="onnx"
    )
    legal = transform.LegalizeOps()(program([boxes, scores], call))

    rows, count = relax_mlir.compile(legal)(
        np.array([[[0, 0, 1, 1], [0, 0, 1, 2], [3, 3, 4, 4]]], np.float32),
        np.array([[[0.25, 0.5, 0], [0.125, 0.375, 0.75]]], np.float32),
    )

    assert np.asarray(rows).tolist() == [[0, 0, 1], [0, 1, 2], [0, 1, 1]]
    assert np.asarray(count).tolist() == [3]


@pytest.mark.slow
def test_a_volume_is_resized_along_three_axes() -> None:
    x = Var("x", tensor(1, 1, 2, 2, 2))
    small = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)
    call = relax.op.image.resize3d(
        x,
        4,
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )

    large = _run(call, [x], small)

    assert np.array_equal(large, small.repeat(2, 2).repeat(2, 3).repeat(2, 4))


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j: (j // 4, i, j % 4),
        IndexMap.from_func(lambda i, j: (j // 4, i, j % 4)),
        "(i, j) -> (j floordiv 4, i, j mod 4)",
    ],
)
def test_a_layout_is_a_function_an_index_map_or_text(index_map: object) -> None:
    x = Var("x", tensor(3, 8))
    array = np.arange(24, dtype=np.float32).reshape(3, 8)
    call = relax.op.layout_transform(x, index_map)

    found = _run(call, [x], array)

    assert np.array_equal(found, array.reshape(3, 2, 4).transpose(1, 0, 2))


@pytest.mark.slow
def test_unmapped_elements_have_the_padding_value() -> None:
    x = Var("x", tensor(5))
    call = relax.op.layout_transform(x, lambda i: (i // 3, i % 3), pad_value=9)
    legal = transform.LegalizeOps()(program([x], call))

    (found,) = relax_mlir.compile(legal)(np.arange(5, dtype=np.float32))

    assert found.tolist() == [[0, 1, 2], [3, 4, 9]]
    assert "te_layout_transform_with_pad" in legal.script()


def test_a_layout_of_symbolic_rows_needs_no_inverse() -> None:
    x = Var("x", relax.TensorStructInfo((2, prim.Var("n", "int64")), "float32"))
    call = relax.op.layout_transform(x, lambda i, j: i * 5 + j, pad_value=9)
    model = relax_mlir.compile(transform.LegalizeOps()(program([x], call)))

    (full,) = model(np.arange(10, dtype=np.float32).reshape(2, 5))
    (short,) = model(np.arange(6, dtype=np.float32).reshape(2, 3))

    assert full.tolist() == list(range(10))
    assert short.tolist() == [0, 1, 2, 9, 9, 3, 4, 5]


def test_a_map_that_is_not_affine_is_refused() -> None:
    with pytest.raises(ValueError, match=r"in the index map: expected indices"):
        relax.op.layout_transform(Var("x", tensor(3)), lambda i: prim.Min(i, 1))


def test_a_blocked_layout_has_shapes_and_no_program() -> None:
    x = Var("x", relax.TensorStructInfo((1, 2, 5, 5, 8), "float32"))
    call = relax.op.nn.max_pool2d(x, 3, layout="NCHW8c", out_layout="NHWC")

    assert str(relax.BlockBuilder().normalize(call).struct_info) == (
        'R.Tensor((1, 3, 3, 16), dtype="float32")'
    )
    with pytest.raises(RelaxError, match="blocked axes are not supported"):
        relax_mlir.compile(program([x], call))


@pytest.mark.slow
def test_rounding_is_to_even_in_programs() -> None:
    x = Var("x", tensor(1, 1, 1, 4))
    call = relax.op.image.resize2d(
        x,
        (1, 8),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
    )
    module = program([x], call)
    array = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)

    (meant,) = reference.run(module, array)
    found = _run(call, [x], array)

    assert np.array_equal(found, meant)
    assert found.ravel().tolist() == [0, 0, 1, 2, 2, 2, 3, 3]
    assert "T.round(" in transform.LegalizeOps()(module).script()

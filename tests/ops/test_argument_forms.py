"""Normalisation of attribute arguments, and result types of data-dependent shape."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from mlir.ir import RankedTensorType, TupleType

from relax_mlir.dialects import dtypes, relax, shapes, tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.ir.module import IRModule

F32, INT32, INT64 = (dtypes.dtype(name) for name in ("float32", "int32", "int64"))
n, m = shapes.symbol("n"), shapes.symbol("m")


@pytest.fixture(autouse=True)
def module() -> Iterator[IRModule]:
    module = IRModule.empty()
    with module.context, ir.Location.unknown():
        yield module


def tensor(*shape: Any, dtype: dtypes.DType = F32) -> RankedTensorType:
    return tensors.tensor_type(shape, dtype)


def built(module: IRModule, op: Any, operand: ir.Type, **attrs: Any) -> Any:
    """Builds the operation on a parameter of this type."""
    with ir.InsertionPoint(module.mlir.body):
        function = func.FuncOp("main", ir.FunctionType.get([operand], []))
    with ir.InsertionPoint(function.add_entry_block()):
        return op(*function.entry_block.arguments, **attrs)


def sizes(found: ir.Type) -> Any:
    """The shape of a tensor, or the shapes of a tuple's elements."""
    if isinstance(found, TupleType):
        return [sizes(found.get_type(i)) for i in range(found.num_types)]
    return tensors.shape_of(found)


CONV2D = {
    "strides": (2, 2),
    "padding": (1, 2, 1, 2),
    "dilation": (1, 1),
    "groups": 1,
    "data_layout": "NHWC",
    "kernel_layout": "OIHW",
    "out_layout": "NHWC",
    "out_dtype": dtypes.dtype("float16"),
}
POOL1D = {
    "pool_size": (3,),
    "strides": (1,),
    "padding": (1, 1),
    "dilation": (1,),
    "ceil_mode": False,
    "count_include_pad": True,
    "layout": "NCW",
    "out_layout": "NCW",
}


@pytest.mark.parametrize(
    ("op", "written", "stored"),
    [
        (
            relax.Conv2dOp,
            {
                "strides": 2,
                "padding": (1, 2),
                "data_layout": "NHWC",
                "out_dtype": "float16",
            },
            CONV2D,
        ),
        (relax.AvgPool1dOp, {"pool_size": 3, "padding": 1}, POOL1D),
        (relax.SqueezeOp, {"axis": -1}, {"axis": (-1,)}),
        (relax.SqueezeOp, {}, {"axis": None}),
        (relax.ExpandDimsOp, {"axis": [0, 2]}, {"axis": (0, 2)}),
        (relax.TileOp, {"repeats": 3}, {"repeats": (3,)}),
        (
            relax.ArangeOp,
            {"start": n},
            {"start": 0, "end": n, "step": 1, "dtype": INT64},
        ),
        (
            relax.ArangeOp,
            {"start": 1, "end": 2.5, "dtype": None},
            {"start": 1, "end": 2.5, "step": 1, "dtype": F32},
        ),
        (relax.EyeOp, {"n": 3}, {"n": 3, "m": 3, "dtype": F32}),
        (
            relax.SplitOp,
            {"indices_or_sections": [1, 3]},
            {"indices_or_sections": (1, 3)},
        ),
        (
            relax.Resize2dOp,
            {"size": 5, "roi": 0.5},
            {"size": (5, 5), "roi": (0.5,) * 4, "out_dtype": None},
        ),
        (
            relax.OnesOp,
            {"shape": (2,), "dtype": "int32"},
            {"shape": (2,), "dtype": INT32},
        ),
    ],
)
def test_normalized_arguments(
    op: type[RelaxOperation], written: dict[str, Any], stored: dict[str, Any]
) -> None:
    assert op.normalize_arguments(**written) == stored


def test_padding_of_three_spatial_axes() -> None:
    stored = relax.Conv3dOp.normalize_arguments(padding=(1, 2, 3))
    assert stored["padding"] == (1, 2, 3, 1, 2, 3)


def test_output_padding_of_transposed_convolution() -> None:
    stored = relax.Conv2dTransposeOp.normalize_arguments(output_padding=1)

    assert stored["output_padding"] == (1, 1)
    assert stored["kernel_layout"] == "IOHW"
    fields = list(relax.Conv2dTransposeOp.attribute_fields)
    assert fields[:4] == ["strides", "padding", "output_padding", "dilation"]


@pytest.mark.parametrize(
    ("op", "count_include_pad"),
    [
        (relax.AvgPool1dOp, True),
        (relax.AvgPool2dOp, False),
        (relax.AvgPool3dOp, True),
        (relax.MaxPool1dOp, False),
    ],
)
def test_default_of_count_include_pad(op: Any, count_include_pad: bool) -> None:
    assert op.attribute_defaults()["count_include_pad"] is count_include_pad


@pytest.mark.parametrize(
    ("op", "order"),
    [
        (relax.FullOp, ("shape", "fill_value")),
        (relax.StridedSliceOp, ("x", "axes", "begin", "end", "strides")),
        (relax.OneHotOp, ("indices", "on_value", "off_value")),
        (relax.ArangeOp, ("start", "end", "step")),
        (relax.Resize2dOp, ("data", "size")),
    ],
)
def test_argument_order(op: type[RelaxOperation], order: tuple[str, ...]) -> None:
    assert op.argument_order() == order


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (relax.PermuteDimsOp, "transpose"),
        (relax.ConcatOp, "concatenate"),
        (relax.GatherElementsOp, "gather"),
        (relax.Conv2dOp, "conv2d"),
        (relax.FlattenOp, "reshape"),
        (relax.ZerosLikeOp, "zeros"),
        (relax.LayoutTransformOp, "te_layout_transform"),
    ],
)
def test_program_names(op: type[RelaxOperation], name: str) -> None:
    assert op.program_name() == name


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            lambda: relax.SplitOp.infer(tensor(2, n), 2, 1),
            [(2, "ceildiv(n, 2)"), (2, "n - ceildiv(n, 2)")],
        ),
        (lambda: relax.SplitOp.infer(tensor(2, 4), 1, 1), (2, 4)),
        (
            lambda: relax.StridedSliceOp.infer(tensor(n), (0,), (0,), (m,)),
            ("min(m, n)",),
        ),
        (
            lambda: relax.StridedSliceOp.infer(tensor(n), (0,), (0,), (m,), None, True),
            ("m",),
        ),
        (
            lambda: relax.StridedSliceOp.infer(tensor(7), (0,), (-9,), (-10,), (-1,)),
            (0,),
        ),
        (lambda: relax.ArangeOp.infer(2, n, 3), ("floordiv(n, 3)",)),
        (lambda: relax.TopkOp.infer(tensor(3, n), 2, ret_type="values"), (3, 2)),
        (lambda: relax.TopkOp.infer(tensor(3, 5), 9, ret_type="indices"), (3, 5)),
        (lambda: relax.RepeatOp.infer(tensor(n, 5), 2), ("10*n",)),
        (
            lambda: relax.LayoutTransformOp.infer(
                tensor(n, m), "(a, b) -> (b mod 4, a)"
            ),
            (4, "n"),
        ),
        (
            lambda: relax.MeshgridOp.infer([tensor(3), tensor(4)], "xy"),
            [(4, 3), (4, 3)],
        ),
        (lambda: relax.EyeOp.infer(n), ("n", "n")),
        (lambda: relax.CollapseSumToOp.infer(tensor(n, 3, 4), (4,)), (4,)),
    ],
)
def test_result_shapes(found: Any, expected: Any) -> None:
    def text(shape: Any) -> Any:
        return (
            [text(part) for part in shape]
            if isinstance(shape, list)
            else tuple(map(str, shape))
        )

    assert text(sizes(found())) == text(expected)


@pytest.mark.parametrize(
    ("found", "rank", "element"),
    [
        (lambda: relax.NonzeroOp.infer(tensor(2, 3)), 2, "i64"),
        (lambda: relax.UniqueOp.infer(tensor(2, 3)), 1, "f32"),
        (lambda: relax.UniqueOp.infer(tensor(2, 3), axis=-1), 2, "f32"),
        (
            lambda: relax.DynamicStridedSliceOp.infer(
                tensor(2, 3), *[tensor(2, dtype=INT64)] * 3
            ),
            2,
            "f32",
        ),
    ],
)
def test_data_dependent_shapes_have_no_symbols(
    found: Any, rank: int, element: str
) -> None:
    type_ = found()
    assert (type_.rank, str(type_.element_type)) == (rank, element)
    with pytest.raises(ValueError, match="without a name"):
        tensors.shape_of(type_)


def test_optional_results_of_unique() -> None:
    found = relax.UniqueOp.infer(tensor(2, 3), return_index=True, return_counts=True)
    parts = [str(found.get_type(i)) for i in range(found.num_types)]
    assert parts == ["tensor<?xf32>", "tensor<?xi64>", "tensor<?xi64>"]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            lambda: relax.Conv2dOp.infer(
                tensor(1, 1, 9, 9, 4), tensor(1, 1, 3, 3), data_layout="NCWH4k"
            ),
            "in some order, got `NCWH4k`",
        ),
        (
            lambda: relax.TakeOp.infer(tensor(2, 3), tensor(2, dtype=INT64)),
            "without an axis x must have rank 1, got 2",
        ),
        (
            lambda: relax.TakeOp.infer(tensor(3), tensor(2, dtype=INT64), 0, "nan"),
            "bad mode: expected fast, wrap, clip, got `nan`",
        ),
        (lambda: relax.SplitOp.infer(tensor(5), 4), "nothing is left"),
        (
            lambda: relax.ConcatOp.infer([tensor(2, 3), tensor(2, 3)], None),
            "without an axis expected rank 1, got 2, 2",
        ),
        (
            lambda: relax.SliceScatterOp.infer(tensor(6), tensor(2), 0, 6, 2),
            r"updates must be \[3\], got \[2\]",
        ),
        (
            lambda: relax.IndexPutOp.infer(
                tensor(4, 5), [tensor(3, dtype=INT64)], tensor(3)
            ),
            "expected 2 tensors of indices, got 1",
        ),
        (
            lambda: relax.OneHotOp.infer(tensor(2, dtype=INT64), 1, 0.0, 3),
            "of one type, got int64 and float64",
        ),
        (
            lambda: relax.EinsumOp.infer([tensor(2, 3)], "ijk->i"),
            "`ijk` does not name 2 axes",
        ),
        (lambda: relax.EinsumOp.infer([tensor(2, 3)], "ij->ii"), "each once"),
        (
            lambda: relax.LayoutTransformOp.infer(tensor(5), "(a) -> (4 - a)"),
            "no negative coefficients",
        ),
        (
            lambda: relax.GridSampleOp.infer(
                tensor(1, 1, 2, 2), tensor(1, 2, 2, 2), "cubic"
            ),
            "bad method: expected bilinear, nearest, bicubic, got `cubic`",
        ),
        (
            lambda: relax.Resize2dOp.infer(tensor(1, 1, 2, 2), (2, 2), method="area"),
            "bad method",
        ),
        (
            lambda: relax.AdaptiveAvgPool2dOp.infer(
                tensor(1, 1, 2, 2), output_size=(2,)
            ),
            "expected 2 sizes of 1 or more",
        ),
        (
            lambda: relax.PixelShuffleOp.infer(tensor(1, 6, 2, 2), 2),
            "channels: expected a multiple of 4, got `6`",
        ),
        (lambda: relax.FullOp.infer(tensor(2), (3,)), "rank 0, got rank 1"),
        (lambda: relax.ArangeOp.infer(0, 5, 0), "must not be 0, got 0"),
    ],
)
def test_invalid_arguments_raise(found: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        found()


@pytest.mark.parametrize(
    ("shape", "asked", "expected"),
    [
        ((2, 3, 4), (0, -1), (2, 12)),
        ((n, 4), (0, 2, 2), ("n", 2, 2)),
        ((n, 4), (-1, 2), ("2*n", 2)),
        ((0, 3), (3, 0), (3, 0)),
    ],
)
def test_reshape_infers_sizes(
    module: IRModule, shape: Any, asked: Any, expected: Any
) -> None:
    op = built(module, relax.ReshapeOp, tensor(*shape), shape=asked)

    assert tuple(map(str, op.python_attrs()["shape"])) == tuple(map(str, expected))
    assert tuple(map(str, tensors.shape_of(op.y))) == tuple(map(str, expected))


@pytest.mark.parametrize(
    ("on", "element"),
    [
        (1, "i64"),
        (1.0, "f64"),
        (True, "i1"),
        (np.float32(1), "f32"),
        (np.uint8(1), "ui8"),
    ],
)
def test_scalar_attributes_keep_their_types(
    module: IRModule, on: Any, element: str
) -> None:
    indices, off = tensor(2, dtype=INT64), type(on)(0)
    op = built(module, relax.OneHotOp, indices, on_value=on, off_value=off, depth=3)

    assert str(op.y.type.element_type) == element
    assert op.python_attrs()["on_value"] == on
    assert op.infer_again() == [op.y.type]

"""Convolution descriptors of launch plans: verification, and faults that the stub detects."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.dialects.tir import LibraryConvolutionOp
from relax_mlir.errors import EmulationError, IRError, ModelError
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Plan
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape
from tests.gpu.emulated import emulated_program
from tests.gpu.library_calls import compiled
from tests.gpu.stub import TARGET, Stub
from tests.gpu.test_library_convolution import convolution, convolutions_of
from tests.schedules.low_precision import drawn


def with_convolution(model: CudaExecutable, made: Convolution) -> Contents:
    """The model with another convolution in its plan."""
    (program,) = model.contents.plan.programs
    plan = Plan((replace(program, launches=(made,)),), model.contents.plan.steps)
    return replace(model.contents, plan=plan)


def damaged(**changed: object) -> tuple[CudaExecutable, list[np.ndarray]]:
    """A model with modified fields of its convolution call, and its inputs."""
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    (found,) = convolutions_of(model)
    of_shape = {n: v for n, v in changed.items() if hasattr(found.shape, n)}
    rest = {n: v for n, v in changed.items() if n not in of_shape}
    made = replace(found, shape=replace(found.shape, **of_shape), **rest)
    return CudaExecutable(with_convolution(model, made)), arrays


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"batch": "k"}, r"unknown size `k`"),
        ({"batch": 2.5}, r"expected a string, got 2\.5"),
        ({"element": "i8"}, r"a convolution of unknown element type `i8`"),
        ({"element": 3}, r"expected a string, got 3"),
        ({"activation": "gelu"}, r"a convolution with unknown options: .*'gelu'"),
        ({"tf32": 1}, r"unknown options: tf32 1"),
        ({"bias": Pointer("argument", 9)}, r"argument 9: out of range, there are 4"),
        ({"residual": Pointer("arena", 0)}, r"expected memory of argument, scratch"),
        ({"channels": 0}, r"invalid convolution: \[0, 12"),
        ({"channels": "8"}, r"invalid convolution: \['8', 12"),
        ({"filters": 1 << 31}, r"invalid convolution: \[8, 2147483648"),
        ({"groups": 3}, r"a divisor of 8 channels and 12 filters, got 3"),
        ({"image": (9,)}, r"invalid convolution: \[8, 12, 1, \[9\]"),
        ({"image": 9}, r"invalid convolution: \[8, 12, 1, 9"),
        ({"window": (3, 0)}, r"invalid convolution: \[8, 12"),
        ({"window": (3, True)}, r"invalid convolution: \[8, 12"),
        ({"window": (10, 3)}, r"output size: expected \(0, 7\), got \(7, 7\)"),
        ({"result": (8, 7)}, r"output size: expected \(7, 7\), got \(8, 7\)"),
        ({"steps": (0, 1)}, r"invalid convolution: \[8, 12"),
        ({"dilations": (1, -1)}, r"invalid convolution: \[8, 12"),
        ({"pads": (-1, 0)}, r"invalid convolution: \[8, 12"),
        ({"pads": (1, 0)}, r"output size: expected \(9, 7\), got \(7, 7\)"),
        ({"image_strides": (648, 81, 9)}, r"invalid convolution: \[8, 12"),
        ({"image_strides": (648, 81, 9, 0)}, r"invalid convolution: \[8, 12"),
        ({"result_strides": (588, 49, 6, 1)}, r"elements overlap"),
        ({"channels_last": 1}, r"invalid convolution: \[8, 12"),
    ],
)
def test_damaged_plans_are_refused(
    changed: dict[str, object], problem: str, tmp_path: Path
) -> None:
    model, _ = damaged(**changed)
    model.save(tmp_path / "model.rxm")

    with pytest.raises(ModelError, match=problem):
        relax_mlir.load(tmp_path / "model.rxm")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"batch": 3}, r"7776 bytes at 0 of input 0, which has 5184"),
        ({"batch": -1}, r"a convolution with batch size -1"),
        ({"image_strides": (649, 81, 9, 1)}, r"5188 bytes at 0 of input 0"),
        ({"result_strides": (588, 49, 7, 2)}, r"4728 bytes at 0 of output 0"),
        ({"result_strides": (600, 49, 7, 1)}, r"4752 bytes at 0 of output 0"),
        ({"filters": 13}, r"of input 1, which has 3456"),
        ({"bias": Pointer("argument", 2, 16)}, r"48 bytes at 16 of input 2"),
        ({"bias": Pointer("argument", 1, 4)}, r"operand at 4: .*multiple of 16"),
        ({"residual": Pointer("argument", 2)}, r"4704 bytes at 0 of input 2"),
    ],
)
def test_convolutions_are_bounds_checked(
    changed: dict[str, object], problem: str, convolutions: Stub
) -> None:
    model, arrays = damaged(**changed)

    with pytest.raises((ModelError, ValueError), match=problem):
        model(*arrays)


def test_missing_operands_are_refused(tmp_path: Path) -> None:
    model, _ = damaged()
    (found,) = convolutions_of(model)
    fields = found.fields()
    fields["operands"][1] = None

    with pytest.raises(ValueError, match=r"a convolution lacks an operand"):
        Convolution.from_fields(fields)
    assert Convolution.from_fields(found.fields()) == found


def test_files_whose_shapes_lack_parts_are_refused(tmp_path: Path) -> None:
    model, _ = damaged()
    (found,) = convolutions_of(model)
    model.save(tmp_path / "model.rxm")
    fields = found.fields()

    for parts in ([], fields["convolution"][:-1], [*fields["convolution"], 1]):
        with pytest.raises((TypeError, ValueError)):
            Convolution.from_fields({**fields, "convolution": parts})


_BY_HAND = """
func.func @k(%x: memref<128xf32>, %y: memref<128xf32>)
    attributes {{tir.prim_func, tir.rule = "ByHand"}} {{
  %n = arith.constant {images} : index
  "tir.library_convolution"(%x, %x, %{result}, %n, %{bias}) {{
    counts = array<i64: 2, 2, 1>, image_sizes = array<i64: 4, 4>,
    window_sizes = array<i64: 3, 3>, result_sizes = array<i64: {rows}, 2>,
    steps = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0>,
    image_strides = array<i64: 32, 16, 4, 1>, result_strides = array<i64: 8, 4, 2, 1>,
    channels_last = false, activation = "none", tf32 = false,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>
  }} : (memref<128xf32>, memref<128xf32>, memref<128xf32>, index, memref<128xf32>) -> ()
  return
}}
"""


_GIVEN = {"images": 4, "result": "y", "bias": "x", "rows": 2}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"images": 5}, r"element 159 of an array of 128"),
        ({"result": "x"}, r"a result overlaps an operand"),
        ({"bias": "y"}, r"a result overlaps an operand"),
        ({"rows": 3}, r"output size: expected \(2, 2\), got \(3, 2\)"),
    ],
)
def test_the_emulator_checks_convolutions(
    changed: dict[str, object], problem: str
) -> None:
    text = _BY_HAND.format(**{**_GIVEN, **changed})
    module, x = IRModule.parse(text), drawn(128)

    with pytest.raises(EmulationError, match=problem):
        emulated_program(module, [x], [x], target=TARGET)


def test_the_operation_is_read_and_printed() -> None:
    text = _BY_HAND.format(**_GIVEN)

    module = IRModule.parse(IRModule.parse(text).mlir.operation.get_asm())

    with module.mlir.context:
        operations = module.func_op("k").entry_block.operations
        (made,) = (o for o in operations if isinstance(o, LibraryConvolutionOp))
        assert made.shape == ConvolutionShape(
            *(2, 2, 1),
            *((4, 4), (3, 3), (2, 2)),
            *((1, 1), (1, 1), (0, 0)),
            *((32, 16, 4, 1), (8, 4, 2, 1)),
            channels_last=False,
        )
        assert (len(made.bias), len(made.residual)) == (1, 0)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("pads = array<i64: 0, 0>,", "", r'attribute "pads" is expected'),
        ("(%x, %x, %y, %n, %x)", "(%x, %n, %y, %n, %x)", r"got .*index|expects.*index"),
    ],
)
def test_the_operation_is_verified(old: str, new: str, problem: str) -> None:
    text = _BY_HAND.format(**_GIVEN)
    types = "(memref<128xf32>, memref<128xf32>"
    if "%n, %y" in new:
        text = text.replace(types, "(memref<128xf32>, index")

    with pytest.raises(IRError, match=problem):
        IRModule.parse(text.replace(old, new)).verify()


def test_explanations_name_the_rule() -> None:
    module, _ = convolution("plain")
    explanation = relax_mlir.explain(module, target=TARGET, library="always")

    assert [kernel.choice.rule for kernel in explanation.kernels] == ["Cudnn"]


def test_shapes_tell_where_all_elements_are() -> None:
    shape = ConvolutionShape(
        *(4, 6, 2),
        *((5, 7), (3, 2), (3, 3)),
        *((1, 3), (1, 2), (0, 1)),
        *((140, 1, 28, 4), (54, 1, 18, 6)),
        channels_last=True,
    )
    shape.check()

    assert shape.weight_strides == (12, 1, 4, 2)
    assert replace(shape, channels_last=False).weight_strides == (12, 6, 2, 1)
    assert (shape.image_elements(2), shape.result_elements(2)) == (280, 108)
    assert shape.is_packed(channels_last=True)
    assert not shape.is_packed(channels_last=False)
    assert ConvolutionShape.from_fields(shape.fields()) == shape

"""Virtual devices of a module, and the tensors on them."""

import pytest

from relax_mlir.errors import OperatorError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo, VDevice
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from tests.tvm.relax.transform.graphs import op, program, tensor

_CPU, _GPU, _OTHER = VDevice("llvm"), VDevice("cuda", 0), VDevice("cuda", 1)


def _on_gpu() -> IRModule:
    x = Var("x", TensorStructInfo((2, 3), "float32", _GPU))
    module = program([x], op("exp", x))
    module.update_global_info("vdevice", [_CPU, _GPU])
    return module


def test_all_tensors_of_a_device_move_to_another() -> None:
    module = _on_gpu()

    moved = transform.UpdateVDevice(_OTHER, 1)(module)

    assert moved.global_infos["vdevice"] == [_CPU, _OTHER]
    assert moved["main"].params[0].struct_info.vdevice == _OTHER
    assert moved["main"].ret_struct_info.vdevice == _OTHER
    assert module["main"].params[0].struct_info.vdevice == _GPU


def test_tensors_of_other_devices_stay() -> None:
    moved = transform.UpdateVDevice(_OTHER, 0)(_on_gpu())

    assert moved.global_infos["vdevice"] == [_OTHER, _GPU]
    assert moved["main"].ret_struct_info.vdevice == _GPU


def test_a_hint_sets_the_device_if_nothing_else_does() -> None:
    x = Var("x", tensor(2, 3))
    hinted = op(
        "hint_on_device", op("exp", x), dst_vdevice="cuda:1", memory_scope="global"
    )
    module = program([x], hinted)
    module.update_global_info("vdevice", [_GPU, _OTHER])

    realized = transform.RealizeVDevice()(module)["main"]

    assert realized.params[0].struct_info.vdevice == _OTHER
    assert "to_vdevice" not in realized.script()


def test_a_hint_may_name_a_device_by_numbers() -> None:
    x = Var("x", tensor(2, 3))
    hinted = relax.op.hint_on_device(op("exp", x), device_type=2, index=1)
    module = program([x], hinted)
    module.update_global_info("vdevice", [_GPU, _OTHER])

    realized = transform.RealizeVDevice()(module)["main"]

    assert realized.params[0].struct_info.vdevice == _OTHER
    with pytest.raises(OperatorError, match=r"device type of .*, got 99"):
        relax.op.hint_on_device(x, device_type=99)


def test_every_target_gets_its_own_programs() -> None:
    on_cpu = Var("x", TensorStructInfo((2, 3), "float32", _CPU))
    on_gpu = Var("y", TensorStructInfo((2, 3), "float32", _GPU))
    on_other = Var("z", TensorStructInfo((2, 3), "float32", _OTHER))
    inputs = [on_cpu, on_gpu, on_other]
    module = program(inputs, *(op("add", x, x) for x in inputs))
    module.update_global_info("vdevice", [_CPU, _GPU, _OTHER])

    legal = transform.LegalizeOps()(module)

    bindings = legal["main"].body.blocks[0].bindings
    called = [b.value.args[0].name_hint for b in bindings if hasattr(b.value, "op")]
    assert called == ["add_llvm", "add_cuda", "add_cuda"]
    assert {v.name_hint for v in legal.get_global_vars()} == {"main", *called}
    assert legal["add_cuda"].attrs["target"] == "cuda"

"""Virtual devices that a module lists, and the tensors that live there."""

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.objects.struct_info import TensorStructInfo, VDevice
from relax_mlir.relax import transform
from tests.transforms.graphs import op, program, tensor

_CPU, _GPU, _OTHER = VDevice("llvm"), VDevice("cuda", 0), VDevice("cuda", 1)


def _on_gpu() -> IRModule:
    x = Var("x", TensorStructInfo((2, 3), "float32", _GPU))
    module = program([x], op("exp", x))
    module.update_global_info("vdevice", [_CPU, _GPU])
    return module


def test_all_tensors_of_a_device_go_to_another() -> None:
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


def test_what_a_hint_is_given_lives_there_if_nothing_else_says_where() -> None:
    x = Var("x", tensor(2, 3))
    hinted = op(
        "hint_on_device", op("exp", x), dst_vdevice="cuda:1", memory_scope="global"
    )
    module = program([x], hinted)
    module.update_global_info("vdevice", [_GPU, _OTHER])

    realized = transform.RealizeVDevice()(module)["main"]

    assert realized.params[0].struct_info.vdevice == _OTHER
    assert "to_vdevice" not in realized.script()

"""TVM's names: importing them, arrays, registered functions, calling compiled modules."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.errors import RelaxError
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts do


def linear(name: str) -> tvm.IRModule:
    """A module whose main calls a registered function."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            call = relax.call_dps_packed(name, (x,), R.Tensor((2, 3), "float32"))
            out = bb.emit_output(call)
        bb.emit_func_output(out)
    return bb.get()


def test_names_are_found_in_both_places() -> None:
    from relax_mlir.ir.module import IRModule
    from relax_mlir.tvm.ir import assert_structural_equal
    from relax_mlir.tvm.ir import assert_structural_equal as same

    assert assert_structural_equal is same
    assert IRModule is tvm.IRModule is tvm.ir.IRModule
    assert (
        tvm.ir.Op.get("relax.add")
        == tvm.relax.op.add(*(relax.Var(n, R.Tensor((2,), "float32")) for n in "ab")).op
    )
    assert issubclass(tvm.TVMError, Exception)
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = tvm.nothing


def test_an_unknown_operator_names_near_misses() -> None:
    with pytest.raises(
        AttributeError, match=r"`relax.ad` is not registered.*`relax.add`"
    ):
        tvm.ir.Op.get("relax.ad")


def test_arrays_are_copied_in_and_shared_by_dlpack() -> None:
    source = np.arange(6, dtype="float32").reshape(2, 3)
    array = tvm.nd.array(source)
    source[0, 0] = 9
    assert array.numpy()[0, 0] == 0
    np.from_dlpack(array)[0, 0] = 5
    assert array.numpy()[0, 0] == 5
    assert (array.shape, array.dtype, str(array.device)) == (
        (2, 3),
        "float32",
        "cpu(0)",
    )


def test_a_python_function_gets_arrays_and_writes_its_result() -> None:
    @tvm.register_func("test_face.twice", override=True)
    def twice(x: tvm.nd.NDArray, out: tvm.nd.NDArray) -> None:
        assert isinstance(x, tvm.nd.NDArray)
        np.multiply(np.from_dlpack(x), 2, out=np.from_dlpack(out))

    vm = relax.VirtualMachine(relax.build(linear("test_face.twice"), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(x)).numpy(), 2 * x)
    with pytest.raises(ValueError, match="registered already"):
        tvm.register_func("test_face.twice", twice)


_C_SOURCE = """
#include <stdint.h>
typedef struct { void *data; int32_t device[2]; int32_t ndim; uint8_t code, bits;
  uint16_t lanes; int64_t *shape, *strides; uint64_t offset; } DLTensor;
int negate(DLTensor *x, DLTensor *out) {
  if (x->ndim != 2 || x->code != 2 || x->bits != 32) return 1;
  for (int64_t i = 0; i < x->shape[0] * x->shape[1]; ++i)
    ((float *)out->data)[i] = -((float *)x->data)[i];
  return 0;
}
"""


@pytest.mark.slow
def test_a_symbol_of_a_c_library_is_called(tmp_path: Path) -> None:
    (tmp_path / "negate.c").write_text(_C_SOURCE)
    command = ["cc", "-shared", "-fPIC", "-o", "negate.so", "negate.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "negate.so"))
    tvm.register_func("test_face.negate", library.negate, override=True)

    executable = tvm.compile(linear("test_face.negate"))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(executable(x)[0], -x)


def test_functions_that_nobody_registered_have_near_misses() -> None:
    tvm.register_func("test_face.known", lambda x, out: None, override=True)
    with pytest.raises(ValueError, match=r"no such function.*`test_face.known`"):
        tvm.get_global_func("test_face.knwon")
    assert tvm.get_global_func("test_face.knwon", allow_missing=True) is None
    vm = relax.VirtualMachine(relax.build(linear("test_face.knwon")), tvm.cpu())
    with pytest.raises(ValueError, match=r"no such function.*`test_face.known`"):
        vm["main"](tvm.nd.array(np.ones((2, 3), "float32")))


def test_several_functions_are_called_by_name() -> None:
    bb = relax.BlockBuilder()
    for name, op in (("up", relax.op.exp), ("down", relax.op.log)):
        x = relax.Var("x", R.Tensor((tvm.tir.Var("n", "int64"),), "float32"))
        with bb.function(name, [x]):
            bb.emit_func_output((bb.emit(op(x)), x))
    executable = tvm.compile(bb.get(), target=tvm.target.Target("llvm"))
    vm = relax.VirtualMachine(executable, tvm.cpu())
    up, same = vm["up"](tvm.nd.array(np.array([0, 1], "float32")))
    np.testing.assert_allclose(up.numpy(), np.exp([0, 1]), rtol=1e-6)
    np.testing.assert_array_equal(same.numpy(), [0, 1])
    vm.set_input("down", up)
    vm.invoke_stateful("down")
    down, _ = vm.get_outputs("down")
    np.testing.assert_allclose(down.numpy(), [0, 1], atol=1e-6)
    with pytest.raises(AttributeError, match=r"no function `upp`.*`up`"):
        vm["upp"]


def test_targets_read_tvms_spelling() -> None:
    with tvm.target.Target("llvm -mcpu=znver3") as target:
        assert tvm.target.Target.current() == target
        assert (target.kind.name, target.attrs["mcpu"]) == ("llvm", "znver3")
    assert tvm.target.Target.current() is None
    assert tvm.target.Target.from_device(tvm.cuda(0)).kind.name == "cuda"
    with pytest.raises(RelaxError, match="unknown target `metal`"):
        tvm.compile(linear("test_face.twice"), target="metal")


@tvm.script.ir_module
class Sum:
    @R.function
    def main(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")):  # noqa: N805
        return R.add(a, b)


@pytest.fixture(scope="module")
def total() -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(Sum, target="llvm"), tvm.cpu())


ONES = np.ones(2, "float32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([ONES], r"`main`: expected 2 arguments \(`a`, `b`\), got 1$"),
        ([], r"`main`: expected 2 arguments \(`a`, `b`\), got none$"),
        ([ONES, [1.0, 1.0]], r"argument `b`: expected an array, .* got \[1.0, 1.0\]$"),
        ([ONES, None], r"argument `b`: expected an array, .* got None$"),
    ],
)
def test_a_call_says_which_argument_it_cannot_take(
    total: relax.VirtualMachine, arguments: list[object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        total["main"](*arguments)


def test_a_machine_takes_what_was_built_and_a_device_that_is_here(
    total: relax.VirtualMachine,
) -> None:
    assert repr(total).startswith("<VirtualMachine of <VMExecutable main: (a: float32[")
    with pytest.raises(TypeError, match=r"a result of `relax.build`, got IRModule"):
        relax.VirtualMachine(Sum, tvm.cpu())
    with pytest.raises(tvm.TVMError, match=r"device `cuda\(7\)`: expected a device of"):
        relax.VirtualMachine(total.module, tvm.cuda(7))
    with pytest.raises(TypeError, match="`build`: expected a module or a function"):
        relax.build(3)


def test_arrays_hold_numbers() -> None:
    assert tvm.nd.array([1.0]).dtype == "float64"
    with pytest.raises(TypeError, match="expected an array of numbers, got 'one'"):
        tvm.nd.array("one")

"""Host functions of the virtual machine, which call native code and are called by users."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.vm import VirtualMachine, VMExecutable, build
from relax_mlir.tvm.script import ir as I
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T

# ruff: noqa: N803, N805, N806, N812, RET504  scripts are not plain Python


def machine(module: tvm.IRModule) -> VirtualMachine:
    return VirtualMachine(build(module), tvm.cpu())


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, "float32")


def test_what_computes_tensors_is_machine_code_between_calls() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.add(x, x)
            b = R.exp(a)
            c = R.call_pure_packed(
                "tests.vm.twice", b, sinfo_args=R.Tensor((2, 3), "float32")
            )
            d = R.negative(c)
            return d

    made = build(Module)
    assert made.as_python().splitlines() == [
        "def f_main(x):",
        "    rt.check_tensor(x, [2, 3], 'float32', '`main`: parameter `x`')",
        "    [b] = main_segment_0(x)",
        "    c = rt.packed('tests.vm.twice')(b)",
        "    [d] = main_segment_1(c)",
        "    return d",
    ]
    x = numbers(2, 3)
    np.testing.assert_allclose(made(x).numpy(), -2 * np.exp(2 * x), rtol=1e-6)


def test_a_module_without_calls_has_no_python() -> None:
    @I.ir_module
    class Module:
        @R.function
        def first(x: R.Tensor(("n",), "float32")):
            return R.exp(x)

        @R.function
        def second(x: R.Tensor(dtype="float32")):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, 2), "float32"))
            return R.sum(y)

    made = build(Module)
    assert made.as_python() == ""
    assert made.function_names() == ["first", "second"]
    x = numbers(3, 2)
    assert VirtualMachine(made)["second"](x).numpy() == pytest.approx(x.sum(), rel=1e-5)


def test_shapes_and_numbers_come_in_and_go_out() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(a: R.Prim(value="n"), s: R.Shape(["n * 2", "m"]), x: R.Object):
            n = T.int64()
            m = T.int64()
            return (R.shape([n + m, n // 2]), R.prim_value(m * m), x)

    function = machine(Module)["main"]
    shape, number, rest = function(3, (6, 5), "text")
    assert (tuple(shape), number, rest) == ((8, 1), 25, "text")
    with pytest.raises(RunError, match=r"`s`, size 0: expected n \* 2 = 6, got 7"):
        function(3, (7, 5), None)
    with pytest.raises(TypeError, match="`s`: expected a shape, got a tensor"):
        function(3, numbers(2), None)


def test_sizes_that_no_tensor_tells_reach_machine_code() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(s: R.Shape(["n"])):
            n = T.int64()
            return R.full(R.shape([n, 2]), R.const(1.5, "float32"), "float32")

    assert machine(Module)["main"]((3,)).numpy().tolist() == [[1.5, 1.5]] * 3


def test_a_function_calls_itself() -> None:
    @I.ir_module
    class Module:
        @R.function
        def halve(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            small = R.call_pure_packed(
                "tests.vm.at_most_one", x, sinfo_args=R.Tensor((), "bool")
            )
            if small:
                result = x
            else:
                half = R.multiply(x, R.const(0.5, "float32"))
                result = Module.halve(half)
            return result

    x = np.array([6.0, 4.0], "float32")
    np.testing.assert_array_equal(machine(Module)["halve"](x).numpy(), x / 8)


def test_only_the_chosen_branch_has_effects(capsys: pytest.CaptureFixture[str]) -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
            if c:
                _ = R.print(x, format="got {}")
                y = R.add(x, x)
            else:
                y = R.negative(x)
            return y

    function = machine(Module)["main"]
    x = np.ones(1, "float32")
    assert function(np.array(True), x).numpy() == [2]
    assert capsys.readouterr().out == "got [1.]\n"
    assert function(np.array(False), x).numpy() == [-1]
    assert capsys.readouterr().out == ""


def test_each_branch_learns_sizes_for_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor("float32", ndim=1)):
            m = T.int64()
            if c:
                a = R.match_cast(x, R.Tensor((m,), "float32"))
                _ = R.print(R.shape([m + 1]), format="then {}")
                b = R.call_packed("tests.vm.twice", a, sinfo_args=R.Object)
            else:
                a = R.match_cast(x, R.Tensor((m,), "float32"))
                _ = R.print(R.shape([m]), format="else {}")
                b = R.call_packed("tests.vm.twice", a, sinfo_args=R.Object)
            return b

    run = machine(Module)["main"]
    run(np.array(True), numbers(3))
    run(np.array(False), numbers(4))

    assert capsys.readouterr().out == "then (4,)\nelse (4,)\n"


def test_a_choice_between_tensors_is_machine_code_beside_calls() -> None:
    """What stands in its branches is not an argument of the code."""

    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            a = R.call_pure_packed(
                "tests.vm.twice", x, sinfo_args=R.Tensor((2,), "float32")
            )
            if c:
                b = R.add(a, x)
                r = R.negative(b)
            else:
                b = R.multiply(a, x)
                r = R.exp(b)
            return r

    run = machine(Module)["main"]
    x = numbers(2)

    np.testing.assert_allclose(run(np.array(True), x).numpy(), -3 * x, rtol=1e-6)
    expected = np.exp(2 * x * x)
    np.testing.assert_allclose(run(np.array(False), x).numpy(), expected, rtol=1e-6)


def test_any_name_may_be_a_variable() -> None:
    """Also one that the Python has for something else."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(main_segment_0: R.Tensor((2,), "float32")):
            constant_0 = R.add(main_segment_0, main_segment_0)
            a = R.call_packed(
                "tests.vm.twice", R.const([3.0, 4.0], "float32"), sinfo_args=R.Object
            )
            return R.tuple(constant_0, a)

    x = numbers(2)
    first, second = machine(Module)["main"](x)

    np.testing.assert_allclose(first.numpy(), 2 * x)
    np.testing.assert_allclose(second.numpy(), [6, 8])


def test_sizes_are_exact() -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(_: R.Prim(value="n")):
            n = T.int64()
            _1 = R.print(format="")
            return R.shape([T.truncdiv(5 - n, 3), T.truncmod(5 - n, 3)])

    n = 2**61

    quotient, rest = divmod(n - 5, 3)
    assert tuple(machine(Module)["main"](n)) == (-quotient, -rest)


def test_an_inner_function_sees_what_is_around_it() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            @R.function
            def add(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                w: R.Tensor((2,), "float32") = R.add(x, z)
                return w

            s: R.Tensor((2,), "float32") = add(y)
            return s

    x, y = numbers(2), np.ones(2, "float32")
    np.testing.assert_array_equal(machine(Module)["main"](x, y).numpy(), x + y)


def test_results_are_written_over_arguments() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def move(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("b"):
                    vi = T.axis.spatial(2, i)
                    B[vi] = A[vi]
                    A[vi] = A[vi] + T.float32(1)

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            done = R.call_tir_inplace(
                Module.move,
                (x,),
                [0, -1],
                [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")],
            )
            return done

    x = tvm.nd.array(np.zeros(2, "float32"))
    changed, copy = machine(Module)["main"](x)
    assert changed is x
    assert x.numpy().tolist() == [1, 1]
    assert copy.numpy().tolist() == [0, 0]


def test_results_without_a_place_are_refused() -> None:
    module = tvm.IRModule.parse(
        """
        func.func private @f(%x: memref<2xf32>, %y: memref<2xf32>)
            attributes {tir.prim_func, tir.num_outputs = 2 : i64} { return }
        func.func @main(%x: tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>> {
          %f = "relax.global_var"() {callee = @f} : () -> !relax.object
          %args = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
          %all = builtin.unrealized_conversion_cast %f, %args
            : !relax.object, tuple<tensor<2xf32>> to tuple<!relax.object, tuple<tensor<2xf32>>>
          %y = "relax.call_operator"(%all) {attrs = {inplace_indices = [0]},
              operator = "relax.call_tir_inplace", types = [tuple<tensor<2xf32>, tensor<2xf32>>]}
            : (tuple<!relax.object, tuple<tensor<2xf32>>>) -> tuple<tensor<2xf32>, tensor<2xf32>>
          return %y : tuple<tensor<2xf32>, tensor<2xf32>>
        }"""
    )

    with pytest.raises(
        UnsupportedError, match=r"`main`: .* got 1 for 2\. Hint: write -1"
    ):
        build(module)


def test_programs_are_compiled_whatever_graphs_stand_beside_them() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def negate(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("B"):
                    v = T.axis.spatial(n, i)
                    B[v] = -A[v]

        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")):
            n = T.int64()
            a = R.call_tir(Module.negate, (x,), R.Tensor((n,), "float32"))
            b = R.call_tir_inplace(
                Module.negate, (y, a), [1], R.Tensor((n,), "float32")
            )
            return b

    y = numbers(3)

    result = machine(Module)["main"](numbers(3), y)

    np.testing.assert_array_equal(result.numpy(), -y)


def test_a_result_is_what_the_function_says() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Object) -> R.Tensor(
            ("n",), "float32"
        ):
            return y

    function = machine(Module)["main"]
    assert function(numbers(2), numbers(2)).shape == (2,)
    with pytest.raises(RunError, match="return value, size 0: expected n = 2, got 3"):
        function(numbers(2), numbers(3))


def test_elements_that_are_found_when_it_runs() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((5,), "int64")):
            found = R.nonzero(x)
            n = T.int64()
            places = R.match_cast(found, R.Tensor((1, n), "int64"))
            moved = R.add(places, places)
            return (moved, R.unique(x, sorted=False, return_counts=True))

    moved, (values, counts) = machine(Module)["main"](np.array([4, 0, 4, 7, 0]))
    assert moved.numpy().tolist() == [[0, 4, 6]]
    assert values.numpy().tolist() == [4, 0, 7]
    assert counts.numpy().tolist() == [2, 2, 1]


def test_tensors_of_which_too_little_is_known_are_refused() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            return R.exp(x)

    with pytest.raises(UnsupportedError, match=r"cannot run `exp`.*R\.match_cast"):
        build(Module)


def test_inputs_that_were_set_stay() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            return R.subtract(x, y)

    vm = machine(Module)
    x, y = numbers(2), np.ones(2, "float32")
    with pytest.raises(ValueError, match="expected `set_input`"):
        vm.invoke_stateful("main")
    vm.set_input("main", x, y=y)
    with pytest.raises(RuntimeError, match="its inputs are set"):
        vm["main"]()
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), x - y)
    assert len(vm.time_evaluator("invoke_stateful", number=1)("main").results) == 1


def test_a_call_that_was_saved_may_keep_its_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            _ = R.print(format="called")
            return x

    vm = machine(Module)
    vm.save_function("main", "silent", numbers(2), include_return=False)
    vm.save_function("main", "telling", numbers(2))

    assert vm["silent"]() is None
    assert vm["telling"]().shape == (2,)
    assert capsys.readouterr().out == "called\n" * 2


def test_the_arguments_of_a_call_are_counted() -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            _ = R.print(x, format="")
            return y

    with pytest.raises(TypeError, match=r"`main`: expected 2 arguments .*, got 1"):
        build(Module)["main"](numbers(2))


def test_all_of_it_is_written_to_a_file(tmp_path) -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def step(A: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("b"):
                    vi = T.axis.spatial(2, i)
                    A[vi] = A[vi] + T.float32(1)

        @R.function
        def plain(x: R.Tensor(("n",), "float32")):
            return (x, (R.exp(x),))

        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Object):
            a = R.multiply(x, R.const([2.0, 3.0], "float32"))
            b = R.call_tir_inplace(Module.step, (a,), [0], R.Tensor((2,), "float32"))
            return (b, y, R.const([5.0], "float32"))

    path = tmp_path / "module.rxm"
    build(Module).export_library(path)
    loaded = relax_mlir.load(path)
    assert isinstance(loaded, VMExecutable)
    x = numbers(2)
    b, y, c = loaded(x, 7)
    np.testing.assert_allclose(b.numpy(), x * [2, 3] + 1, rtol=1e-6)
    assert (y, c.numpy().tolist()) == (7, [5])
    _, (exponential,) = loaded["plain"](x)
    np.testing.assert_allclose(exponential.numpy(), np.exp(x), rtol=1e-6)
    text = path.read_bytes()
    path.write_bytes(text.replace(b"call_segment", b"call_packed_"))
    with pytest.raises(relax_mlir.RelaxError, match="damaged"):
        relax_mlir.load(path)


def test_a_cache_of_rows_grows() -> None:
    class Layer(relax.frontend.nn.Module):
        def __init__(self) -> None:
            self.cache = relax.frontend.nn.KVCache(1, [2])

        def forward(self, row, total):
            self.cache.append(row)
            return self.cache.view(total)

    row = relax.frontend.nn.spec.Tensor((1, 2), "float32")
    model = Layer().jit(
        {"forward": {"row": row, "total": int}}, debug=True, out_format="numpy"
    )
    rows = [numbers(1, 2) + k for k in range(4)]
    for count, value in enumerate(rows, start=1):
        seen = model["forward"](value, count)
        np.testing.assert_array_equal(seen, np.concatenate(rows[:count]))


def test_the_last_of_any_number_of_rows() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32")):
            n = T.int64()
            last = R.strided_slice(x, axes=[0], begin=[n - 1], end=[n])
            return last

    run = machine(Module)["main"]

    for count in (0, 1, 2, 5):
        x = numbers(count, 3)
        np.testing.assert_array_equal(run(x).numpy(), x[count - 1 : count])

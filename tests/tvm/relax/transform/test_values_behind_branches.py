"""Values that branches read, and aliases, in passes."""

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.script import from_source


def test_each_branch_releases_its_temporaries() -> None:
    """A value read in a branch, but defined outside, is released after the `if`."""
    before = from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        a = R.exp(x)
        if c:
            b = R.add(a, a)
            r = R.negative(b)
        else:
            r = R.negative(a)
        s = R.add(r, x)
        return s
""")
    expected = from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        a = R.exp(x)
        if c:
            b = R.add(a, a)
            r_then = R.negative(b)
            _ = R.memory.kill_tensor(b)
            r = r_then
        else:
            r_else = R.negative(a)
            r = r_else
        _1 = R.memory.kill_tensor(a)
        s = R.add(r, x)
        _2 = R.memory.kill_tensor(r)
        return s
""")

    assert_structural_equal(transform.KillAfterLastUse()(before), expected)


def test_a_visible_element_stays_visible() -> None:
    before = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            both = (a, x)
            b = both[0]
            R.output(b)
        c = R.negative(b)
        return c
""")
    expected = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        c = R.negative(a)
        return c
""")

    found = transform.RemoveUnusedOutputs()(before)

    assert_structural_equal(transform.DeadCodeElimination()(found), expected)


def test_a_parameter_fetched_in_a_dataflow_block_is_visible_after_it() -> None:
    before = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y = R.add(x, w)
            R.output(y)
        return (y, w)
""")
    expected = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((3,), "float32"),
        fget_param: R.Callable((R.Prim("int64"), R.Object), R.Object, True),
    ):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            untyped = fget_param(R.prim_value(0), R.str("w"))
            w = R.match_cast(untyped, R.Tensor((3,), "float32"))
            y = R.add(x, w)
            R.output(w, y)
        return (y, w)
""")

    assert_structural_equal(transform.LazyGetInput()(before), expected)

"""Operator fusion on Relay functions: y = exp(x + 1) before and after, as text."""

from relax_mlir import tvm
from relax_mlir.tvm import relay


def before() -> relay.Function:
    """The function with two operators."""
    x = relay.var("x", shape=(10, 20))
    y = relay.add(x, relay.const(1, "float32"))
    return relay.Function([x], relay.exp(y))


def expected() -> relay.Function:
    """The function after fusion: a call of a function with both operators."""
    p = relay.var("p", shape=(10, 20))
    both = relay.Function([p], relay.exp(relay.add(p, relay.const(1, "float32"))))
    x = relay.var("x", shape=(10, 20))
    return relay.Function([x], relay.Call(both, [x]))


def main() -> None:
    """Fuse, and check that fusion is idempotent."""
    z = relay.ir_pass.infer_type(before())
    print("unfused:")
    print(relay.ir_pass.fuse_ops(z, opt_level=0).astext())
    zz = relay.ir_pass.fuse_ops(z, opt_level=2)
    print("fused:")
    print(zz.astext())
    zz = relay.ir_pass.infer_type(relay.ir_pass.fuse_ops(relay.ir_pass.infer_type(zz)))
    after = relay.ir_pass.infer_type(expected())
    assert relay.ir_pass.alpha_equal(zz, after)
    assert not relay.ir_pass.alpha_equal(z, after)
    print("as a Relax module:")
    tvm.IRModule.show(zz.module)


if __name__ == "__main__":
    main()

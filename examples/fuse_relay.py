"""y = exp(x + 1) in Relay's functions: before fusion, after it, and as text."""

import relax_mlir as tvm
from relax_mlir import relay


def before() -> relay.Function:
    """Two operators."""
    x = relay.var("x", shape=(10, 20))
    y = relay.add(x, relay.const(1, "float32"))
    return relay.Function([x], relay.exp(y))


def expected() -> relay.Function:
    """One function that holds both, called."""
    p = relay.var("p", shape=(10, 20))
    both = relay.Function([p], relay.exp(relay.add(p, relay.const(1, "float32"))))
    x = relay.var("x", shape=(10, 20))
    return relay.Function([x], relay.Call(both, [x]))


def main() -> None:
    """Fusing once more changes nothing."""
    z = relay.ir_pass.infer_type(before())
    print("each operator by itself:")
    print(relay.ir_pass.fuse_ops(z, opt_level=0).astext())
    zz = relay.ir_pass.fuse_ops(z, opt_level=2)
    print("fused:")
    print(zz.astext())
    zz = relay.ir_pass.infer_type(relay.ir_pass.fuse_ops(relay.ir_pass.infer_type(zz)))
    after = relay.ir_pass.infer_type(expected())
    assert relay.ir_pass.alpha_equal(zz, after)
    assert not relay.ir_pass.alpha_equal(z, after)
    print("as a module of Relax:")
    tvm.IRModule.show(zz.module)


if __name__ == "__main__":
    main()

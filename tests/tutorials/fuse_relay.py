"""exp(x + 1) in Relay: each operator by itself, then both in one function."""

# RUN: python %s | filecheck %s

from relax_mlir.tvm import relay

x = relay.var("x", shape=(4, 3))
total = relay.add(x, relay.const(1, "float32"))
function = relay.ir_pass.infer_type(relay.Function([x], relay.exp(total)))

# CHECK:      fn (%x: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
# CHECK-NEXT:   %0 = fn(%p0: Tensor[(4, 3), float32], %p1: float32) -> Tensor[(4, 3), float32] {
# CHECK-NEXT:     %1 = add(%p0, %p1)
# CHECK-NEXT:     %1
# CHECK-NEXT:   }
# CHECK-NEXT:   %2 = %0(%x, 1f)
# CHECK-NEXT:   %3 = fn(%p01: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
# CHECK-NEXT:     %4 = exp(%p01)
# CHECK-NEXT:     %4
# CHECK-NEXT:   }
# CHECK-NEXT:   %5 = %3(%2)
# CHECK-NEXT:   %5
# CHECK-NEXT: }
print(relay.ir_pass.fuse_ops(function, opt_level=0).astext())

# CHECK-NEXT: fn (%x: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
# CHECK-NEXT:   %0 = fn(%p0: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
# CHECK-NEXT:     %1 = add(%p0, 1f)
# CHECK-NEXT:     %2 = exp(%1)
# CHECK-NEXT:     %2
# CHECK-NEXT:   }
# CHECK-NEXT:   %3 = %0(%x)
# CHECK-NEXT:   %3
# CHECK-NEXT: }
fused = relay.ir_pass.fuse_ops(function, opt_level=2)
print(fused.astext())

again = relay.ir_pass.fuse_ops(relay.ir_pass.infer_type(fused))
# CHECK-NEXT: True False
print(
    relay.ir_pass.alpha_equal(fused, again), relay.ir_pass.alpha_equal(function, fused)
)

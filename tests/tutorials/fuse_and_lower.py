"""Two layers are built, fused by hand, lowered to programs, and fused into two of them."""

# RUN: python %s | filecheck %s

import runpy
from pathlib import Path

import numpy as np

from relax_mlir.tvm import relax

ROOT = Path(__file__).parents[2]
SHAPES = {"w0": (5, 7), "b0": (5,), "w1": (3, 5), "b1": (3,)}

example = runpy.run_path(str(ROOT / "examples/rewrite_graphs.py"))
weights = {name: np.ones(shape, "float32") for name, shape in SHAPES.items()}

# CHECK:      class Module:
# CHECK-NEXT:     @R.function
# CHECK-NEXT:     def main(x: R.Tensor((1, 7), dtype="float32")) -> R.Tensor((1, 3), dtype="float32"):
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv: R.Tensor((1, 5), dtype="float32") = R.nn.dense(x, metadata["relax.expr.Constant"][0])
# CHECK-NEXT:             lv1: R.Tensor((1, 5), dtype="float32") = R.add(lv, metadata["relax.expr.Constant"][1])
# CHECK-NEXT:             lv2: R.Tensor((1, 5), dtype="float32") = R.nn.relu(lv1)
# CHECK-NEXT:             lv3: R.Tensor((1, 3), dtype="float32") = R.nn.dense(lv2, metadata["relax.expr.Constant"][2])
# CHECK-NEXT:             lv4: R.Tensor((1, 3), dtype="float32") = R.add(lv3, metadata["relax.expr.Constant"][3])
# CHECK-NEXT:             gv: R.Tensor((1, 3), dtype="float32") = lv4
# CHECK-NEXT:             R.output(gv)
# CHECK-NEXT:         return gv
# CHECK-EMPTY:
# CHECK-NEXT: # Metadata omitted. Use show_meta=True in script() method to show it.
model = example["classifier"](weights)
model.show()

# Every layer and its bias are a function.
# CHECK:      class Module:
# CHECK-NEXT:     @R.function
# CHECK-NEXT:     def fused_dense_add0(x: R.Tensor((1, 7), dtype="float32"), w: R.Tensor((5, 7), dtype="float32"), b: R.Tensor((5,), dtype="float32")) -> R.Tensor((1, 5), dtype="float32"):
# CHECK-NEXT:         R.func_attr({"Primitive": 1})
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv: R.Tensor((1, 5), dtype="float32") = R.nn.dense(x, w)
# CHECK-NEXT:             gv: R.Tensor((1, 5), dtype="float32") = R.add(lv, b)
# CHECK-NEXT:             R.output(gv)
# CHECK-NEXT:         return gv
# CHECK:          def fused_dense_add1(x: R.Tensor((1, 5), dtype="float32"), w: R.Tensor((3, 5), dtype="float32"), b: R.Tensor((3,), dtype="float32")) -> R.Tensor((1, 3), dtype="float32"):
# CHECK-NEXT:         R.func_attr({"Primitive": 1})
# CHECK:          def main(x: R.Tensor((1, 7), dtype="float32")) -> R.Tensor((1, 3), dtype="float32"):
# CHECK-NEXT:         cls = Module
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv1: R.Tensor((1, 5), dtype="float32") = cls.fused_dense_add0(x, metadata["relax.expr.Constant"][0], metadata["relax.expr.Constant"][1])
# CHECK-NEXT:             lv2: R.Tensor((1, 5), dtype="float32") = R.nn.relu(lv1)
# CHECK-NEXT:             lv4: R.Tensor((1, 3), dtype="float32") = cls.fused_dense_add1(lv2, metadata["relax.expr.Constant"][2], metadata["relax.expr.Constant"][3])
# CHECK-NEXT:             gv: R.Tensor((1, 3), dtype="float32") = lv4
# CHECK-NEXT:             R.output(gv)
# CHECK-NEXT:         return gv
fused = example["FuseDenseAdd"]()(model)
fused.show()

# Equal programs would be one; these differ in their sizes.
# CHECK:      class Module:
# CHECK-NEXT:     @T.prim_func(private=True)
# CHECK-NEXT:     def add(lv: T.Buffer((T.int64(1), T.int64(5)), "float32"), b: T.Buffer((T.int64(5),), "float32"), T_add: T.Buffer((T.int64(1), T.int64(5)), "float32")):
# CHECK-NEXT:         T.func_attr({"tir.noalias": True})
# CHECK-NEXT:         # with T.block("root"):
# CHECK-NEXT:         for ax0, ax1 in T.grid(T.int64(1), T.int64(5)):
# CHECK-NEXT:             with T.block("T_add"):
# CHECK-NEXT:                 v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
# CHECK-NEXT:                 T.reads(lv[v_ax0, v_ax1], b[v_ax1])
# CHECK-NEXT:                 T.writes(T_add[v_ax0, v_ax1])
# CHECK-NEXT:                 T_add[v_ax0, v_ax1] = lv[v_ax0, v_ax1] + b[v_ax1]
# CHECK:          def add1(
# CHECK:          def dense(x: T.Buffer((T.int64(1), T.int64(7)), "float32"), w: T.Buffer((T.int64(5), T.int64(7)), "float32"), T_matmul_NT: T.Buffer((T.int64(1), T.int64(5)), "float32")):
# CHECK-NEXT:         T.func_attr({"layout_free_buffers": [1], "tir.noalias": True})
# CHECK-NEXT:         # with T.block("root"):
# CHECK-NEXT:         for i0, i1, k in T.grid(T.int64(1), T.int64(5), T.int64(7)):
# CHECK-NEXT:             with T.block("T_matmul_NT"):
# CHECK-NEXT:                 v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
# CHECK-NEXT:                 T.reads(x[v_i0, v_k], w[v_i1, v_k])
# CHECK-NEXT:                 T.writes(T_matmul_NT[v_i0, v_i1])
# CHECK-NEXT:                 with T.init():
# CHECK-NEXT:                     T_matmul_NT[v_i0, v_i1] = T.float32(0.0)
# CHECK-NEXT:                 T_matmul_NT[v_i0, v_i1] = T_matmul_NT[v_i0, v_i1] + x[v_i0, v_k] * w[v_i1, v_k]
# CHECK:          def dense1(
# CHECK:          def relu(lv1: T.Buffer((T.int64(1), T.int64(5)), "float32"), compute: T.Buffer((T.int64(1), T.int64(5)), "float32")):
# CHECK:                      compute[v_i0, v_i1] = T.max(lv1[v_i0, v_i1], T.float32(0.0))
# CHECK:          def fused_dense_add0(
# CHECK:              with R.dataflow():
# CHECK-NEXT:             lv = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             gv = R.call_tir(cls.add, (lv, b), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK:          def fused_dense_add1(
# CHECK:                  lv = R.call_tir(cls.dense1, (x, w), out_sinfo=R.Tensor((1, 3), dtype="float32"))
# CHECK-NEXT:             gv = R.call_tir(cls.add1, (lv, b), out_sinfo=R.Tensor((1, 3), dtype="float32"))
# CHECK:          def main(
# CHECK:                  lv1: R.Tensor((1, 5), dtype="float32") = cls.fused_dense_add0(x, metadata["relax.expr.Constant"][0], metadata["relax.expr.Constant"][1])
# CHECK-NEXT:             lv2 = R.call_tir(cls.relu, (lv1,), out_sinfo=R.Tensor((1, 5), dtype="float32"))
lowered = example["LowerToTensorIRPass"]()(fused)
lowered.show()

# The product stays in a buffer of the program; parameters are called as they were.
# CHECK:      class Module:
# CHECK:          def fused_dense_add0(x: T.Buffer({{.*}}), w: T.Buffer({{.*}}), b: T.Buffer({{.*}}), [[OUT:T_add\w*]]: T.Buffer({{.*}})):
# CHECK-NEXT:         T.func_attr({"tir.noalias": True})
# CHECK-NEXT:         # with T.block("root"):
# CHECK-NEXT:         [[SUM:T_matmul_NT\w*]] = T.alloc_buffer(
# CHECK-NEXT:         for i0, i1, k in T.grid(T.int64(1), T.int64(5), T.int64(7)):
# CHECK-NEXT:             with T.block("T_matmul_NT"):
# CHECK:                          [[SUM]][v_i0, v_i1] = [[SUM]][v_i0, v_i1] + x[v_i0, v_k] * w[v_i1, v_k]
# CHECK-NEXT:         for ax0, ax1 in T.grid(T.int64(1), T.int64(5)):
# CHECK-NEXT:             with T.block("T_add"):
# CHECK:                      [[OUT]][v_ax0, v_ax1] = [[SUM]][v_ax0, v_ax1] + b[v_ax1]
# CHECK:          def fused_dense_add1(x: T.Buffer({{.*}}), w: T.Buffer({{.*}}), b: T.Buffer({{.*}}), {{T_add\w*}}: T.Buffer({{.*}})):
# CHECK:          def relu(
# CHECK:          def main(x: R.Tensor((1, 7), dtype="float32")) -> R.Tensor((1, 3), dtype="float32"):
# CHECK-NEXT:         cls = Module
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             [[L1:lv\w*]] = R.call_tir(cls.fused_dense_add0, (x, metadata["relax.expr.Constant"][0], metadata["relax.expr.Constant"][1]), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             [[L2:lv\w*]] = R.call_tir(cls.relu, ([[L1]],), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             {{lv|gv}}{{.*}} = R.call_tir(cls.fused_dense_add1, ([[L2]], metadata["relax.expr.Constant"][2], metadata["relax.expr.Constant"][3]), out_sinfo=R.Tensor((1, 3), dtype="float32"))
final = relax.transform.FuseTIR()(lowered)
final.show()

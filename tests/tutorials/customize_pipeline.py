"""A network is exported; one layer goes to another compiler, the rest becomes programs."""

# RUN: python %s | filecheck %s

from __future__ import annotations

import numpy as np

from relax_mlir import IRModule, tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.backend import get_pattern, register_patterns
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.frontend import nn


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(7, 5)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(5, 3, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc2(self.relu1(self.fc1(x)))


# CHECK:      class Module:
# CHECK-NEXT:     @R.function
# CHECK-NEXT:     def forward(x: R.Tensor((1, 7), dtype="float32"), fc1_weight: R.Tensor((5, 7), dtype="float32"), fc1_bias: R.Tensor((5,), dtype="float32"), fc2_weight: R.Tensor((3, 5), dtype="float32")) -> R.Tensor((1, 3), dtype="float32"):
# CHECK-NEXT:         R.func_attr({"num_input": 1})
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             permute_dims: R.Tensor((7, 5), dtype="float32") = R.permute_dims(fc1_weight, axes=None)
# CHECK-NEXT:             matmul: R.Tensor((1, 5), dtype="float32") = R.matmul(x, permute_dims, out_dtype=None)
# CHECK-NEXT:             add: R.Tensor((1, 5), dtype="float32") = R.add(matmul, fc1_bias)
# CHECK-NEXT:             relu: R.Tensor((1, 5), dtype="float32") = R.nn.relu(add)
# CHECK-NEXT:             permute_dims1: R.Tensor((5, 3), dtype="float32") = R.permute_dims(fc2_weight, axes=None)
# CHECK-NEXT:             matmul1: R.Tensor((1, 3), dtype="float32") = R.matmul(relu, permute_dims1, out_dtype=None)
# CHECK-NEXT:             gv: R.Tensor((1, 3), dtype="float32") = matmul1
# CHECK-NEXT:             R.output(gv)
# CHECK-NEXT:         return gv
mod, params = Network().export_tvm(
    {"forward": {"x": nn.spec.Tensor((1, 7), "float32")}}
)
mod.show()


def layer_of_numpy(weight, x, bias, out):
    weight_, x_, bias_, out_ = map(np.from_dlpack, (weight, x, bias, out))
    np.maximum(x_ @ weight_.T + bias_, 0, out=out_)


@tvm.register_func("relax.ext.tutor", override=True)
def compile_by_numpy(functions, options, constant_names):
    return [layer_of_numpy for _ in functions]


weight, x, bias = wildcard(), wildcard(), wildcard()
product = is_op("relax.matmul")(x, is_op("relax.permute_dims")(weight))
layer = is_op("relax.nn.relu")(is_op("relax.add")(product, bias))
register_patterns([("tutor.layer", layer, {"x": x, "weight": weight, "bias": bias})])


@tvm.transform.module_pass(opt_level=0, name="TutorDispatch")
class TutorDispatch:
    def transform_module(
        self, mod: IRModule, ctx: tvm.transform.PassContext
    ) -> IRModule:
        assert tvm.get_global_func("relax.ext.tutor", True)
        patterns = [get_pattern("tutor.layer")]
        mod = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)
        return relax.transform.RunCodegen()(mod)


# The function is called by what it was made of and by whose it is.
# CHECK:          def forward(
# CHECK:              with R.dataflow():
# CHECK-NEXT:             lv = R.call_dps_packed("fused_relax_permute_dims_relax_matmul_relax_add_relax_nn_relu_tutor", (fc1_weight, x, fc1_bias), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             permute_dims1: R.Tensor((5, 3), dtype="float32") = R.permute_dims(fc2_weight, axes=None)
# CHECK-NEXT:             matmul1: R.Tensor((1, 3), dtype="float32") = R.matmul(lv, permute_dims1, out_dtype=None)
# CHECK-NEXT:             gv: R.Tensor((1, 3), dtype="float32") = matmul1
mod = TutorDispatch()(mod)
mod.show()

# CHECK:      class Module:
# CHECK:          def matmul(lv: T.Buffer((T.int64(1), T.int64(5)), "float32"), permute_dims1: T.Buffer((T.int64(5), T.int64(3)), "float32"), matmul: T.Buffer((T.int64(1), T.int64(3)), "float32")):
# CHECK-NEXT:         T.func_attr({"op_pattern": 4, "tir.noalias": True})
# CHECK:                          matmul[v_i0, v_i1] = T.float32(0.0)
# CHECK-NEXT:                 matmul[v_i0, v_i1] = matmul[v_i0, v_i1] + lv[v_i0, v_k] * permute_dims1[v_k, v_i1]
# CHECK:          def transpose(fc2_weight: T.Buffer((T.int64(3), T.int64(5)), "float32"), T_transpose: T.Buffer((T.int64(5), T.int64(3)), "float32")):
# CHECK-NEXT:         T.func_attr({"op_pattern": 2, "tir.noalias": True})
# CHECK:                      T_transpose[v_ax0, v_ax1] = fc2_weight[v_ax1, v_ax0]
# CHECK:          def forward(
# CHECK-NEXT:         R.func_attr({"num_input": 1})
# CHECK-NEXT:         cls = Module
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv = R.call_dps_packed("fused_relax_permute_dims_relax_matmul_relax_add_relax_nn_relu_tutor", (fc1_weight, x, fc1_bias), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             permute_dims1 = R.call_tir(cls.transpose, (fc2_weight,), out_sinfo=R.Tensor((5, 3), dtype="float32"))
# CHECK-NEXT:             {{matmul1|gv}} = R.call_tir(cls.matmul, (lv, permute_dims1), out_sinfo=R.Tensor((1, 3), dtype="float32"))
mod = tvm.transform.Sequential(
    [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
)(mod)
mod.show()

machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
arrays = [np.ones(param.shape, param.dtype) for _, param in params]
data = np.ones((1, 7), "float32")
# CHECK:      {{\[\[}}40. 40. 40.{{\]\]}}
print(machine["forward"](*map(tvm.nd.array, [data, *arrays])).numpy())

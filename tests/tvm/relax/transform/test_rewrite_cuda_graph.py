"""Regions of functions that CUDA graphs can capture."""

from collections.abc import Sequence

import numpy as np

import relax_mlir
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.script import from_source
from tests.tvm.relax.transform.graphs import op, program, tensor

_NAMES = ("cuda_graph_alloc", "main_cuda_graph_capture")


def _rewritten(*bodies: str, params: str = "", attrs: str = "") -> IRModule:
    """Functions without results, rewritten; each ``s`` is a storage, each ``a`` a tensor in it."""
    lines = ["@I.ir_module(check_well_formed=False)", "class Module:"]
    for name, body in zip(("main", "other"), bodies, strict=False):
        lines += ["    @R.function(pure=False)", f"    def {name}({params}):"]
        lines += [f"        R.func_attr({{{attrs}}})"] if attrs else []
        lines += [f"        {line}" for line in body.strip().split("\n")]
        lines += ["        return R.tuple()"]
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        return transform.RewriteCUDAGraph()(from_source("\n".join(lines)))


def _memory(sizes: Sequence[int], scope: str = "global") -> str:
    return "\n".join(
        f'{scope[0]}{n} = R.memory.alloc_storage(R.shape([{size}]), 0, "{scope}", "int8")\n'
        f'{scope[0]}a{n} = R.memory.alloc_tensor({scope[0]}{n}, 0, R.shape([4]), "int8")'
        for n, size in enumerate(sizes)
    )


def _calls(module: IRModule, name: str) -> int:
    return module[name].script().count("R.call_packed(")


def test_calls_on_fixed_memory_are_captured_until_one_is_not() -> None:
    module = _rewritten(
        _memory([8, 8])
        + """
_1 = R.call_packed("f", ga0, ga1)
_2 = R.call_packed("g", ga1, ga0)
_3 = R.call_packed("h", x, ga0)
_4 = R.call_packed("i", ga0, ga1)
""",
        params='x: R.Tensor((4,), "int8")',
    )

    assert _calls(module, "main_cuda_graph_capture") == 2
    assert _calls(module, "main_cuda_graph_capture1") == 1
    assert _calls(module, "main") == 1


def test_functions_share_the_largest_memory_of_each_kind() -> None:
    use = '\n_1 = R.call_packed("f", {})'
    one = _memory([8, 64]) + use.format("ga0, ga1")
    two = _memory([16]) + "\n" + _memory([4], "local") + use.format("ga0, la0")

    text = _rewritten(one, two)["cuda_graph_alloc"].script()

    assert text.count("alloc_storage") == 3
    assert [f"R.shape([{size}])" in text for size in (64, 8, 4, 16)] == [
        *(True, True, True, False)
    ]


def test_capture_restarts_around_an_if() -> None:
    choice = """
if c:
    y = R.call_packed("g", ga0, sinfo_args=R.Object)
else:
    y = R.call_packed("h", ga0, sinfo_args=R.Object)
"""
    body = _memory([8]) + '\n_1 = R.call_packed("f", ga0)' + choice
    module = _rewritten(
        body + '_2 = R.call_packed("k", ga0)', params='c: R.Tensor((), "bool")'
    )

    captured = [n for n in module.functions if "capture" in n.name_hint]

    assert [_calls(module, n.name_hint) for n in captured] == [1, 1, 1, 1]


def test_memory_of_dynamic_size_is_not_captured() -> None:
    body = """
s = R.memory.alloc_storage(R.shape([n]), 0, "global", "int8")
a = R.memory.alloc_tensor(s, 0, R.shape([n]), "int8")
_1 = R.call_packed("f", a)
"""

    module = _rewritten(body, params='x: R.Tensor(("n",), "int8")')

    assert not any(name in module for name in _NAMES)


def test_weights_of_symbolic_sizes_pass_their_sizes() -> None:
    module = _rewritten(
        _memory([8]) + '\n_1 = R.call_packed("f", w, ga0)',
        params='x: R.Tensor((4,), "int8"), w: R.Tensor(("m",), "int8")',
        attrs='"num_input": 1',
    )

    params = module["main_cuda_graph_capture"].params

    assert [param.name_hint for param in params] == ["w", "ga0", "shape_expr"]
    assert "R.shape([m])" in module["main"].script()


def test_capturable_regions_run_on_a_cpu() -> None:
    x = Var("x", tensor(2, 3))
    module = transform.LegalizeOps()(program([x], op("exp", op("exp", op("exp", x)))))
    for lower in (
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        transform.StaticPlanBlockMemory(),
    ):
        module = lower(module)
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        rewritten = transform.RewriteCUDAGraph()(module)
    array = np.linspace(-1, 0, 6, dtype=np.float32).reshape(2, 3)

    host = relax.VirtualMachine(relax.build(rewritten, "llvm"), relax_mlir.tvm.cpu())

    assert "main_cuda_graph_capture" in rewritten
    result = host["main"](relax_mlir.tvm.nd.array(array)).numpy()
    expected = np.exp(np.exp(np.exp(array)))
    np.testing.assert_allclose(result, expected, rtol=1e-5)  # f32, errors of three exp

"""Values that arguments are mutated to, and those of every kind that fit."""

# ruff: noqa: N805  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx

import relax_mlir
from relax_mlir import nn
from relax_mlir.errors import RelaxError
from relax_mlir.tvm import dlight, relax, te, tir
from relax_mlir.tvm.relax import dpl
from relax_mlir.tvm.script import ir as I  # noqa: N812
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812

__all__ = ["PROGRAMS", "fitting", "hostile", "model", "module"]


class BadRepr:
    """An object whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("this object has no text")


class Anything:
    """A class that is made of anything."""

    def __init__(self, *args: object, **named: object) -> None:
        pass


def hostile() -> list[Any]:
    """What no function takes for what it wants, mostly."""
    n = tir.Var("n", "int64")
    again: list[Any] = []
    again.append(again)
    return [
        *(None, True, False, 0, 1, -1, 2, 99, 2**31, 2**63, 2**70, -(2**70)),
        *(0.0, 1.5, -1.5, float("nan"), float("inf"), 1e300, 1j),
        *("", "x", "float32", "int99", "a`b\n", "\0", "é\ud800", "-1", "{", "a.b", "%"),
        *(
            b"",
            b"x",
            bytearray(b"x"),
            object(),
            BadRepr(),
            Anything,
            Ellipsis,
            slice(None),
        ),
        *(
            [],
            [0],
            [-1],
            [1, 2],
            [0, 0],
            [None],
            ["a"],
            [[1]],
            (),
            (2**70,),
            [BadRepr()],
        ),
        *({}, {"a": 1}, {1: 2}, {"": None}, set(), {1, 2}, range(3), again),
        *(np.int64(3), np.int64(-1), np.float32(1.5), np.bool_(True), np.str_("x")),
        *(np.ones((2, 3), np.float32), np.array(3), np.zeros((0, 2)), np.ones(1)),
        *(np.array(["a"]), np.array([None]), np.ones((1,) * 5), np.datetime64("2020")),
        *(np.dtype("float32"), n, n * 2, tir.const(1, "int32"), print, lambda *_: None),
        *(lambda *a, **_: a[0] if a else 0, relax.PrimValue(3), relax.Tuple([])),
        *(ValueError("x"), np, iter([1])),
    ]


@I.ir_module
class _Module:
    @T.prim_func
    def double(x: T.Buffer((8, 16), "float32"), y: T.Buffer((8, 16), "float32")):
        T.func_attr({"global_symbol": "double"})
        for i, j in T.grid(8, 16):
            with T.block("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * 2.0

    @R.function
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float32"):
        cls = _Module
        with R.dataflow():
            a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((8, 16), "float32"))
            b = R.nn.relu(a)
            c = R.add(a, b)
            R.output(c)
        return c


@T.prim_func
def _matmul(
    a: T.Buffer((16, 16), "float32"),
    b: T.Buffer((16, 16), "float32"),
    c: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = 0.0
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]


@T.prim_func
def _chain(a: T.Buffer((16, 16), "float32"), d: T.Buffer((16, 16), "float32")):
    b = T.alloc_buffer((16, 16), "float32")
    for i, j in T.grid(16, 16):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = a[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            d[vi, vj] = b[vi, vj] + 1.0


class _Net(nn.Module):
    def __init__(self) -> None:
        self.fc = nn.Linear(4, 3)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return nn.op.relu(self.fc(x))


PROGRAMS = (_matmul, _chain)


def module() -> relax_mlir.IRModule:
    """A function of Relax, and a tensor program that it calls."""
    return _Module.clone()


def model() -> onnx.ModelProto:
    """An ONNX model of one operator."""
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]>\n'
        "g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"
    )


@functools.cache
def _compiled() -> tuple[Any, ...]:
    """What compiling gives, of each kind."""
    built = relax.build(_Module, target="llvm", cache=False)
    return (
        relax_mlir.compile(model(), cache=False),
        built,
        relax.VirtualMachine(built, relax_mlir.tvm.cpu()),
        relax_mlir.compile(_matmul, cache=False),
    )


def _tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


def fitting() -> list[Any]:
    """Values of every kind that some function takes."""
    n = tir.Var("n", "int64")
    i = tir.Var("i", "int32")
    buffer = tir.decl_buffer((16, 16), "float32", name="A")
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda x, y: a[x, y] * 2.0, name="B")
    store = tir.BufferStore(buffer, tir.const(1.0, "float32"), [i, i])
    graph = module()  # methods change it
    main = graph["main"]
    arrays = [np.ones(s, np.float32) for s in ((8, 16), (1, 3, 8, 8), (4,), ())]
    image = te.placeholder((1, 4, 8, 8), name="image")
    weight = te.placeholder((4, 4, 3, 3), name="weight")
    return [
        *(_tensor(2, 3), _tensor(n, 3), _tensor(2, 3, 4, 5), _tensor(), _tensor(4)),
        *(_tensor(2, 3, dtype="int64"), _tensor(1, 4, 8, 8), _tensor(4, 4, 3, 3)),
        relax.Var("x", relax.TensorStructInfo(dtype="float32", ndim=2)),
        relax.Var("t", relax.TupleStructInfo([relax.TensorStructInfo((2, 3))])),
        relax.Var("s", relax.ShapeStructInfo([n, 2])),
        relax.Var("o", relax.ObjectStructInfo()),
        *(relax.ShapeExpr([n * 2, 3]), relax.PrimValue(3), relax.StringImm("a")),
        *(relax.const(np.ones((2, 3), np.float32)), relax.const(1.5)),
        *(relax.Tuple([_tensor(2, 3)]), relax.ExternFunc("f"), relax.GlobalVar("g")),
        *(relax.TensorStructInfo((2, n), "float32"), relax.ObjectStructInfo()),
        relax.op.add(_tensor(2, 3), _tensor(2, 3)),
        *(
            graph,
            main,
            main.body,
            main.body.blocks[0],
            main.body.blocks[0].bindings[0],
        ),
        *(graph["double"], _matmul, _chain, _matmul.body),
        *(n, i, n * 2 + 1, i + 3, tir.const(1, "int32"), tir.const(0.5, "float32")),
        *(buffer, store, tir.Evaluate(0), tir.IterVar((0, 16), i, 0), i < 3),
        tir.For(i, 0, 16, tir.ForKind.SERIAL, store),
        *(
            a,
            b,
            image,
            weight,
            b.op,
            te.reduce_axis((0, 8), "k"),
            te.create_prim_func([a, b]),
        ),
        *(dpl.wildcard(), dpl.is_op("relax.add")(dpl.wildcard(), dpl.wildcard())),
        *(dlight.gpu.Fallback(), relax.transform.FuseOps(), relax.BlockBuilder()),
        *(nn.Linear(4, 3), _Net(), nn.Parameter((4, 3)), nn.op.relu),
        nn.spec.Tensor((2, 4), "float32"),
        *_compiled(),
        *(model(), model().SerializeToString(), *arrays, np.ones((2, 3), np.int64)),
        *(
            relax_mlir.tvm.nd.array(arrays[0]),
            relax_mlir.tvm.cpu(),
            relax_mlir.tvm.Target("llvm"),
        ),
        *(0, 1, 2, 3, 4, 16, -1, 0.5, True, False, None),
        *("float32", "int32", "bool", "NCHW", "NHWC", "OIHW", "main", "x", "shared"),
        *(
            "llvm",
            "cpu",
            "cuda",
            "relax-fuse-ops",
            "local",
            "global",
            "constant",
            "sum",
        ),
        *([0, 1], [2, 2], [4, 4], (8, 16), [1, 2, 3], [n, 2], ["x"], {"x": 1}, {}),
        *(
            {"main": _matmul},
            {n: 4},
            {"x": arrays[0]},
            lambda *_: None,
            lambda *a: a[0],
        ),
        *(RelaxError("x"), slice(0, 2), (0, 16), [arrays[0]], [a, b], [_tensor(2, 3)]),
    ]

"""Round trip of random Relax modules through the printer and the parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it

SIZES = (2, 3, "n", "m", "2n")


@dataclass
class Writer:
    """Builds one random function."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    builder: relax.BlockBuilder
    callees: list[relax.GlobalVar]
    in_dataflow: bool = False
    values: list[relax.Var] = field(default_factory=list)
    sizes: dict[Any, Any] = field(default_factory=dict)

    def size(self, wanted: Any) -> Any:
        if isinstance(wanted, int):
            return wanted
        if wanted == "2n":
            return self.size("n") * 2
        return self.sizes.setdefault(wanted, prim.Var(wanted, "int64"))

    def info(self) -> relax.TensorStructInfo:
        shape = self.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
        return relax.TensorStructInfo([self.size(s) for s in shape], "float32")

    def tensor(self) -> Any:
        found = [
            v for v in self.values if isinstance(v.struct_info, relax.TensorStructInfo)
        ]
        return self.draw(st.sampled_from(found))

    def step(self) -> None:
        kinds = [
            *(self.unary, self.binary, self.scaled, self.shifted, self.tuple_of),
            *(self.packed, self.flattened, self.cast, self.renamed, self.summed),
        ]
        if not self.in_dataflow:
            kinds += [self.choice, self.inner]
        if self.callees:
            kinds.append(self.call)
        self.draw(st.sampled_from(kinds))()

    def keep(self, value: Any) -> None:
        self.values.append(self.builder.emit(value))

    def unary(self) -> None:
        kind = self.draw(st.sampled_from([R.exp, R.negative, R.nn.relu]))
        self.keep(kind(self.tensor()))

    def binary(self) -> None:
        x = self.tensor()
        kind = self.draw(st.sampled_from([R.add, R.multiply, R.subtract]))
        self.keep(kind(kind(x, x), x))

    def scaled(self) -> None:
        number = self.draw(st.floats(width=32, allow_nan=False))
        self.keep(self.tensor() * relax.const(number, "float32"))

    def shifted(self) -> None:
        array = np.full((1,), self.draw(st.integers(0, 9)), "float32")
        self.keep(self.tensor() + relax.const(array))

    def tuple_of(self) -> None:
        count = self.draw(st.integers(1, 3))
        fields = [self.tensor() for _ in range(count)]
        self.keep(relax.Tuple(fields))
        whole = self.values.pop()
        self.keep(relax.TupleGetItem(whole, count - 1))

    def packed(self) -> None:
        args = [self.tensor(), relax.PrimValue(3), relax.StringImm('a"b')]
        info = self.info()
        self.keep(R.call_pure_packed("f", *args, sinfo_args=info))
        self.keep(R.call_dps_packed("g", (self.tensor(),), out_sinfo=info))

    def flattened(self) -> None:
        x = self.tensor()
        if x.struct_info.shape is not None:
            total: Any = 1
            for size in x.struct_info.shape:
                total = size * total
            self.keep(R.reshape(x, R.shape([total])))

    def cast(self) -> None:
        x = self.tensor()
        fresh = prim.Var(self.draw(st.sampled_from(["n", "k"])), "int64")
        info = relax.TensorStructInfo([fresh] * x.struct_info.ndim, "float32")
        self.values.append(self.builder.match_cast(x, info))

    def renamed(self) -> None:
        name = self.draw(st.sampled_from(["R", "cls", "n", "x", "if", "lv"]))
        self.values.append(self.builder.emit(self.tensor(), name))

    def summed(self) -> None:
        keeps = self.draw(st.booleans())
        self.keep(R.sum(self.tensor(), axis=[0], keepdims=keeps))
        self.values.pop()

    def choice(self) -> None:
        condition = relax.PrimValue(self.size("n") > self.draw(st.integers(0, 9)))
        x, y = self.tensor(), self.tensor()
        self.keep(relax.If(condition, R.exp(R.exp(x)), y))

    def inner(self) -> None:
        x, y = self.tensor(), self.tensor()
        param = relax.Var("p", y.struct_info)
        result = relax.Var("r", y.struct_info)
        block = relax.BindingBlock([relax.VarBinding(result, R.add(param, param))])
        function = relax.Function([param], relax.SeqExpr([block], result))
        local = self.builder.emit(function, "local")
        self.keep(relax.Call(local, [y]))
        self.keep(x)

    def call(self) -> None:
        callee = self.draw(st.sampled_from(self.callees))
        args = [relax.const(np.zeros((2, 3), "float32")), self.tensor()]
        self.keep(relax.Call(callee, args))


@st.composite
def modules(draw: Any) -> IRModule:
    """Random modules of up to three functions."""
    builder = relax.BlockBuilder()
    callees: list[relax.GlobalVar] = []
    for number in range(draw(st.integers(1, 3))):
        writer = Writer(draw, builder, list(callees))
        params = [relax.Var("x", writer.info()), relax.Var("x", writer.info())]
        sizes = [writer.size("n"), writer.size("m")]
        params.append(relax.Var("s", relax.ShapeStructInfo(sizes)))
        writer.values += params[:2]
        attrs = draw(st.sampled_from([{}, {"a": 1, "b": [True, "c"]}]))
        private = draw(st.booleans())
        with builder.function(f"f{number}", params, attrs=attrs, private=private):
            for _ in range(draw(st.integers(0, 3))):
                writer.step()
            if draw(st.booleans()):
                _dataflow(draw, writer)
            value = writer.draw(st.sampled_from([writer.tensor(), writer.values[-1]]))
            many = relax.Tuple([value, R.shape([writer.size("n") + 1])])
            made = builder.emit_func_output(draw(st.sampled_from([value, many])))
        if number == 0:
            _add_callee(builder, callees)
        assert made.name_hint
    return builder.get()


def _dataflow(draw: Any, writer: Writer) -> None:
    outside = list(writer.values)
    with writer.builder.dataflow():
        writer.in_dataflow = True
        for _ in range(draw(st.integers(1, 3))):
            writer.step()
        seen = writer.builder.emit_output(writer.tensor())
    writer.values = [*outside, seen]
    writer.in_dataflow = False


def _add_callee(builder: relax.BlockBuilder, callees: list[relax.GlobalVar]) -> None:
    shape = relax.Var("a", relax.TensorStructInfo((2, 3), "float32"))
    other = relax.Var("b", relax.TensorStructInfo(dtype="float32"))
    with builder.function("callee", [shape, other]):
        callees.append(builder.emit_func_output(R.exp(shape)))


def _check(module: IRModule) -> None:
    text = module.script(show_meta=True)

    parsed = from_source(text)

    assert_structural_equal(module, parsed)
    assert parsed.script(show_meta=True) == text


@settings(max_examples=3)
@given(modules())
def test_round_trip_of_a_few_modules(module: IRModule) -> None:
    _check(module)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(modules())
def test_round_trip_of_many_modules(module: IRModule) -> None:
    _check(module)

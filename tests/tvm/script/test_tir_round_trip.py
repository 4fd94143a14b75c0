"""Round trip of random PrimFuncs through the printer and the parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.tvm.script import from_source

TYPES = ("float32", "float16", "int32", "int8", "uint8", "int64")
OPERATIONS = (prim.Add, prim.Sub, prim.Mul, prim.Min, prim.Max, prim.FloorDiv)


class Generator:
    """Builds one random PrimFunc from the choices of ``draw``."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.writer = PrimFuncWriter("generated")
        self.n = Var("n", "int64")
        size = draw(st.sampled_from([8, self.n]))
        self.buffers = [
            Buffer((size, 4), draw(st.sampled_from(TYPES)), f"B{i}") for i in range(3)
        ]
        for buffer in self.buffers:
            self.writer.buffer_param(buffer)
        self.names = 0

    def fresh(self, wish: str) -> str:
        self.names += 1
        return f"{wish}{self.names if self.draw(st.booleans()) else ''}"

    def program(self) -> PrimFunc:
        self.statements([], 3)
        return self.writer.finish({"global_symbol": "generated"})

    def statements(self, indices: list[Var], depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 2))):
            self.statement(indices, depth)

    def statement(self, indices: list[Var], depth: int) -> None:
        kinds = (
            ["store"]
            if depth == 0
            else ["store", "loop", "choice", "let", "repetition"]
        )
        if depth and len(indices) >= 2:
            kinds.append("block")
        getattr(self, self.draw(st.sampled_from(kinds)))(indices, depth)

    def loop(self, indices: list[Var], depth: int) -> None:
        var = Var(self.fresh("i"), self.draw(st.sampled_from(["int32", "int64"])))
        kind = self.draw(
            st.sampled_from(["serial", "parallel", "vectorized", "unrolled"])
        )
        begin = self.draw(st.sampled_from([0, 0, 2]))
        with self.writer.loop(var, self.draw(st.integers(1, 9)), begin, kind=kind):
            self.statements([*indices, var], depth - 1)

    def block(self, indices: list[Var], depth: int) -> None:
        with self.writer.block(self.fresh("b")) as block:
            values = [self.index(indices, 1) for _ in range(2)]
            axes = [
                block.axis(self.draw(st.sampled_from("SR")), 8, value, self.fresh("v"))
                for value in values
            ]
            if self.draw(st.booleans()):
                block.where(self.index(indices, 1) < 5)
            if self.draw(st.booleans()):
                with block.init():
                    self.store(axes, 0)
            self.statements(axes, depth - 1)

    def choice(self, indices: list[Var], depth: int) -> None:
        with self.writer.if_(self.condition(indices)) as choice:
            self.statements(indices, depth - 1)
        if self.draw(st.booleans()):
            with choice.otherwise():
                self.statements(indices, depth - 1)

    def repetition(self, indices: list[Var], depth: int) -> None:
        with self.writer.while_(self.condition(indices)):
            self.statements(indices, depth - 1)

    def let(self, indices: list[Var], depth: int) -> None:
        value = self.index(indices, 2)
        var = self.writer.let(Var(self.fresh("x"), value.dtype), value)
        self.store([*indices, var], 0)

    def store(self, indices: list[Var], depth: int) -> None:
        buffer = self.draw(st.sampled_from(self.buffers))
        place = [self.index(indices, 2) for _ in range(2)]
        self.writer.store(buffer, self.value(buffer.dtype, indices, 2), place)

    def condition(self, indices: list[Var]) -> PrimExpr:
        first = self.index(indices, 1) < self.index(indices, 1)
        second = self.value("float32", indices, 1) >= prim.const(1.0, "float32")
        return self.draw(
            st.sampled_from([first, second, first & second, first | prim.Not(second)])
        )

    def index(self, indices: list[Var], depth: int) -> PrimExpr:
        leaves = [*indices, prim.const(self.draw(st.integers(0, 5)))]
        if not depth or self.draw(st.booleans()):
            return self.draw(st.sampled_from(leaves))
        a, b = (self.index(indices, depth - 1) for _ in range(2))
        return self.draw(st.sampled_from([a + b, a * 3, a - b, a // 4, a % 5]))

    def value(self, dtype: str, indices: list[Var], depth: int) -> PrimExpr:
        buffer = self.draw(st.sampled_from(self.buffers))
        load = buffer[self.index(indices, 1), self.index(indices, 1)]
        number = prim.const(self.draw(st.integers(1, 100)), dtype)
        if not depth:
            return self.draw(st.sampled_from([prim.cast(dtype, load), number]))
        a, b = (self.value(dtype, indices, depth - 1) for _ in range(2))
        choice = prim.Call(dtype, "if_then_else", [self.index(indices, 1) < 3, a, b])
        operation = self.draw(st.sampled_from(OPERATIONS))
        if operation is prim.FloorDiv and "float" in dtype:
            operation = prim.Div
        combined = prim.binary(operation, a, b)
        return self.draw(st.sampled_from([combined, choice, prim.Select(a < b, a, b)]))


@st.composite
def programs(draw: Any) -> PrimFunc:
    return Generator(draw).program()


def check(program: PrimFunc) -> None:
    program.module.verify()
    text = program.script()
    again = from_source(text)
    assert_structural_equal(again, program)
    assert again.script() == text


@settings(max_examples=3)
@given(programs())
def test_round_trip_of_a_few_prim_funcs(program: PrimFunc) -> None:
    check(program)


@pytest.mark.slow
@settings(max_examples=100)
@given(programs())
def test_round_trip_of_many_prim_funcs(program: PrimFunc) -> None:
    check(program)

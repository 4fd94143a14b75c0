"""Random tensor programs, kept alive until the interpreter ends: ``python -m tests.tvm.script.random_programs 7 1000``.

Their statements use buffers and variables inside and outside of the scopes that define them.
"""

import random
import sys

from relax_mlir import IRModule
from relax_mlir.errors import RelaxError
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.statements import Stmt
from relax_mlir.tvm import tir


class Generator:
    """Builds the statements of one program.

    Args:
        rng: draws them.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._depth = 0
        self.handle = Var("a", "handle")
        self.param = tir.decl_buffer((4,), "float32", name="A")
        self._buffers: list[Buffer] = [self.param]
        self._vars: list[Var] = []

    def statement(self) -> Stmt:
        self._depth += 1
        leaf = self._depth > 4
        kinds = [self._store, self._store]
        if not leaf:
            kinds += [self._loop, self._let, self._branch, self._block, self._sequence]
        made = self._rng.choice(kinds)()
        self._depth -= 1
        return made

    def _index(self) -> PrimExpr:
        known = [v for v in self._vars if v.dtype == "int32"]
        if not known or self._rng.random() < 0.4:
            return tir.const(self._rng.randrange(4), "int32")
        return tir.FloorMod(self._rng.choice(known), tir.const(4, "int32"))

    def _element(self, buffer: Buffer) -> PrimExpr:
        return buffer[self._index()] if len(buffer.shape) else buffer[()]

    def _value(self) -> PrimExpr:
        if self._rng.random() < 0.3:
            return tir.const(float(self._rng.randrange(9)), "float32")
        return self._element(self._rng.choice(self._buffers)) + tir.const(
            1.0, "float32"
        )

    def _store(self) -> Stmt:
        buffer = self._rng.choice(self._buffers)
        where = [self._index()] if len(buffer.shape) else []
        return tir.BufferStore(buffer, self._value(), where)

    def _sequence(self) -> Stmt:
        return tir.SeqStmt([self.statement() for _ in range(self._rng.randrange(2, 4))])

    def _new_var(self) -> Var:
        var = Var(f"v{len(self._vars)}", "int32")
        self._vars.append(var)
        return var

    def _loop(self) -> Stmt:
        var = self._new_var()
        return tir.For(var, 0, 4, tir.ForKind.SERIAL, self.statement())

    def _let(self) -> Stmt:
        value = tir.Cast("int32", self._value())
        return tir.LetStmt(self._new_var(), value, self.statement())

    def _branch(self) -> Stmt:
        condition = self._value() > tir.const(0.0, "float32")
        other = self.statement() if self._rng.random() < 0.5 else None
        return tir.IfThenElse(condition, self.statement(), other)

    def _block(self) -> Stmt:
        bound = [self._index(), self._index()]
        axes = [
            tir.IterVar(tir.Range(0, 4), self._new_var(), kind)
            for kind in (tir.IterVar.DataPar, tir.IterVar.CommReduce)
        ]
        allocs, matches = [], []
        if self._rng.random() < 0.5:
            allocs.append(tir.decl_buffer((4,), "float32", name=f"B{self._depth}"))
        if self._rng.random() < 0.6:
            source = self._rng.choice([b for b in self._buffers if len(b.shape)])
            box = tir.decl_buffer((), "float32", name=f"M{self._depth}")
            region = tir.BufferRegion(
                source, [tir.Range.from_min_extent(self._index(), 1)]
            )
            matches.append(tir.MatchBufferRegion(box, region))
        self._buffers += [*allocs, *(m.buffer for m in matches)]
        body = self.statement()
        init = self.statement() if self._rng.random() < 0.6 else None
        block = tir.Block(axes, [], [], "b", body, init, allocs, matches)
        return tir.BlockRealize(bound, tir.const(True), block)


def program(seed: int) -> IRModule | None:
    """A module of one random program; None where a scope is used from outside."""
    made = Generator(random.Random(seed))
    body = made.statement()
    try:
        function = tir.PrimFunc(
            [made.handle], body, buffer_map={made.handle: made.param}
        )
        return IRModule({"main": function})
    except (RelaxError, ValueError):
        return None


def main(seed: int, count: int) -> None:
    """Make ``count`` modules, drop some in a random order, and end with the others."""
    rng = random.Random(seed)
    alive: list[IRModule] = []
    made = valid = 0
    while made < count:
        seed += 1
        module = program(seed)
        if module is None:
            continue
        made += 1
        module.verify()  # whatever is accepted is valid MLIR
        valid += 1
        alive += [module, module.clone()]
        rng.shuffle(alive)
        del alive[: rng.randrange(2)]
    rng.shuffle(alive)
    print(f"{valid} valid, {len(alive)} alive", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

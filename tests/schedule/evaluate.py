"""Runs tensor programs point by point: what they mean, whatever they are scheduled to."""

import math

import numpy as np

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import BufferLoad

_FUNCTIONS = {"exp": math.exp, "sqrt": math.sqrt, "fabs": abs}


class _Machine:
    def __init__(self):
        self.vars = {}
        self.arrays = {}

    def term(self, term):
        if isinstance(term, (prim.IntImm, prim.FloatImm)):
            return term.value
        if isinstance(term, prim.Var):
            return self.vars[id(term)]
        if isinstance(term, BufferLoad):
            return self.arrays[id(term.buffer)][self.place(term.indices)]
        if isinstance(term, prim.And):
            return self.term(term.a) and self.term(term.b)
        if isinstance(term, prim.BinaryExpr):
            return type(term).fold(self.term(term.a), self.term(term.b))
        if isinstance(term, prim.Select):
            chosen = self.term(term.true_value), self.term(term.false_value)
            return chosen[0 if self.term(term.condition) else 1]
        if isinstance(term, prim.Cast):
            return np.dtype(term.dtype).type(self.term(term.value))
        assert isinstance(term, prim.Call), term
        if term.op_name == "if_then_else":
            condition, then, otherwise = term.args
            return self.term(then if self.term(condition) else otherwise)
        return _FUNCTIONS[term.op_name](*map(self.term, term.args))

    def place(self, indices):
        return tuple(int(self.term(index)) for index in indices)

    def match(self, matched):
        """A view of the part of an array that a buffer stands for."""
        source = matched.source
        runs = []
        for run in source.region:
            low = int(self.term(run.min))
            runs.append(slice(low, low + int(self.term(run.extent))))
        part = self.arrays[id(source.buffer)][tuple(runs)]
        shape = [int(self.term(s)) for s in matched.buffer.shape]
        sizes = [slice(None) if n != 1 else 0 for n in part.shape]
        if len(shape) != part.ndim:
            part = part[tuple(sizes)]
        assert list(part.shape) == shape, matched.buffer
        self.arrays[id(matched.buffer)] = part

    def run(self, node):
        if isinstance(node, stmt.SeqStmt):
            for inner in node.seq:
                self.run(inner)
        elif isinstance(node, stmt.For):
            first = self.term(node.min)
            for step in range(first, first + self.term(node.extent)):
                self.vars[id(node.loop_var)] = step
                self.run(node.body)
        elif isinstance(node, stmt.BlockRealize):
            self.block(node)
        elif isinstance(node, stmt.LetStmt):
            self.vars[id(node.var)] = self.term(node.value)
            self.run(node.body)
        elif isinstance(node, stmt.IfThenElse):
            if self.term(node.condition):
                self.run(node.then_case)
        else:
            assert isinstance(node, stmt.BufferStore), node
            place = self.place(node.indices)
            assert all(i >= 0 for i in place)
            self.arrays[id(node.buffer)][place] = self.term(node.value)

    def block(self, node):
        if not self.term(node.predicate):
            return
        axes, block = node.block.iter_vars, node.block
        values = [self.term(v) for v in node.iter_values]
        starts = [self.term(a.dom.min) for a in axes]
        for axis, value, start in zip(axes, values, starts, strict=True):
            self.vars[id(axis.var)] = value
            assert start <= value < start + self.term(axis.dom.extent), axis.var
        for buffer in block.alloc_buffers:
            if id(buffer) not in self.arrays:
                shape = [self.term(s) for s in buffer.shape]
                self.arrays[id(buffer)] = np.full(shape, np.nan)
        for matched in block.match_buffers:
            self.match(matched)
        is_first = all(
            value == start
            for axis, value, start in zip(axes, values, starts, strict=True)
            if axis.iter_type == prim.IterVar.CommReduce
        )
        if block.init is not None and is_first:
            self.run(block.init)
        self.run(block.body)


def evaluate(program, *arrays, sizes=()):
    """The buffers of a program after it ran on copies of arrays.

    Args:
        program: the tensor program.
        arrays: its buffers, in order.
        sizes: its other parameters.
    """
    machine = _Machine()
    given, numbers, used = iter(arrays), iter(sizes), []
    for param in program.params:
        buffer = program.buffer_map.get(param)
        if buffer is None:
            machine.vars[id(param)] = next(numbers)
            continue
        used.append(np.array(next(given), dtype=np.float64))
        machine.arrays[id(buffer)] = used[-1]
    machine.run(program.body)
    return used

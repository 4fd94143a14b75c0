"""Recurrent networks: simple ones, gated recurrent units, long short-term memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from mlir.ir import (
    BoolAttr,
    DenseF64ArrayAttr,
    FloatAttr,
    RankedTensorType,
    StringAttr,
    TupleType,
)

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.index_ranges import IndexOperand, lengths_along
from relax_mlir.dialects.relax.cell_functions import (
    array_functions,
    check_functions,
    scalar_functions,
)
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.recurrent import (
    check_shape,
    repeat,
    result_types,
    unpacked,
)
from relax_mlir.dialects.relax.recurrent_program import (
    Lanes,
    StepWriter,
    block_width,
    write_steps,
)
from relax_mlir.dialects.relax.recurrent_threads import ThreadStepWriter
from relax_mlir.dialects.tir import Buffer, Builder, Scalar
from relax_mlir.dialects.tir.lanes import lanes_for

__all__ = ["GruOp", "LstmOp", "RecurrentOp", "RnnOp"]


class RecurrentOp(Relax.Operation):
    """Base of the recurrent networks: cells of ``h`` units that are repeated over time.

    Attributes:
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        functions: names, with spaces between them; alphas, betas: parameters of each.
        clip: what limits the arguments of the functions; None for no limit.
    """

    skips_parts = True
    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # sums in another order, step after step
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "lengths": IndexOperand(
            lambda x, *operands, **attrs: lengths_along(x, 0),
            "clamps: counts as the nearest length",
        )
    }

    x: Operand[RankedTensorType]
    r: Operand[RankedTensorType]
    h: Operand[RankedTensorType]
    y: Result[TupleType]
    direction: StringAttr
    functions: StringAttr
    alphas: DenseF64ArrayAttr
    betas: DenseF64ArrayAttr
    clip: FloatAttr | None

    def scalar_functions(self, b: Builder) -> list[Callable[[Scalar], Scalar]]:
        """The functions of the cell."""
        attrs = self.python_attrs()
        named = (attrs[n] for n in ("functions", "alphas", "betas", "clip"))
        return scalar_functions(b, *named)

    def write(
        self,
        b: Builder,
        states: Sequence[Buffer],
        write_step: Callable[[StepWriter], None],
    ) -> list[Buffer]:
        """The program, whose steps ``write_step`` writes."""
        x, r, *_, lengths = b.inputs
        kind = ThreadStepWriter if b.has_threads else StepWriter
        writer = kind(b, x, r, states)
        return write_steps(b, writer, lengths, self.direction.value, write_step)


def _shapes(
    time: int,
    batch: int,
    directions: int,
    gates: int,
    size: int,
    type_: str = "float32",
) -> list[tuple[Any, ...]]:  # Any: sizes and a type
    """The shapes of x, r and one state."""
    width = block_width(size, lanes_for(dtype(type_)))
    return [
        (time, batch, directions, gates * size, type_),
        (directions, gates, -(-size // width), size, width, type_),
        (directions, batch, size, type_),
    ]


_EVERY = (0, "int32")  # lengths, where all sequences have all steps


class RnnOp(RecurrentOp, name="nn_rnn"):
    """A simple recurrent network: f(x + h r), step after step.

    Attributes:
        direction, functions, alphas, betas, clip: see the base; one function.
    Shapes:
        x: [t, b, d, h], what comes from outside; r: [d, 1, n, h, w], the h columns of its
        gate in n blocks of w; h: [d, b, h], the state before the first step. lengths: [b], int32, the steps of each sequence, or [0]
        where all have all; y is 0 behind them. d is 2 if ``bidirectional``, else 1.
        y: a tuple of all states, [t, d, b, h], and the last, [d, b, h].
    Source: ONNX RNN-22.
    """

    lengths: Operand[RankedTensorType]

    cases = (
        Case(*_shapes(3, 2, 1, 1, 5), _EVERY),
        Case(*_shapes(2, 3, 1, 1, 35), _EVERY, direction="reverse"),
        Case(*_shapes(2, 1, 1, 1, 130), _EVERY, clip=0.5),
        Case(
            *_shapes(4, 3, 2, 1, 16),
            (3, "int32"),
            direction="bidirectional",
            low=-1,
            high=5,
        ),
        Case(*_shapes(0, 2, 1, 1, 3), _EVERY),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        r: RankedTensorType,
        h: RankedTensorType,
        lengths: RankedTensorType,
        direction: str = "forward",
        functions: str = "tanh",
        alphas: Sequence[float] = (0.0,),
        betas: Sequence[float] = (0.0,),
        clip: float | None = None,
    ) -> TupleType:
        check_functions(functions, alphas, betas, 1)
        return result_types(1, x, r, [h], lengths, direction)

    @staticmethod
    def reference(
        x: np.ndarray,
        r: np.ndarray,
        h: np.ndarray,
        lengths: np.ndarray,
        direction: str,
        functions: str,
        alphas: Sequence[float],
        betas: Sequence[float],
        clip: float | None,
    ) -> list[np.ndarray]:
        (f,) = array_functions(functions, alphas, betas, clip)
        r = unpacked(r, h.shape[-1])

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            return [f(x + states[0] @ r[d])]

        return repeat(x, [h], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        (f,) = self.scalar_functions(b)

        def step(w: StepWriter) -> None:
            (h,) = w.states
            w.multiply(h, range(1))
            w.each(lambda units: units.store(h, f(w.gate(0, units))))

        return self.write(b, [b.inputs[2]], step)


class GruOp(RecurrentOp, name="nn_gru"):
    """Gated recurrent units.

    With z = f(x_z + h r_z) and s = f(x_s + h r_s) the next state is (1 - z) n + z h, where
    n = g(x_n + (s h) r_n), or g(x_n + s (h r_n + bias)) with ``linear_before_reset``.

    Attributes:
        direction, functions, alphas, betas, clip: see the base; f and g.
        linear_before_reset: whether s acts on the product.
    Shapes:
        x: [t, b, d, 3 h], for z, s and n; r: [d, 3, n, h, w]; bias: [d, h], read with
        ``linear_before_reset``; h, lengths, y: as for ``nn.rnn``.
    Source: ONNX GRU-22; Cho et al., Learning Phrase Representations using RNN
    Encoder-Decoder, 2014.
    """

    bias: Operand[RankedTensorType]
    lengths: Operand[RankedTensorType]
    linear_before_reset: BoolAttr

    cases = (
        Case(*_shapes(3, 2, 1, 3, 5), (1, 5), _EVERY),
        Case(
            *_shapes(3, 5, 2, 3, 35),
            *((2, 35), (5, "int32")),
            direction="bidirectional",
            linear_before_reset=True,
            low=-0.5,
            high=3.5,
        ),
        Case(
            *_shapes(2, 1, 1, 3, 16),
            *((1, 16), _EVERY),
            functions="relu softsign",
            direction="reverse",
            clip=0.5,
        ),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        r: RankedTensorType,
        h: RankedTensorType,
        bias: RankedTensorType,
        lengths: RankedTensorType,
        direction: str = "forward",
        functions: str = "sigmoid tanh",
        alphas: Sequence[float] = (0.0,) * 2,
        betas: Sequence[float] = (0.0,) * 2,
        clip: float | None = None,
        linear_before_reset: bool = False,
    ) -> TupleType:
        check_functions(functions, alphas, betas, 2)
        types = result_types(3, x, r, [h], lengths, direction)
        directions, _, size = tensors.shape_of(h)
        check_shape("bias", tensors.shape_of(bias), (directions, size))
        return types

    @staticmethod
    def reference(
        x: np.ndarray,
        r: np.ndarray,
        h: np.ndarray,
        bias: np.ndarray,
        lengths: np.ndarray,
        direction: str,
        functions: str,
        alphas: Sequence[float],
        betas: Sequence[float],
        clip: float | None,
        linear_before_reset: bool,
    ) -> list[np.ndarray]:
        f, g = array_functions(functions, alphas, betas, clip)
        r = unpacked(r, h.shape[-1])

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            (h,) = states
            (x_z, x_s, x_n), (r_z, r_s, r_n) = np.split(x, 3), np.split(r[d], 3, axis=1)
            z, s = f(x_z + h @ r_z), f(x_s + h @ r_s)
            if linear_before_reset:
                n = g(x_n + s * (h @ r_n + bias[d]))
            else:
                n = g(x_n + (s * h) @ r_n)
            return [(1 - z) * n + z * h]

        return repeat(x, [h], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        step = self._reset_product if self.linear_before_reset.value else self._reset
        functions = self.scalar_functions(b)
        return self.write(b, [b.inputs[2]], lambda w: step(w, *functions))

    def _reset(
        self,
        w: StepWriter,
        f: Callable[[Scalar], Scalar],
        g: Callable[[Scalar], Scalar],
    ) -> None:
        """A step in which s acts on the state."""
        (h,) = w.states
        w.multiply(h, range(2))
        w.each(lambda u: u.store(w.spare, f(w.gate(1, u)) * u.load(h)))
        w.multiply(w.spare, range(2, 3))

        def update(units: Lanes) -> None:
            z, n = f(w.gate(0, units)), g(w.gate(2, units))
            units.store(h, n + z * (units.load(h) - n))

        w.each(update)

    def _reset_product(
        self,
        w: StepWriter,
        f: Callable[[Scalar], Scalar],
        g: Callable[[Scalar], Scalar],
    ) -> None:
        """A step in which s acts on the product."""
        (h,), bias = w.states, w.b.buffer(self.bias)
        w.multiply(h, range(2))
        w.multiply(h, range(2, 3), lambda c: w.parameter(bias, c, -2 * w.size))

        def update(units: Lanes) -> None:
            z, s = f(w.gate(0, units)), f(w.gate(1, units))
            x = w.input(w.of_gate(2, units))
            n = g(x + s * w.gate(2, units))
            units.store(h, n + z * (units.load(h) - n))

        w.each(update)


class LstmOp(RecurrentOp, name="nn_lstm"):
    """Long short-term memory.

    With i = f(x_i + h r_i + p_i c), e = f(x_e + h r_e + p_e c) and n = g(x_n + h r_n) the
    cell becomes c' = e c + i n, and the state k(c') f(x_o + h r_o + p_o c').

    Attributes:
        direction, functions, alphas, betas, clip: see the base; f, g and k.
        input_forget: whether e is 1 - i instead.
    Shapes:
        x: [t, b, d, 4 h], for i, o, e and n; r: [d, 4, n, h, w]; h, c: [d, b, h], the state
        and the cell before the first step; peepholes: [d, 3 h], p for i, o and e, or
        [d, 0] for none; lengths: as for ``nn.rnn``. y: a tuple of all states, [t, d, b, h],
        and the last state and cell, [d, b, h].
    Source: ONNX LSTM-22; Gers, Schraudolph and Schmidhuber, Learning Precise Timing with
    LSTM Recurrent Networks, JMLR 3, 2002.
    """

    c: Operand[RankedTensorType]
    peepholes: Operand[RankedTensorType]
    lengths: Operand[RankedTensorType]
    input_forget: BoolAttr

    cases = (
        Case(*_shapes(3, 2, 1, 4, 5), (1, 2, 5), (1, 0), _EVERY),
        Case(
            *_shapes(3, 11, 2, 4, 35),
            *((2, 11, 35), (2, 105), (11, "int32")),
            direction="bidirectional",
            low=-0.5,
            high=3.5,
        ),
        Case(
            *_shapes(2, 1, 1, 4, 16),
            *((1, 1, 16), (1, 48), _EVERY),
            direction="reverse",
            input_forget=True,
            clip=0.5,
        ),
        *(
            Case(
                *_shapes(2, 1, 1, 4, 3, "float64"),
                *((1, 1, 3, "float64"), (1, 0, "float64"), _EVERY),
                functions=names,
                alphas=(0.7, 0.9, 0.4),
                betas=(0.3, 0.2, 0.6),
            )
            for names in (
                "affine elu hardsigmoid",
                "leakyrelu relu scaledtanh",
                "softplus softsign thresholdedrelu",
            )
        ),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        r: RankedTensorType,
        h: RankedTensorType,
        c: RankedTensorType,
        peepholes: RankedTensorType,
        lengths: RankedTensorType,
        direction: str = "forward",
        functions: str = "sigmoid tanh tanh",
        alphas: Sequence[float] = (0.0,) * 3,
        betas: Sequence[float] = (0.0,) * 3,
        clip: float | None = None,
        input_forget: bool = False,
    ) -> TupleType:
        check_functions(functions, alphas, betas, 3)
        types = result_types(4, x, r, [h, c], lengths, direction)
        directions, _, size = tensors.shape_of(h)
        found = tensors.shape_of(peepholes)
        if found[1:] != (0,):
            check_shape("peepholes", found, (directions, 3 * size))
        return types

    @staticmethod
    def reference(
        x: np.ndarray,
        r: np.ndarray,
        h: np.ndarray,
        c: np.ndarray,
        peepholes: np.ndarray,
        lengths: np.ndarray,
        direction: str,
        functions: str,
        alphas: Sequence[float],
        betas: Sequence[float],
        clip: float | None,
        input_forget: bool,
    ) -> list[np.ndarray]:
        f, g, k = array_functions(functions, alphas, betas, clip)
        size = h.shape[-1]
        r = unpacked(r, size)
        p = np.zeros((len(r), 3 * size), x.dtype) if not peepholes.size else peepholes

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            h, c = states
            i, o, e, n = np.split(x + h @ r[d], 4)
            p_i, p_o, p_e = np.split(p[d], 3)
            i = f(i + p_i * c)
            e = 1 - i if input_forget else f(e + p_e * c)
            after = e * c + i * g(n)
            return [f(o + p_o * after) * k(after), after]

        return repeat(x, [h, c], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        f, g, k = self.scalar_functions(b)
        peepholes = b.buffer(self.peepholes)

        def step(w: StepWriter) -> None:
            h, c = w.states
            w.multiply(h, range(4))

            def gate(number: int, units: Lanes, cell: Scalar) -> Scalar:
                total = w.gate(number, units)
                if peepholes.shape[1] == 0:
                    return f(total)
                p = w.parameter(peepholes, units, number * w.size)
                return f(total + p * cell)

            def update(units: Lanes) -> None:
                before = units.load(c)
                i = gate(0, units, before)
                e = 1.0 - i if self.input_forget.value else gate(2, units, before)
                after = e * before + i * g(w.gate(3, units))
                units.store(c, after)
                units.store(h, gate(1, units, after) * k(after))

            w.each(update)

        return self.write(b, [b.inputs[2], b.inputs[3]], step)

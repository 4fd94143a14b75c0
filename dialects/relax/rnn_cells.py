"""Recurrent networks: RNN, GRU and LSTM."""

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
from relax_mlir.dialects.index_ranges import IndexOperand, length_range
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.rnn import (
    check_operand_shape,
    rnn_reference,
    rnn_result_types,
    unpack_weights,
)
from relax_mlir.dialects.relax.rnn_activations import (
    array_functions,
    check_functions,
    scalar_functions,
)
from relax_mlir.dialects.relax.rnn_program import (
    StepWriter,
    UnitLanes,
    panel_width,
    write_steps,
)
from relax_mlir.dialects.relax.rnn_threads import ThreadStepWriter
from relax_mlir.dialects.tir import Buffer, Builder, Scalar
from relax_mlir.dialects.tir.vectors import vector_lanes

__all__ = ["GruOp", "LstmOp", "RecurrentOp", "RnnOp"]


class RecurrentOp(Relax.Operation):
    """Base of the recurrent networks, with cells of ``h`` hidden units.

    Attributes:
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        functions: names of the activation functions, separated by spaces.
        alphas, betas: parameters of each function.
        clip: arguments of the functions are clipped to [-clip, clip]; None for no limit.
    """

    skips_unused_results = True
    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # sums in another order, accumulated over steps
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "lengths": IndexOperand(
            lambda x, *operands, **attrs: length_range(x, 0),
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
        """The activation functions of the cell."""
        attrs = self.python_attrs()
        named = (attrs[n] for n in ("functions", "alphas", "betas", "clip"))
        return scalar_functions(b, *named)

    def write(
        self,
        b: Builder,
        states: Sequence[Buffer],
        write_step: Callable[[StepWriter], None],
    ) -> list[Buffer]:
        """Emits the tensor program, whose time steps ``write_step`` emits."""
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
    """The shapes of x, r and a state."""
    width = panel_width(size, vector_lanes(dtype(type_)))
    return [
        (time, batch, directions, gates * size, type_),
        (directions, gates, -(-size // width), size, width, type_),
        (directions, batch, size, type_),
    ]


_FULL_LENGTH = (0, "int32")  # lengths operand if all sequences have full length


class RnnOp(RecurrentOp, name="nn_rnn"):
    """A simple (Elman) recurrent network: h' = f(x + h r) at every time step.

    Attributes:
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        functions, alphas, betas: the activation function f and its parameters.
        clip: arguments of f are clipped to [-clip, clip]; None for no limit.
    Shapes:
        x: [t, b, d, h], the input already multiplied by its weights, plus biases;
        r: [d, 1, n, h, w], the recurrent weights, whose h columns are packed in n panels
        of w; h: [d, b, h], the initial state; lengths: [b], int32, the length of each
        sequence, or [0] for full length; y: a tuple of all states, [t, d, b, h], which are 0
        beyond a sequence's length, and the final state, [d, b, h]. d is 2 if
        ``bidirectional``, else 1.
    Source: ONNX RNN-22.
    """

    lengths: Operand[RankedTensorType]

    cases = (
        Case(*_shapes(3, 2, 1, 1, 5), _FULL_LENGTH),
        Case(*_shapes(2, 3, 1, 1, 35), _FULL_LENGTH, direction="reverse"),
        Case(*_shapes(2, 1, 1, 1, 130), _FULL_LENGTH, clip=0.5),
        Case(
            *_shapes(4, 3, 2, 1, 16),
            (3, "int32"),
            direction="bidirectional",
            low=-1,
            high=5,
        ),
        Case(*_shapes(0, 2, 1, 1, 3), _FULL_LENGTH),
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
        return rnn_result_types(1, x, r, [h], lengths, direction)

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
        r = unpack_weights(r, h.shape[-1])

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            return [f(x + states[0] @ r[d])]

        return rnn_reference(x, [h], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        (f,) = self.scalar_functions(b)

        def step(w: StepWriter) -> None:
            (h,) = w.states
            w.multiply(h, range(1))
            w.for_each_unit(lambda units: units.store(h, f(w.gate(0, units))))

        return self.write(b, [b.inputs[2]], step)


class GruOp(RecurrentOp, name="nn_gru"):
    """Gated recurrent units (GRU).

    With the gates z = f(x_z + h r_z) and s = f(x_s + h r_s), the next state is
    h' = (1 - z) n + z h, where n = g(x_n + (s h) r_n), or g(x_n + s (h r_n + bias)) with
    ``linear_before_reset``.

    Attributes:
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        functions, alphas, betas: the activation functions f and g and their parameters.
        clip: arguments of the functions are clipped to [-clip, clip]; None for no limit.
        linear_before_reset: whether the reset gate s is applied after the matmul.
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
        Case(*_shapes(3, 2, 1, 3, 5), (1, 5), _FULL_LENGTH),
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
            *((1, 16), _FULL_LENGTH),
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
        types = rnn_result_types(3, x, r, [h], lengths, direction)
        directions, _, size = tensors.shape_of(h)
        check_operand_shape("bias", tensors.shape_of(bias), (directions, size))
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
        r = unpack_weights(r, h.shape[-1])

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            (h,) = states
            (x_z, x_s, x_n), (r_z, r_s, r_n) = np.split(x, 3), np.split(r[d], 3, axis=1)
            z, s = f(x_z + h @ r_z), f(x_s + h @ r_s)
            if linear_before_reset:
                n = g(x_n + s * (h @ r_n + bias[d]))
            else:
                n = g(x_n + (s * h) @ r_n)
            return [(1 - z) * n + z * h]

        return rnn_reference(x, [h], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        is_late = self.linear_before_reset.value
        step = self._step_reset_after if is_late else self._step_reset_before
        functions = self.scalar_functions(b)
        return self.write(b, [b.inputs[2]], lambda w: step(w, *functions))

    def _step_reset_before(
        self,
        w: StepWriter,
        f: Callable[[Scalar], Scalar],
        g: Callable[[Scalar], Scalar],
    ) -> None:
        """A step in which the reset gate is applied to the state."""
        (h,) = w.states
        w.multiply(h, range(2))
        w.for_each_unit(lambda u: u.store(w.spare, f(w.gate(1, u)) * u.load(h)))
        w.multiply(w.spare, range(2, 3))

        def update(units: UnitLanes) -> None:
            z, n = f(w.gate(0, units)), g(w.gate(2, units))
            units.store(h, n + z * (units.load(h) - n))

        w.for_each_unit(update)

    def _step_reset_after(
        self,
        w: StepWriter,
        f: Callable[[Scalar], Scalar],
        g: Callable[[Scalar], Scalar],
    ) -> None:
        """A step in which the reset gate is applied after the matmul."""
        (h,), bias = w.states, w.b.buffer(self.bias)
        w.multiply(h, range(2))
        w.multiply(h, range(2, 3), lambda c: w.parameter(bias, c, -2 * w.size))

        def update(units: UnitLanes) -> None:
            z, s = f(w.gate(0, units)), f(w.gate(1, units))
            x = w.input(w.gate_columns(2, units))
            n = g(x + s * w.gate(2, units))
            units.store(h, n + z * (units.load(h) - n))

        w.for_each_unit(update)


class LstmOp(RecurrentOp, name="nn_lstm"):
    """Long short-term memory (LSTM) with optional peepholes.

    With the input gate i = f(x_i + h r_i + p_i c), the forget gate e = f(x_e + h r_e +
    p_e c) and n = g(x_n + h r_n), the next cell state is c' = e c + i n and the next hidden
    state h' = k(c') f(x_o + h r_o + p_o c').

    Attributes:
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        functions, alphas, betas: the activation functions f, g and k and their parameters.
        clip: arguments of the functions are clipped to [-clip, clip]; None for no limit.
        input_forget: whether the forget gate is 1 - i instead (coupled gates).
    Shapes:
        x: [t, b, d, 4 h], for i, o, e and n; r: [d, 4, n, h, w]; h, c: [d, b, h], the
        initial hidden and cell states; peepholes: [d, 3 h], p for i, o and e, or [d, 0] for
        none; lengths: as for ``nn.rnn``; y: a tuple of all hidden states, [t, d, b, h], and
        the final hidden and cell states, [d, b, h].
    Source: ONNX LSTM-22; Gers, Schraudolph and Schmidhuber, Learning Precise Timing with
        LSTM Recurrent Networks, JMLR 3, 2002.
    """

    c: Operand[RankedTensorType]
    peepholes: Operand[RankedTensorType]
    lengths: Operand[RankedTensorType]
    input_forget: BoolAttr

    cases = (
        Case(*_shapes(3, 2, 1, 4, 5), (1, 2, 5), (1, 0), _FULL_LENGTH),
        Case(
            *_shapes(3, 11, 2, 4, 35),
            *((2, 11, 35), (2, 105), (11, "int32")),
            direction="bidirectional",
            low=-0.5,
            high=3.5,
        ),
        Case(
            *_shapes(2, 1, 1, 4, 16),
            *((1, 1, 16), (1, 48), _FULL_LENGTH),
            direction="reverse",
            input_forget=True,
            clip=0.5,
        ),
        *(
            Case(
                *_shapes(2, 1, 1, 4, 3, "float64"),
                *((1, 1, 3, "float64"), (1, 0, "float64"), _FULL_LENGTH),
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
        types = rnn_result_types(4, x, r, [h, c], lengths, direction)
        directions, _, size = tensors.shape_of(h)
        shape = tensors.shape_of(peepholes)
        if shape[1:] != (0,):
            check_operand_shape("peepholes", shape, (directions, 3 * size))
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
        r = unpack_weights(r, size)
        p = np.zeros((len(r), 3 * size), x.dtype) if not peepholes.size else peepholes

        def step(d: int, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
            h, c = states
            i, o, e, n = np.split(x + h @ r[d], 4)
            p_i, p_o, p_e = np.split(p[d], 3)
            i = f(i + p_i * c)
            e = 1 - i if input_forget else f(e + p_e * c)
            cell = e * c + i * g(n)
            return [f(o + p_o * cell) * k(cell), cell]

        return rnn_reference(x, [h, c], lengths, direction, step)

    def legalize(self, b: Builder) -> list[Buffer]:
        f, g, k = self.scalar_functions(b)
        peepholes = b.buffer(self.peepholes)

        def step(w: StepWriter) -> None:
            h, c = w.states
            w.multiply(h, range(4))

            def gate(number: int, units: UnitLanes, cell: Scalar) -> Scalar:
                total = w.gate(number, units)
                if peepholes.shape[1] == 0:
                    return f(total)
                p = w.parameter(peepholes, units, number * w.size)
                return f(total + p * cell)

            def update(units: UnitLanes) -> None:
                old = units.load(c)
                i = gate(0, units, old)
                e = 1.0 - i if self.input_forget.value else gate(2, units, old)
                cell = e * old + i * g(w.gate(3, units))
                units.store(c, cell)
                units.store(h, gate(1, units, cell) * k(cell))

            w.for_each_unit(update)

        return self.write(b, [b.inputs[2], b.inputs[3]], step)

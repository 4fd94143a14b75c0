"""Tensors and operations of tensor expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from relax_mlir.errors import MissingElementError, OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Reduce, Var
from relax_mlir.objects.stmt.buffer import Buffer

__all__ = [
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "ProducerLoad",
    "Tensor",
    "TensorSlice",
    "register_overload",
]

# The implementations of Python operators on tensors; registered by topi.
_OVERLOADS: dict[str, Callable[..., Any]] = {}


def register_overload(name: str, compute: Callable[..., Any]) -> None:
    """Register the implementation of an operator on tensors, such as ``add``."""
    _OVERLOADS[name] = compute


class Operation:
    """An operation that computes tensors.

    Attributes:
        name: the name of its tensors.
        tag: the kind of operator.
        attrs: further attributes.
    """

    def __init__(
        self, name: str, tag: str = "", attrs: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self.tag = tag
        self.attrs = dict(attrs or {})
        self._outputs: list[Tensor] = []

    def _set_outputs(
        self, shapes: Sequence[Sequence[Any]], dtypes: Sequence[str]
    ) -> None:
        pairs = enumerate(zip(shapes, dtypes, strict=True))
        self._outputs = [Tensor(self, n, shape, dtype) for n, (shape, dtype) in pairs]

    @property
    def num_outputs(self) -> int:
        """The number of output tensors."""
        return len(self._outputs)

    def output(self, index: int) -> Tensor:
        """An output tensor.

        Raises:
            MissingElementError: the index is out of range.
        """
        if not 0 <= index < len(self._outputs):
            raise MissingElementError(
                f"output: `index`: expected one of {len(self._outputs)} tensors, "
                f"got {index}"
            )
        return self._outputs[index]

    @property
    def input_tensors(self) -> list[Tensor]:
        """The input tensors, in order of first use."""
        return []

    def same_as(self, other: object) -> bool:
        """Whether both are the same object."""
        return self is other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An input tensor."""

    def __init__(self, name: str, shape: Sequence[Any], dtype: str) -> None:
        super().__init__(name)
        self._set_outputs([shape], [dtype])

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """The shape."""
        return self.output(0).shape

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.output(0).dtype


class ComputeOp(Operation):
    """Tensors whose elements are expressions in the axes.

    Attributes:
        axis: the axes of the result.
        body: one expression per tensor; all reductions over the same axes, or none.
    """

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: Sequence[IterVar],
        body: Sequence[PrimExpr],
    ) -> None:
        super().__init__(name, tag, attrs)
        where = f"ComputeOp `{name}`"
        self.axis = tuple(instance_of(a, IterVar, where, "axes") for a in axis)
        self.body = tuple(instance_of(b, PrimExpr, where, "terms") for b in body)
        self._check()
        shape = [axis.dom.extent for axis in self.axis]
        self._set_outputs([shape] * len(body), [expr.dtype for expr in body])

    def _check(self) -> None:
        for expr in self.body:
            inner = expr.children() if isinstance(expr, Reduce) else (expr,)
            if any(
                isinstance(t, Reduce) for part in inner for t in prim.post_order(part)
            ):
                raise OperatorError(
                    f"`{self.name}`: expected reductions only as the whole of a computed "
                    "element, got one inside another term. Compute it as a tensor first."
                )
        kinds = {isinstance(expr, Reduce) for expr in self.body}
        axes = [t.axis for t in self.body if isinstance(t, Reduce)]
        is_same = all(
            len(a) == len(axes[0]) and all(map(operator.is_, a, axes[0])) for a in axes
        )
        if len(kinds) > 1 or not is_same:
            raise OperatorError(
                f"`{self.name}`: expected all results to be reductions over the same "
                "axes, or none"
            )

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The reduction axes."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def input_tensors(self) -> list[Tensor]:
        return producers_in(*self.body)


class ExternOp(Operation):
    """Tensors computed by a TIR statement on placeholder buffers.

    Attributes:
        inputs: the input tensors.
        input_placeholders: the buffers the statement reads instead of them.
        output_placeholders: the buffers it writes.
        body: the statement.
    """

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        inputs: Sequence[Tensor],
        input_placeholders: Sequence[Any],
        output_placeholders: Sequence[Any],
        body: Any,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.inputs = tuple(inputs)
        self.input_placeholders = tuple(input_placeholders)
        self.output_placeholders = tuple(
            instance_of(b, Buffer, "ExternOp: `output_placeholders`", "buffers")
            for b in output_placeholders
        )
        self.body = body
        shapes = [b.shape for b in self.output_placeholders]
        self._set_outputs(shapes, [b.dtype for b in self.output_placeholders])

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(self.inputs)


def producers_in(*exprs: PrimExpr) -> list[Tensor]:
    """The tensors that expressions load from, in order, each once."""
    found: dict[Tensor, None] = {}
    for expr in exprs:
        parts = [expr]
        if isinstance(expr, Reduce):
            parts = [*expr.source, *expr.init]
            parts += [expr.condition] if expr.condition is not None else []
        for part in parts:
            for load in prim.post_order(part):
                if isinstance(load, ProducerLoad):
                    found[load.producer] = None
    return list(found)


def _operator(name: str, *, swap: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if name not in _OVERLOADS:
            return NotImplemented
        return _OVERLOADS[name](*((other, self) if swap else (self, other)))

    return method


class Tensor:
    """An output of an operation; ``tensor[i, j]`` is an element, as an expression.

    Attributes:
        op: the operation.
        value_index: the index of the output.
        shape: the shape.
        dtype: the element type.
    """

    __array_ufunc__ = None  # numpy must not broadcast over it

    def __init__(
        self, op: Operation, value_index: int, shape: Sequence[Any], dtype: str
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.shape: tuple[PrimExpr, ...] = TensorShape(map(prim.convert, shape))
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name, with the index of the output if it has several."""
        if self.op.num_outputs == 1:
            return self.op.name
        return f"{self.op.name}.v{self.value_index}"

    def __call__(self, *indices: Any) -> ProducerLoad:
        if len(indices) != self.ndim:
            raise ValueError(
                f"`{self.name}`: expected {self.ndim} indices, got {len(indices)}"
            )
        return ProducerLoad(self, indices)

    def __getitem__(self, indices: Any) -> Any:
        listed = indices if isinstance(indices, tuple) else (indices,)
        if len(listed) < self.ndim:
            return TensorSlice(self, listed)
        return self(*listed)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"`{self.name}`: expected something to iterate over, got a tensor"
        )

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return False
        return self.op is other.op and self.value_index == other.value_index

    def same_as(self, other: object) -> bool:
        """Whether both are the same output of the same operation."""
        return self == other

    def astype(self, dtype: str, span: object = None) -> Any:
        """The tensor converted to another element type."""
        return _OVERLOADS["cast"](self, dtype)

    def __neg__(self) -> Any:
        return self * prim.const(-1, self.dtype)

    __add__, __radd__ = _operator("add"), _operator("add", swap=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", swap=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", swap=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", swap=True)

    def __bool__(self) -> bool:
        raise ValueError(f"tensor `{self.name}` has no truth value before it runs")

    def __repr__(self) -> str:
        return f"Tensor(shape={list(self.shape)}, op.name={self.op.name})"


class TensorShape(tuple[PrimExpr, ...]):
    """The shape of a tensor; an index out of range raises a :class:`MissingElementError`."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        if not -len(self) <= index < len(self):
            raise MissingElementError(
                f"a tensor of shape {list(self)}: expected one that has dimension {index}"
            )
        return tuple.__getitem__(self, index)


class TensorSlice:
    """A tensor with its leading indices given; with all indices given it is an element."""

    def __init__(self, tensor: Tensor, indices: Sequence[Any]) -> None:
        self.tensor = tensor
        self.indices = tuple(indices)

    def __iter__(self) -> NoReturn:
        iter(self.tensor)
        raise AssertionError  # that was an error

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *more)]

    def asobject(self) -> ProducerLoad:
        """The element as an expression.

        Raises:
            ValueError: indices are missing.
        """
        return self.tensor(*self.indices)

    as_prim_expr = asobject


class ProducerLoad(PrimExpr):
    """A load of an element of a tensor.

    Attributes:
        producer: the tensor.
        indices: the indices.
    """

    __slots__ = ("indices", "producer")

    def __init__(
        self, producer: Tensor, indices: Sequence[Any], span: object = None
    ) -> None:
        listed = sequence_of(indices, "ProducerLoad: `indices`", "terms")
        self.producer = producer
        self.indices = tuple(_index(i) for i in listed)
        self.dtype = producer.dtype

    def children(self) -> tuple[PrimExpr, ...]:
        return self.indices

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return ProducerLoad(self.producer, children)

    def key(self) -> tuple[object, ...]:
        return (id(self.producer.op), self.producer.value_index)

    def asobject(self) -> ProducerLoad:
        """The load itself."""
        return self

    def script_text(self) -> str:
        """The load in TVMScript."""
        return f"{self.producer.name}[{', '.join(map(str, self.indices)) or '()'}]"


def _index(value: Any) -> PrimExpr:
    expr = prim.convert(value)
    if isinstance(expr, Var) or expr.is_integer or expr.dtype == "bool":
        return expr
    return prim.cast("int32", expr)

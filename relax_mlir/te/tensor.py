"""Tensors that stand for what computes them: the terms of tensor expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from relax_mlir.errors import MissingElementError, OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim import IterVar, PrimExpr, Reduce, Var

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

# How Python's operators on whole tensors are computed; topi fills it in.
_OVERLOADS: dict[str, Callable[..., Any]] = {}


def register_overload(name: str, compute: Callable[..., Any]) -> None:
    """Say what an operator on tensors, such as ``add``, computes."""
    _OVERLOADS[name] = compute


class Operation:
    """What computes tensors.

    Attributes:
        name: what its tensors are called.
        tag: what kind of operator it is.
        attrs: what else is known of it.
    """

    def __init__(
        self, name: str, tag: str = "", attrs: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self.tag = tag
        self.attrs = dict(attrs or {})
        self._outputs: list[Tensor] = []

    def _give(self, shapes: Sequence[Sequence[Any]], dtypes: Sequence[str]) -> None:
        pairs = enumerate(zip(shapes, dtypes, strict=True))
        self._outputs = [Tensor(self, n, shape, dtype) for n, (shape, dtype) in pairs]

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self._outputs)

    def output(self, index: int) -> Tensor:
        """One of the tensors that it computes.

        Raises:
            MissingElementError: there is no such one.
        """
        if not 0 <= index < len(self._outputs):
            raise MissingElementError(
                f"output: `index`: expected one of {len(self._outputs)} tensors, "
                f"got {index}"
            )
        return self._outputs[index]

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that it reads, in the order in which it mentions them."""
        return []

    def same_as(self, other: object) -> bool:
        """Whether it is the same operation."""
        return self is other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """A tensor that is given."""

    def __init__(self, name: str, shape: Sequence[Any], dtype: str) -> None:
        super().__init__(name)
        self._give([shape], [dtype])

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """Its sizes."""
        return self.output(0).shape

    @property
    def dtype(self) -> str:
        """Type of its elements."""
        return self.output(0).dtype


class ComputeOp(Operation):
    """Tensors whose elements are terms in the axes.

    Attributes:
        axis: the axes of the result.
        body: a term per tensor; all reductions of the same elements, or none.
        shape: the sizes of the result; more than axes where it does not depend on some.
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
        self._give([shape] * len(body), [term.dtype for term in body])

    def _check(self) -> None:
        for term in self.body:
            inner = term.children() if isinstance(term, Reduce) else (term,)
            if any(
                isinstance(t, Reduce) for part in inner for t in prim.post_order(part)
            ):
                raise OperatorError(
                    f"`{self.name}`: expected reductions only as the whole of a computed "
                    "element, got one inside another term. Compute it as a tensor first."
                )
        kinds = {isinstance(term, Reduce) for term in self.body}
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
        """The axes that the elements are reduced over."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def input_tensors(self) -> list[Tensor]:
        return tensors_in(*self.body)


class ExternOp(Operation):
    """Tensors that a statement computes, of buffers that stand for inputs and results.

    Attributes:
        inputs: the tensors that it reads.
        input_placeholders: the buffers that the statement reads instead of them.
        output_placeholders: the buffers that it writes.
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
        self._give(shapes, [b.dtype for b in self.output_placeholders])

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(self.inputs)


def tensors_in(*terms: PrimExpr) -> list[Tensor]:
    """The tensors that terms load from, in order, each once."""
    found: dict[Tensor, None] = {}
    for term in terms:
        parts = [term]
        if isinstance(term, Reduce):
            parts = [*term.source, *term.init]
            parts += [term.condition] if term.condition is not None else []
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
    """One result of an operation; ``tensor[i, j]`` is an element, as a term.

    Attributes:
        op: what computes it.
        value_index: which of the results it is.
        shape: its sizes.
        dtype: type of its elements.
    """

    __array_ufunc__ = None  # numpy must not swallow it element by element

    def __init__(
        self, op: Operation, value_index: int, shape: Sequence[Any], dtype: str
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.shape: tuple[PrimExpr, ...] = Sizes(map(prim.convert, shape))
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name, with the number of the result if it has several."""
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
        """Whether it is the same tensor."""
        return self == other

    def astype(self, dtype: str, span: object = None) -> Any:
        """The tensor in another element type."""
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


class Sizes(tuple[PrimExpr, ...]):
    """The sizes of a tensor; asking for one that it has not is an error of ours."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        if not -len(self) <= place < len(self):
            raise MissingElementError(
                f"a tensor of shape {list(self)}: expected one that has dimension {place}"
            )
        return tuple.__getitem__(self, place)


class TensorSlice:
    """A tensor with its first indices given; with the last it is an element."""

    def __init__(self, tensor: Tensor, indices: Sequence[Any]) -> None:
        self.tensor = tensor
        self.indices = tuple(indices)

    def __iter__(self) -> NoReturn:
        iter(self.tensor)
        raise AssertionError  # that was an error

    @property
    def dtype(self) -> str:
        """Type of the elements."""
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *more)]

    def asobject(self) -> ProducerLoad:
        """The element.

        Raises:
            ValueError: indices are missing.
        """
        return self.tensor(*self.indices)

    as_prim_expr = asobject


class ProducerLoad(PrimExpr):
    """An element of a tensor.

    Attributes:
        producer: the tensor.
        indices: where it lies.
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
        """Itself; an element of which all indices are given."""
        return self

    def script_text(self) -> str:
        """The element as a script spells it."""
        return f"{self.producer.name}[{', '.join(map(str, self.indices)) or '()'}]"


def _index(value: Any) -> PrimExpr:
    term = prim.convert(value)
    if isinstance(term, Var) or term.is_integer or term.dtype == "bool":
        return term
    return prim.cast("int32", term)

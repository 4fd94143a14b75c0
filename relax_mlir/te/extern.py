"""Tensors that statements compute, and tensors that are computed step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.buffer import Buffer, decl_buffer
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt import Evaluate, Stmt
from relax_mlir.te.tag import current_tag
from relax_mlir.te.tensor import ExternOp, Operation, Tensor

__all__ = ["ScanOp", "extern", "extern_primfunc", "scan"]


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors that a statement computes.

    Args:
        shape: the sizes of the result, or a list of them for several.
        inputs: the tensors that are read.
        fcompute: from buffers that are read and buffers that are written to a statement,
            or to a call.
        name: of the results.
        dtype: of the results; by default the one type that all inputs have.
        in_buffers, out_buffers: the buffers, if they are more than dense arrays.
        tag: what kind of operator it is.
        attrs: what else is known of it.

    Returns:
        The tensor, or a list of them.

    Raises:
        ValueError: types are missing, inputs are no tensors, buffers are too many or too
            few, or the result is no statement.
    """
    _check_tensors(name, inputs)
    shapes = _shapes(shape)
    given = _listed(in_buffers) or [
        _placeholder(t.shape, t.dtype, t.op.name) for t in inputs
    ]
    written = _listed(out_buffers) or [
        _placeholder(sizes, one, name)
        for sizes, one in zip(shapes, _types(dtype, inputs, len(shapes)), strict=True)
    ]
    if len(given) != len(inputs) or len(written) != len(shapes):
        raise ValueError(
            f"extern `{name}`: expected {len(inputs)} buffers for inputs and {len(shapes)} "
            f"for results, got {len(given)} and {len(written)}"
        )
    body = fcompute(given, written)
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise ValueError(
            f"extern `{name}`: expected `{fcompute.__name__}` to give a statement or a "
            f"call, got {type(body).__name__}"
        )
    op = ExternOp(name, current_tag(tag), attrs, inputs, given, written, body)
    made = [op.output(i) for i in range(op.num_outputs)]
    return made[0] if len(made) == 1 else made


def extern_primfunc(
    input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any
) -> Any:
    """Tensors that a tensor program computes.

    Args:
        input_tensors: what the program reads, in the order of its parameters.
        primfunc: the program; the parameters behind its inputs are its results.
        **kwargs: what else :func:`extern` takes, but for buffers and types.

    Returns:
        The tensor, or a list of them.

    Raises:
        ValueError: an input is no tensor, or has another rank or type than its parameter,
            or the program has no results behind its inputs.
    """
    name = kwargs.pop("name", primfunc.__name__)
    _check_tensors(name, input_tensors)
    reader, body = primfunc.read()
    buffers = [reader.buffer_map[p] for p in reader.params if p in reader.buffer_map]
    count = len(input_tensors)
    given, written = buffers[:count], buffers[count:]
    for number, (one, buffer) in enumerate(zip(input_tensors, given, strict=False)):
        ours, theirs = ((len(x.shape), x.dtype) for x in (buffer, one))
        if ours != theirs:
            raise ValueError(
                f"extern `{name}`: input {number}: expected rank {ours[0]} of {ours[1]}, "
                f"got rank {theirs[0]} of {theirs[1]}"
            )
    if not written:
        raise ValueError(
            f"extern `{name}`: expected results behind {count} inputs, got "
            f"{len(buffers)} buffers in all"
        )
    shapes = [buffer.shape for buffer in written]
    return extern(
        shapes,
        input_tensors,
        lambda ins, outs: body,
        name,
        [buffer.dtype for buffer in written],
        given,
        written,
        **kwargs,
    )


def _check_tensors(name: str, inputs: Any) -> None:
    for one in inputs:
        if not isinstance(one, Tensor):
            raise ValueError(
                f"extern `{name}`: expected tensors as inputs, got {shown(one)}"
            )


def _shapes(shape: Any) -> list[Any]:
    """The sizes of every result."""
    if isinstance(shape, (int, PrimExpr)):
        return [(shape,)]
    listed = list(sequence_of(shape, "te.extern: `shape`", "sizes"))
    is_one = not listed or isinstance(listed[0], (int, PrimExpr))
    return [tuple(listed)] if is_one else listed


def _listed(buffers: Any) -> list[Buffer]:
    if buffers is None:
        return []
    return list(buffers) if isinstance(buffers, (list, tuple)) else [buffers]


def _placeholder(shape: Any, dtype: str, name: str) -> Buffer:
    """A buffer whose first element may lie anywhere."""
    offset = Var("elem_offset", "int32")
    return decl_buffer(shape, dtype, name.replace(".", "_"), elem_offset=offset)


def _types(dtype: Any, inputs: Sequence[Tensor], count: int) -> list[str]:
    if isinstance(dtype, str):
        return [dtype] * count
    if dtype is not None:
        return list(dtype)
    types = {t.dtype for t in inputs}
    if len(types) != 1:
        raise ValueError(
            "extern: expected `dtype`, for the inputs have "
            f"{', '.join(sorted(types)) or 'no types'}"
        )
    return [types.pop()] * count


class ScanOp(Operation):
    """Tensors whose rows are computed one after the other.

    Attributes:
        init: the first rows.
        update: the other rows, in terms of ``state``.
        state: placeholders for all rows.
        inputs: what else is read.
        scan_axis: the axis of the rows.
    """

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state: Sequence[Tensor],
        inputs: Sequence[Tensor],
    ) -> None:
        super().__init__(name, tag, attrs)
        if not init or len(init) != len(update):
            raise ValueError(
                "ScanOp: expected as many initial values as updates, at least one, got "
                f"{len(init)} and {len(update)}"
            )
        self.init, self.update = tuple(init), tuple(update)
        self.state, self.inputs = tuple(state), tuple(inputs)
        bounds = (self.init[0].shape[0], self.update[0].shape[0])
        self.scan_axis = IterVar(bounds, f"{name}.idx", IterVar.Ordered)
        self._give([t.shape for t in self.state], [t.dtype for t in self.state])

    @property
    def input_tensors(self) -> list[Tensor]:
        return [*self.init, *self.update]


def _tensors(given: Any) -> list[Tensor]:
    """Tensors, or none."""
    listed = [] if given is None else sequence_of(given, "scan", "tensors")
    return [instance_of(t, Tensor, "scan", "a tensor") for t in listed]


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors whose rows are computed one after the other; they make no program.

    Raises:
        ValueError: there are not as many of one kind as of the other.
    """
    parts = [
        [part] if isinstance(part, Tensor) else _tensors(part)
        for part in (init, update, state_placeholder, inputs)
    ]
    if len({len(part) for part in parts[:3]}) != 1:
        raise ValueError(
            "scan: expected as many tensors in `init` as in `update` and in "
            f"`state_placeholder`, got {[len(part) for part in parts[:3]]}"
        )
    op = ScanOp(name, current_tag(tag), attrs, *parts)
    made = [op.output(i) for i in range(op.num_outputs)]
    return made[0] if len(made) == 1 else made

"""Tensors computed by TIR statements (``extern``), and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import Evaluate, Stmt
from relax_mlir.tvm.te.tag import current_tag
from relax_mlir.tvm.te.tensor import ExternOp, Operation, Tensor

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
    """Tensors computed by a TIR statement.

    Args:
        shape: the shape of the result, or a list of them for several.
        inputs: the input tensors.
        fcompute: from input and output buffers to a statement or a call.
        name: the name of the results.
        dtype: the dtype of the results; by default the common one of the inputs.
        in_buffers, out_buffers: the buffers, if they are not compact.
        tag: the kind of operator.
        attrs: further attributes.

    Returns:
        The tensor, or a list of them.

    Raises:
        ValueError: dtypes are missing, inputs are not tensors, the number of buffers is wrong,
            or the result is not a statement.
    """
    _check_tensors(name, inputs)
    shapes = _shapes(shape)
    input_buffers = _as_list(in_buffers) or [
        _placeholder(t.shape, t.dtype, t.op.name) for t in inputs
    ]
    output_buffers = _as_list(out_buffers) or [
        _placeholder(sizes, one, name)
        for sizes, one in zip(
            shapes, _result_dtypes(dtype, inputs, len(shapes)), strict=True
        )
    ]
    if len(input_buffers) != len(inputs) or len(output_buffers) != len(shapes):
        raise ValueError(
            f"extern `{name}`: expected {len(inputs)} buffers for inputs and {len(shapes)} "
            f"for results, got {len(input_buffers)} and {len(output_buffers)}"
        )
    body = fcompute(input_buffers, output_buffers)
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise ValueError(
            f"extern `{name}`: expected `{fcompute.__name__}` to return a statement or a "
            f"call, got {type(body).__name__}"
        )
    op = ExternOp(
        name, current_tag(tag), attrs, inputs, input_buffers, output_buffers, body
    )
    results = [op.output(i) for i in range(op.num_outputs)]
    return results[0] if len(results) == 1 else results


def extern_primfunc(
    input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any
) -> Any:
    """Tensors computed by a PrimFunc.

    Args:
        input_tensors: the inputs of the PrimFunc, in the order of its parameters.
        primfunc: the PrimFunc; the parameters after its inputs are its results.
        **kwargs: further arguments of :func:`extern`, except buffers and dtypes.

    Returns:
        The tensor, or a list of them.

    Raises:
        ValueError: an input is not a tensor, or differs from its parameter in rank or dtype,
            or the PrimFunc has no results after its inputs.
    """
    name = kwargs.pop("name", primfunc.__name__)
    _check_tensors(name, input_tensors)
    reader, body = primfunc.read()
    buffers = [reader.buffer_map[p] for p in reader.params if p in reader.buffer_map]
    count = len(input_tensors)
    given, written = buffers[:count], buffers[count:]
    for number, (one, buffer) in enumerate(zip(input_tensors, given, strict=False)):
        expected, actual = ((len(x.shape), x.dtype) for x in (buffer, one))
        if expected != actual:
            raise ValueError(
                f"extern `{name}`: input {number}: expected rank {expected[0]} of {expected[1]}, "
                f"got rank {actual[0]} of {actual[1]}"
            )
    if not written:
        raise ValueError(
            f"extern `{name}`: expected results after {count} inputs, got "
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
                f"extern `{name}`: expected tensors as inputs, got {short_repr(one)}"
            )


def _shapes(shape: Any) -> list[Any]:
    """The shape of every result."""
    if isinstance(shape, (int, PrimExpr)):
        return [(shape,)]
    listed = list(sequence_of(shape, "te.extern: `shape`", "sizes"))
    is_one = not listed or isinstance(listed[0], (int, PrimExpr))
    return [tuple(listed)] if is_one else listed


def _as_list(buffers: Any) -> list[Buffer]:
    if buffers is None:
        return []
    return list(buffers) if isinstance(buffers, (list, tuple)) else [buffers]


def _placeholder(shape: Any, dtype: str, name: str) -> Buffer:
    """A buffer with a symbolic element offset."""
    offset = Var("elem_offset", "int32")
    return decl_buffer(shape, dtype, name.replace(".", "_"), elem_offset=offset)


def _result_dtypes(dtype: Any, inputs: Sequence[Tensor], count: int) -> list[str]:
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
    """Tensors computed row by row.

    Attributes:
        init: the initial rows.
        update: the other rows, in terms of ``state``.
        state: placeholders for all rows.
        inputs: other input tensors.
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
        self._set_outputs([t.shape for t in self.state], [t.dtype for t in self.state])

    @property
    def input_tensors(self) -> list[Tensor]:
        return [*self.init, *self.update]


def _tensors(given: Any) -> list[Tensor]:
    """A sequence of tensors, or none."""
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
    """Tensors computed row by row; they cannot be lowered to PrimFuncs.

    Raises:
        ValueError: ``init``, ``update`` and ``state_placeholder`` differ in length.
    """
    groups = [
        [group] if isinstance(group, Tensor) else _tensors(group)
        for group in (init, update, state_placeholder, inputs)
    ]
    if len({len(group) for group in groups[:3]}) != 1:
        raise ValueError(
            "scan: expected as many tensors in `init` as in `update` and in "
            f"`state_placeholder`, got {[len(group) for group in groups[:3]]}"
        )
    op = ScanOp(name, current_tag(tag), attrs, *groups)
    results = [op.output(i) for i in range(op.num_outputs)]
    return results[0] if len(results) == 1 else results

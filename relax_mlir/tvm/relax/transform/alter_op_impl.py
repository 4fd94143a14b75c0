"""``AlterOpImpl``: replaces implementations of operators, with other buffer layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    Op,
    ShapeExpr,
    Tuple,
    TupleGetItem,
)
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm import te
from relax_mlir.tvm.relax.op.shorthand import layout_transform
from relax_mlir.tvm.relax.transform.function_rewriting import (
    mutate_functions,
    program_call,
    shape_of,
)
from relax_mlir.tvm.tir.schedule.index_map import IndexMap

__all__ = ["AlterOpImpl"]

_CALL_TIR = Op.of("relax.call_tir")
_OPERATOR = "operator_name"
_REMOVE_PAD = "remove_pad"
_HERE = "`AlterOpImpl`, operator"
Transform: TypeAlias = IndexMap | Callable[..., Any] | Sequence[Any] | None


@dataclass(frozen=True)
class AlterOpImpl(Pass):
    """Replaces the programs that have the attribute ``operator_name`` by others.

    Args:
        op_impl_map: the replacement program, by operator name.
        op_buffer_transforms: per operator, the index map of each buffer, inputs first:
            None keeps a layout, and no entry keeps all. Tensors are transformed before
            the call and back, without padding, after it.
        op_buffer_axis_separators, op_buffer_input_axis_separators: per operator and
            buffer; must be empty, because buffers are one-dimensional in memory.

    Raises:
        PassError: a program or its layouts do not fit a call, or an index map is not
            injective.
    """

    op_impl_map: Mapping[str, PrimFunc] = field(
        default_factory=dict, metadata={"text": False}
    )
    op_buffer_transforms: Mapping[str, Sequence[Transform]] = field(
        default_factory=dict, metadata={"text": False}
    )
    op_buffer_axis_separators: Mapping[str, Any] | None = field(
        default=None, metadata={"text": False}
    )
    op_buffer_input_axis_separators: Mapping[str, Any] | None = field(
        default=None, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        separators = (
            self.op_buffer_axis_separators,
            self.op_buffer_input_axis_separators,
        )
        for listed in separators:
            for operator, per_buffer in (listed or {}).items():
                if any(per_buffer or ()):
                    raise PassError(
                        f"{_HERE} `{operator}`: expected no axis separators, got "
                        f"{per_buffer}"
                    )
        layouts = {
            operator: [_index_map(transform) for transform in transforms]
            for operator, transforms in self.op_buffer_transforms.items()
        }
        mutate_functions(module, _ImplReplacer(module, self.op_impl_map, layouts))


def _index_map(transform: Transform) -> IndexMap | None:
    """Returns the index map of a transform, or of a pair of it and axis separators."""
    if transform is None:
        return None
    index_map = transform[0] if isinstance(transform, Sequence) else transform
    return (
        index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map)
    )


class _ImplReplacer(PyExprMutator):
    """Replaces calls of programs.

    Args:
        programs: the replacement, by operator name.
        layouts: the index maps of its buffers, by operator name.
    """

    def __init__(
        self,
        mod: IRModule,
        programs: Mapping[str, PrimFunc],
        layouts: Mapping[str, Sequence[IndexMap | None]],
    ) -> None:
        super().__init__(mod)
        self.mod = mod
        self.programs, self.layouts = programs, layouts
        self.added: dict[str, GlobalVar] = {}

    def visit_call_(self, op: Call) -> Expr:
        """Replaces a call of a program whose operator has another implementation."""
        visited = super().visit_call_(op)
        matched = program_call(visited)
        if matched is None:
            return visited
        call, callee, _ = matched
        operator = str(self.mod[callee.name_hint].attrs.get(_OPERATOR, ""))
        if operator not in self.programs:
            return visited
        layouts = self.layouts.get(operator, ())
        self._check(operator, len(self.mod[callee.name_hint].params), len(layouts))
        altered = self._replacement_call(call, self._program(operator), layouts)
        return self._restore_layouts(altered, call.sinfo_args[0], layouts)

    def _check(self, operator: str, old: int, layouts: int) -> None:
        """Checks the numbers of parameters and of layouts."""
        new = len(self.programs[operator].params)
        if new != old or layouts not in (0, new):
            raise PassError(
                f"{_HERE} `{operator}`: expected {old} parameters, as the original program "
                f"has, and a layout for each or none, got {new} parameters and "
                f"{layouts} layouts"
            )

    def _program(self, operator: str) -> GlobalVar:
        if operator not in self.added:
            program = self.programs[operator].with_attr(_OPERATOR, operator)
            private = program.without_attr("global_symbol")
            name = f"{operator}_replacement"
            self.added[operator] = self.builder_.add_func(private, name)
        return self.added[operator]

    def _replacement_call(
        self, call: Call, program: GlobalVar, layouts: Sequence[IndexMap | None]
    ) -> Call:
        """Returns the call of the replacement, with tensors in its layouts."""
        tensors, result = call.args[1], call.sinfo_args[0]
        assert isinstance(tensors, Tuple)
        transformed = (
            list(map(_transform_layout, tensors.fields, layouts)) or tensors.fields
        )
        inputs = list(map(self.builder_.normalize_argument, transformed))
        outputs = _output_infos(result)
        if layouts:
            outputs = list(map(_transformed_info, outputs, layouts[len(inputs) :]))
        infos = [*(tensor.struct_info for tensor in inputs), *outputs]
        self._check_shapes(program, infos)
        is_tuple = isinstance(result, TupleStructInfo)
        new = TupleStructInfo(outputs) if is_tuple else outputs[0]
        args = [program, Tuple(inputs), *call.args[2:]]
        return Call(call.op, args, call.attrs, [new])

    def _check_shapes(self, program: GlobalVar, infos: Sequence[StructInfo]) -> None:
        """Checks the transformed shapes against the buffers of the program."""
        program_func: PrimFunc = self.builder_.get()[program]
        buffers = [program_func.buffer_map.get(param) for param in program_func.params]
        for info, buffer in zip(infos, buffers, strict=False):
            if buffer is not None and _differ(_sizes(info), buffer.shape):
                raise PassError(
                    f"`AlterOpImpl`, program `{program.name_hint}`: buffer "
                    f"`{buffer.name}`: expected a layout of shape "
                    f"{list(buffer.shape)}, got {list(_sizes(info))}"
                )

    def _restore_layouts(
        self, call: Call, result: StructInfo, layouts: Sequence[IndexMap | None]
    ) -> Expr:
        """Returns the results of a call in their original layouts."""
        if not layouts:
            return call
        outputs = _output_infos(result)
        last = layouts[len(layouts) - len(outputs) :]
        normalized = self.builder_.normalize(call)
        if not isinstance(result, TupleStructInfo):
            return self._restore_layout(normalized, outputs[0], last[0])
        tuple_var = self.builder_.emit(normalized)
        fields = [
            self.builder_.normalize(TupleGetItem(tuple_var, n))
            for n in range(len(outputs))
        ]
        return Tuple(list(map(self._restore_layout, fields, outputs, last)))

    def _restore_layout(
        self, tensor: Expr, info: StructInfo, layout: IndexMap | None
    ) -> Expr:
        """Returns a result in its original layout, without padding."""
        if layout is None:
            return tensor
        inverse, is_padded = _inverse(layout, _sizes(info))
        restored = layout_transform(tensor, inverse)
        if not is_padded:
            return restored
        sizes = _sizes(info)
        assert isinstance(info, TensorStructInfo)
        program = _remove_pad(len(sizes), sizes[0].dtype, info.dtype)
        callee = self.builder_.add_func(
            program.without_attr("global_symbol"), _REMOVE_PAD
        )
        padded = self.builder_.normalize_argument(restored)
        return Call(_CALL_TIR, [callee, Tuple([padded])], None, [info])


def _output_infos(info: StructInfo) -> list[StructInfo]:
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _is_scalar(tensor: Expr) -> bool:
    return isinstance(tensor, Constant) and not tensor.array.shape


def _transform_layout(tensor: Expr, layout: IndexMap | None) -> Expr:
    if layout is None or _is_scalar(tensor):
        return tensor
    _inverse(layout, shape_of(tensor) or ())
    return layout_transform(tensor, layout)


def _transformed_info(info: StructInfo, layout: IndexMap | None) -> StructInfo:
    if layout is None:
        return info
    assert isinstance(info, TensorStructInfo)
    sizes = layout.map_shape(_sizes(info))
    return TensorStructInfo(sizes, info.dtype, info.vdevice)


def _sizes(info: StructInfo) -> tuple[Any, ...]:
    assert isinstance(info, TensorStructInfo)
    return tuple(info.shape.values) if isinstance(info.shape, ShapeExpr) else ()


def _differ(lhs: Sequence[Any], rhs: Sequence[Any]) -> bool:
    """Returns whether two shapes differ in a constant dimension."""
    return any(
        isinstance(a, prim.IntImm) and isinstance(b, prim.IntImm) and a.value != b.value
        for a, b in zip(lhs, rhs, strict=False)
    )


def _inverse(layout: IndexMap, shape: Sequence[Any]) -> tuple[IndexMap, bool]:
    """Returns the inverse of an index map on a shape, and whether the layout has padding.

    Raises:
        PassError: the map is not injective.
    """
    try:
        inverse, padding = layout.non_surjective_inverse(shape)
    except ValueError as error:
        raise PassError(
            f"`AlterOpImpl`, layout `{layout}` of {list(shape)}: expected an "
            f"injective index map: {error}"
        ) from error
    return inverse, not (isinstance(padding, prim.IntImm) and padding.value == 0)


def _remove_pad(rank: int, size_dtype: str, dtype: str) -> PrimFunc:
    """Returns a program that copies the leading elements along every axis."""
    padded = [te.var(f"p{n}", size_dtype) for n in range(rank)]
    sizes = [te.var(f"i{n}", size_dtype) for n in range(rank)]
    source = te.placeholder(padded, dtype, "input")
    result = te.compute(sizes, lambda *axes: source[axes], "output")
    return te.create_prim_func([source, result]).with_attr(_OPERATOR, _REMOVE_PAD)

"""``AlterOpImpl``: other programs for operators, on tensors that are laid out anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from relax_mlir import te
from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
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
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.op.shorthand import layout_transform
from relax_mlir.relax.transform.function_rewriting import (
    mutate_functions,
    program_call,
    shape_of,
)
from relax_mlir.rewriting import Pass
from relax_mlir.tir.schedule.index_map import IndexMap

__all__ = ["AlterOpImpl"]

_CALL_TIR = Op.of("relax.call_tir")
_OPERATOR = "operator_name"
_REMOVE_PAD = "remove_pad"
_HERE = "`AlterOpImpl`, operator"
Transform: TypeAlias = IndexMap | Callable[..., Any] | Sequence[Any] | None


@dataclass(frozen=True)
class AlterOpImpl(Pass):
    """Call other programs in place of those that have the attribute ``operator_name``.

    Args:
        op_impl_map: the program for an operator, by its name.
        op_buffer_transforms: for an operator, how its program has each of its buffers laid
            out, inputs first: None as they are; nothing if all are. The tensors are laid
            out so in front of the call, and back behind it, without padding.
        op_buffer_axis_separators, op_buffer_input_axis_separators: per operator and
            buffer, none at all: buffers have one axis.

    Raises:
        PassError: a program or its layouts do not fit a call, or a layout leads two
            elements to one place.
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
        mutate_functions(module, _Altering(module, self.op_impl_map, layouts))


def _index_map(transform: Transform) -> IndexMap | None:
    """A map, or that of a pair of a map and axis separators."""
    if transform is None:
        return None
    found = transform[0] if isinstance(transform, Sequence) else transform
    return found if isinstance(found, IndexMap) else IndexMap.from_func(found)


class _Altering(PyExprMutator):
    """Calls other programs.

    Args:
        programs: by the operator that they are for.
        layouts: of the buffers of those programs.
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
        """A call of a program for an operator that has another one."""
        made = super().visit_call_(op)
        found = program_call(made)
        if found is None:
            return made
        call, callee, _ = found
        operator = str(self.mod[callee.name_hint].attrs.get(_OPERATOR, ""))
        if operator not in self.programs:
            return made
        layouts = self.layouts.get(operator, ())
        self._check(operator, len(self.mod[callee.name_hint].params), len(layouts))
        altered = self._altered(call, self._program(operator), layouts)
        return self._laid_back(altered, call.sinfo_args[0], layouts)

    def _check(self, operator: str, old: int, layouts: int) -> None:
        """Compare numbers of parameters, and of layouts."""
        new = len(self.programs[operator].params)
        if new != old or layouts not in (0, new):
            raise PassError(
                f"{_HERE} `{operator}`: expected {old} parameters, as the program before "
                f"has, and a layout for each or none at all, got {new} parameters and "
                f"{layouts} layouts"
            )

    def _program(self, operator: str) -> GlobalVar:
        if operator not in self.added:
            program = self.programs[operator].with_attr(_OPERATOR, operator)
            private = program.without_attr("global_symbol")
            name = f"{operator}_replacement"
            self.added[operator] = self.builder_.add_func(private, name)
        return self.added[operator]

    def _altered(
        self, call: Call, program: GlobalVar, layouts: Sequence[IndexMap | None]
    ) -> Call:
        """The call of another program, with tensors as that has them laid out."""
        tensors, result = call.args[1], call.sinfo_args[0]
        assert isinstance(tensors, Tuple)
        made = list(map(_laid_out, tensors.fields, layouts)) or tensors.fields
        inputs = list(map(self.builder_.normalize_argument, made))
        outputs = _parts(result)
        if layouts:
            outputs = list(map(_info_laid_out, outputs, layouts[len(inputs) :]))
        infos = [*(tensor.struct_info for tensor in inputs), *outputs]
        self._check_shapes(program, infos)
        is_tuple = isinstance(result, TupleStructInfo)
        new = TupleStructInfo(outputs) if is_tuple else outputs[0]
        args = [program, Tuple(inputs), *call.args[2:]]
        return Call(call.op, args, call.attrs, [new])

    def _check_shapes(self, program: GlobalVar, infos: Sequence[StructInfo]) -> None:
        """Compare the shapes that layouts give with those of the program."""
        taken: PrimFunc = self.builder_.get()[program]
        buffers = [taken.buffer_map.get(param) for param in taken.params]
        for info, buffer in zip(infos, buffers, strict=False):
            if buffer is not None and _differ(_sizes(info), buffer.shape):
                raise PassError(
                    f"`AlterOpImpl`, program `{program.name_hint}`: buffer "
                    f"`{buffer.name}`: expected a layout of the shape "
                    f"{list(buffer.shape)}, got {list(_sizes(info))}"
                )

    def _laid_back(
        self, call: Call, result: StructInfo, layouts: Sequence[IndexMap | None]
    ) -> Expr:
        """What a call gives, laid out as ``result`` says."""
        if not layouts:
            return call
        outputs = _parts(result)
        last = layouts[len(layouts) - len(outputs) :]
        whole = self.builder_.normalize(call)
        if not isinstance(result, TupleStructInfo):
            return self._restored(whole, outputs[0], last[0])
        bound = self.builder_.emit(whole)
        parts = [
            self.builder_.normalize(TupleGetItem(bound, n)) for n in range(len(outputs))
        ]
        return Tuple(list(map(self._restored, parts, outputs, last)))

    def _restored(
        self, tensor: Expr, info: StructInfo, layout: IndexMap | None
    ) -> Expr:
        """A result, laid out as ``info`` says and without padding."""
        if layout is None:
            return tensor
        inverse, is_padded = _inverse(layout, _sizes(info))
        back = layout_transform(tensor, inverse)
        if not is_padded:
            return back
        sizes = _sizes(info)
        assert isinstance(info, TensorStructInfo)
        made = _remove_pad(len(sizes), sizes[0].dtype, info.dtype)
        callee = self.builder_.add_func(made.without_attr("global_symbol"), _REMOVE_PAD)
        padded = self.builder_.normalize_argument(back)
        return Call(_CALL_TIR, [callee, Tuple([padded])], None, [info])


def _parts(info: StructInfo) -> list[StructInfo]:
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _is_scalar(tensor: Expr) -> bool:
    return isinstance(tensor, Constant) and not tensor.array.shape


def _laid_out(tensor: Expr, layout: IndexMap | None) -> Expr:
    if layout is None or _is_scalar(tensor):
        return tensor
    _inverse(layout, shape_of(tensor) or ())
    return layout_transform(tensor, layout)


def _info_laid_out(info: StructInfo, layout: IndexMap | None) -> StructInfo:
    if layout is None:
        return info
    assert isinstance(info, TensorStructInfo)
    sizes = layout.map_shape(_sizes(info))
    return TensorStructInfo(sizes, info.dtype, info.vdevice)


def _sizes(info: StructInfo) -> tuple[Any, ...]:
    assert isinstance(info, TensorStructInfo)
    return tuple(info.shape.values) if isinstance(info.shape, ShapeExpr) else ()


def _differ(given: Sequence[Any], taken: Sequence[Any]) -> bool:
    """Whether two shapes have other sizes, of those that are numbers."""
    return any(
        isinstance(a, prim.IntImm) and isinstance(b, prim.IntImm) and a.value != b.value
        for a, b in zip(given, taken, strict=False)
    )


def _inverse(layout: IndexMap, shape: Sequence[Any]) -> tuple[IndexMap, bool]:
    """The map back from a layout of a tensor, and whether the layout has padding.

    Raises:
        PassError: there is no map back.
    """
    try:
        made, padding = layout.non_surjective_inverse(shape)
    except ValueError as error:
        raise PassError(
            f"`AlterOpImpl`, layout `{layout}` of {list(shape)}: expected a map that "
            f"leads no two elements to one place: {error}"
        ) from error
    return made, not (isinstance(padding, prim.IntImm) and padding.value == 0)


def _remove_pad(rank: int, size_dtype: str, dtype: str) -> PrimFunc:
    """The program that copies the first elements along every axis."""
    padded = [te.var(f"p{n}", size_dtype) for n in range(rank)]
    sizes = [te.var(f"i{n}", size_dtype) for n in range(rank)]
    source = te.placeholder(padded, dtype, "input")
    result = te.compute(sizes, lambda *axes: source[axes], "output")
    return te.create_prim_func([source, result]).with_attr(_OPERATOR, _REMOVE_PAD)

"""Struct-info inference for operands of partly unknown shape, rank or element type.

An operation's ``infer`` takes fully known types. Here it is called several times, with
different candidates in place of what is unknown; the result has what all answers agree on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax.collapse_sum import CollapseSumLikeOp, CollapseSumToOp
from relax_mlir.dialects.relax.compare import CompareOp
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.cumulative import CumulativeOp
from relax_mlir.dialects.relax.elementwise import BinaryOp, ElementTypeError
from relax_mlir.dialects.relax.gather import GatherNdOp
from relax_mlir.dialects.relax.layout_transform import LayoutTransformOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.relax.squeeze import SqueezeOp
from relax_mlir.objects.expr import Expr
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.infer.operand_rules import (
    check_operands,
    relax_result_info,
    result_from_data,
)
from relax_mlir.objects.prim import IntImm
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic import symbols as symbol_text
from relax_mlir.symbolic.dims import Dim, symbol

__all__ = ["PartialInference"]

_RANKS = range(1, 7)  # candidates for an unknown rank; 0 is tried last
# Operations whose result depends on the sizes that a shape variable holds.
_READS_SHAPE_VARS = (
    BinaryOp,
    BroadcastToOp,
    CollapseSumLikeOp,
    CollapseSumToOp,
    LayoutTransformOp,
    ReshapeOp,
    StridedSliceOp,
)
# Operations whose result never has a shape variable as its shape.
_DROPS_SHAPE_VARS = frozenset(
    {
        *("bucketize", "index_put", "index_tensor", "nn_nll_loss"),
        *("scatter_elements", "scatter_nd", "sum", "max", "min", "mean", "prod"),
        *("std", "variance"),
    }
)
# Operands that may be scalars, which become tensors of rank 0.
_SCALARS = frozenset({"x1", "x2", "indices", "index"})
# Element types of operands whose type is independent of the other operands.
_OWN_TYPES: Mapping[str, str] = {
    "boundaries": "float32",
    "collapse_target": "float32",
    "indices": "int64",
    "sample_indices": "int64",
    "scale": "float32",
    "seq_lengths": "int64",
    "targets": "int64",
    "uniform_sample": "float32",
    "valid_count": "int32",
    "zero_point": "int8",
    "condition": "bool",
    **dict.fromkeys(("begin", "end", "strides"), "int64"),
}


@dataclass(frozen=True)
class _Candidate:
    """Candidate element types and rank, in place of unknown ones."""

    dtypes: Mapping[str, str]
    rank: int | None


@dataclass
class PartialInference:
    """Infers the result of one operation for partly unknown operands.

    An unknown size becomes a fresh symbol. A result shape that contains one is unknown, too,
    unless it is the shape held by a shape variable.

    Attributes:
        kind: the operation class.
        attrs: its attributes, completed with defaults.
        symbols: the symbol table of the enclosing function.
    """

    kind: type[RelaxOperation]
    attrs: dict[str, Any]  # Any: the type depends on the attribute
    symbols: Symbols
    _unknown: set[str] = field(default_factory=set)
    _fresh_sizes: dict[tuple[int, int], tuple[Dim, ...]] = field(default_factory=dict)
    _shape_vars: dict[tuple[Dim, ...], Expr] = field(default_factory=dict)
    _fresh: Iterator[int] = field(default_factory=count)
    _reads_shape_vars: bool = False
    _has_batch: bool = False
    _is_certain: bool = True  # whether all size equalities were proven

    def __post_init__(self) -> None:
        self.attrs = {**self.kind.attribute_defaults(), **self.attrs}

    def mark_unknown(self, symbols: Iterable[str]) -> None:
        """Marks symbols as unknown sizes."""
        self._unknown.update(symbols)

    def bind_shape_var(self, shape_var: Expr, sizes: Sequence[Dim]) -> None:
        """Records that a shape variable holds these sizes, which are symbols of their own."""
        self._shape_vars.setdefault(tuple(sizes), shape_var)

    def result(self, infos: Sequence[StructInfo]) -> StructInfo:
        """The struct info of the result.

        Raises:
            ValueError: the operands are invalid for all values of the unknown parts.
        """
        check_operands(self.kind, self.attrs, infos)
        operands = self._with_scalars(infos)
        device = _common_device(list(_tensors_in(operands)))
        result = self._result_with_shape_vars(operands)
        result = relax_result_info(
            self.kind, operands, result, is_certain=self._is_certain
        )
        if infos and all(isinstance(i, PrimStructInfo) for i in infos):
            assert isinstance(result, TensorStructInfo)
            return PrimStructInfo(result.dtype)
        return result if device is None else _on_device(result, device)

    def _result_with_shape_vars(self, infos: Sequence[StructInfo]) -> StructInfo:
        """The result; held sizes of shape variables are used by few operations only."""
        precise: StructInfo | None = None
        if issubclass(self.kind, _READS_SHAPE_VARS):
            self._reads_shape_vars = True
            precise = self._result_of_unknown_rank(infos) or self._result_over_ranks(
                infos
            )
            held = any(
                _shape_var_sizes(info) is not None for info in _tensors_in(infos)
            )
            if not held or issubclass(self.kind, (LayoutTransformOp, StridedSliceOp)):
                return precise
        self._reads_shape_vars = False
        result = self._result_of_unknown_rank(infos) or self._result_over_ranks(infos)
        has_shape = getattr(result, "shape", None) is not None
        return result if precise is None or has_shape else precise

    def _with_scalars(self, infos: Sequence[StructInfo]) -> list[StructInfo]:
        operands: list[StructInfo] = []
        for name, info in zip(self.kind.operand_fields, infos, strict=False):
            if isinstance(info, PrimStructInfo) and name in _SCALARS:
                info = TensorStructInfo((), info.dtype)
            if issubclass(self.kind, CompareOp):
                info = _comparable(info)
            if name == "fill_value" and getattr(info, "ndim", 0):
                raise ValueError(f"fill_value: expected a tensor of rank 0, got {info}")
            if name in _OWN_TYPES or (name == "fill_value" and operands):
                info = _with_dtype(info, "void", _OWN_TYPES.get(name, "float32"))
            operands.append(info)
        return operands

    def _dtypes(self, infos: Sequence[StructInfo]) -> dict[str, None]:
        """Element types of the operands that share one."""
        named = zip(self.kind.operand_fields, infos, strict=False)
        alike = [info for name, info in named if name not in _OWN_TYPES]
        return {t.dtype: None for t in _tensors_in(alike)}

    def _result_of_unknown_rank(self, infos: Sequence[StructInfo]) -> StructInfo | None:
        """The result if its rank depends on unknown sizes, else None.

        Squeeze removes sizes of 1; the last size of gather_nd's indices is their rank.
        """
        x = infos[0] if infos else None
        if issubclass(self.kind, SqueezeOp) and self.attrs["axis"] is None:
            if isinstance(x, TensorStructInfo) and x.shape_var is not None:
                return _squeezed(x)
            determining = _sizes_of(x)
        elif issubclass(self.kind, GatherNdOp):
            determining = _sizes_of(infos[1])
            determining = None if determining is None else determining[-1:]
        else:
            return result_from_data(self.kind, self.attrs, infos)
        if not isinstance(x, TensorStructInfo) or not _is_tensor(infos):
            return None
        if determining is not None and all(
            isinstance(size, IntImm) for size in determining
        ):
            return None
        return TensorStructInfo(dtype=x.dtype)

    def _result_over_ranks(self, infos: Sequence[StructInfo]) -> StructInfo:
        if all(t.ndim >= 0 for t in _tensors_in(infos)):
            return self._result_over_dtypes(infos, None)
        results: list[StructInfo] = []
        for rank in _RANKS:
            with suppress(ValueError):
                results.append(self._result_over_dtypes(infos, rank))
        if not results:
            return self._result_over_dtypes(infos, 0)
        return reduce(_common, results)

    def _result_over_dtypes(
        self, infos: Sequence[StructInfo], rank: int | None
    ) -> StructInfo:
        given = self._dtypes(infos)
        known = [d for d in given if d not in ("void", "bool")]
        first, *others = dict.fromkeys((*known, "float32"))
        try:
            result = self._result_of_candidate(infos, _Candidate({"void": first}, rank))
            dtype = first
        except ElementTypeError as error:
            if error.floats_only:
                raise
            return self._result_of_unsupported_dtype(infos, rank)
        except ValueError:
            if "void" not in given or not others:
                raise
            dtype = others[0]
            result = self._result_of_candidate(infos, _Candidate({"void": dtype}, rank))
        if "void" in given:
            result = _common(result, self._with_another(infos, dtype, rank, result))
        return result

    def _result_of_unsupported_dtype(
        self, infos: Sequence[StructInfo], rank: int | None
    ) -> StructInfo:
        """The result for an element type that Relax allows and the operation lacks."""
        all_ = self._dtypes(infos)
        given = set(all_) - {"void"}
        if len(given) > 1:
            raise ValueError(f"operands have several element types: {sorted(given)}")
        refusal: ElementTypeError | None = None
        for other in ("int16", "int64", "bool", "float32"):
            candidate = _Candidate(dict.fromkeys((*given, "void"), other), rank)
            try:
                result = self._result_of_candidate(infos, candidate)
            except ElementTypeError as error:
                refusal = error
                continue
            back = "void" if "void" in all_ else next(iter(given), "void")
            return _with_dtype(result, other, back)
        assert refusal is not None
        raise refusal

    def _with_another(
        self,
        infos: Sequence[StructInfo],
        dtype: str,
        rank: int | None,
        otherwise: StructInfo,
    ) -> StructInfo:
        """The result with another accepted element type in place of ``dtype``."""
        for other in ("int64", "float16", "float32"):
            if other != dtype:
                with suppress(ValueError):
                    replaced = {"void": other, dtype: other}
                    return self._result_of_candidate(infos, _Candidate(replaced, rank))
        return otherwise

    def _result_of_candidate(
        self, infos: Sequence[StructInfo], candidate: _Candidate
    ) -> StructInfo:
        try:
            return self._infer(infos, candidate)
        except ElementTypeError:
            raise
        except ValueError:
            unshaped = any(t.shape is None for t in _tensors_in(infos))
            if "kernel_layout" not in self.kind.attribute_fields or not unshaped:
                raise
        return self._result_of_ranks(infos, candidate)

    def _result_of_ranks(
        self, infos: Sequence[StructInfo], candidate: _Candidate
    ) -> StructInfo:
        """The result for tensors reduced to element type and rank."""
        ranks = [(i, candidate.rank or 0 if i.ndim < 0 else i.ndim) for i in infos]  # pyright: ignore[reportAttributeAccessIssue]
        ones = [TensorStructInfo([1] * rank, i.dtype) for i, rank in ranks]  # pyright: ignore[reportAttributeAccessIssue]
        result = self._infer(ones, candidate)
        assert isinstance(result, TensorStructInfo)
        return TensorStructInfo(dtype=result.dtype, ndim=result.ndim)

    def _infer(self, infos: Sequence[StructInfo], candidate: _Candidate) -> StructInfo:
        fixed = _Candidate({}, candidate.rank)
        types = [
            self._type(info, fixed if name in _OWN_TYPES else candidate)
            for name, info in zip(self.kind.operand_fields, infos, strict=False)
        ]
        self._has_batch = any(getattr(t, "rank", 0) > 2 for t in types)
        with constraints.collect() as assumed:
            inferred = self.kind.infer(*types, **self.attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        unproven = self._unproven(assumed)
        self._unify(assumed)
        result_infos = [self._info(type_, unproven) for type_ in results]
        self._is_certain = not self._has_unproven_equality(assumed)
        if self.kind.SHORT_NAME.startswith("collapse_sum") and not self._is_certain:
            raise ValueError("known sizes differ")
        return (
            result_infos[0] if len(result_infos) == 1 else TupleStructInfo(result_infos)
        )

    def _has_unproven_equality(self, assumed: Any) -> bool:
        """Whether two sizes, both known symbolically, were assumed equal without proof."""
        return any(
            not (isinstance(size, int) or str(size) in self._unknown)
            for c in assumed
            if c.relation == "==" and not c.is_certain
            for size in (c.lhs, c.rhs)
        )

    def _unify(self, assumed: Any) -> None:
        """Unifies sizes of a layer's data with those of its weights in shape variables."""
        if not self._is_layer():
            return
        equal = {c.lhs: c.rhs for c in assumed if c.relation == "=="}
        equal |= {c.rhs: c.lhs for c in assumed if c.relation == "=="}
        for sizes, shape_var in list(self._shape_vars.items()):
            unified = tuple(equal.get(size, size) for size in sizes)
            if any(str(size) in self._unknown for size in unified):
                self.bind_shape_var(shape_var, unified)

    def _is_layer(self) -> bool:
        return self.kind.script_name().startswith("nn.")

    def _unproven(self, assumed: Any) -> set[Dim]:
        """Sizes that are valid only if an unproven equality holds."""
        is_flat = issubclass(self.kind, MatmulOp) and not self._has_batch
        if issubclass(self.kind, (GatherNdOp, SqueezeOp)) or is_flat:
            return set()  # the assumptions concern no size of the result
        has_collapse_target = "collapse_target" in self.kind.operand_fields
        if self.kind.argument_attributes or self._is_layer() or has_collapse_target:
            return set()  # an attribute or the data's shape determines the result
        unproven_equalities = [
            c for c in assumed if c.relation == "==" and not c.is_certain
        ]
        return {side for c in unproven_equalities for side in (c.lhs, c.rhs)}

    def _type(self, info: StructInfo, candidate: _Candidate) -> Any:
        if isinstance(info, TupleStructInfo):
            return tuple(self._type(part, candidate) for part in info.fields)
        if not isinstance(info, TensorStructInfo):
            raise ValueError(f"expected a tensor, got {info}")
        element = dtypes.dtype(candidate.dtypes.get(info.dtype, info.dtype))
        if isinstance(info.shape, ShapeExpr):
            return to_mlir(TensorStructInfo(info.shape, element.name), self.symbols)
        return tensors.tensor_type(self._sizes(info, candidate), element)

    def _sizes(self, info: TensorStructInfo, candidate: _Candidate) -> tuple[Dim, ...]:
        """Symbols for unknown sizes; equal ones for the same shape variable."""
        rank = (candidate.rank or 0) if info.ndim < 0 else info.ndim
        held = _shape_var_sizes(info)
        if held is not None and self._reads_shape_vars:
            return self.symbols.dims(held)
        if info.shape is None:
            return self._new_symbols(rank)
        key = (id(info.shape), rank)
        if key not in self._fresh_sizes:
            self._fresh_sizes[key] = self._new_symbols(rank)
            if rank:
                self.bind_shape_var(info.shape, self._fresh_sizes[key])
        return self._fresh_sizes[key]

    def _new_symbols(self, rank: int) -> tuple[Dim, ...]:
        sizes = tuple(symbol(f"unknown_{next(self._fresh)}") for _ in range(rank))
        self._unknown.update(map(str, sizes))
        return sizes

    def _info(self, type_: ir.Type, unproven: set[Dim]) -> StructInfo:
        if isinstance(type_, ir.TupleType):
            parts = [type_.get_type(i) for i in range(type_.num_types)]
            return TupleStructInfo([self._info(p, unproven) for p in parts])
        if not isinstance(type_, ir.RankedTensorType):
            return from_mlir(type_, self.symbols)
        name = tensors.dtype_of(type_).name
        if not type_.has_static_shape and type_.encoding is None:
            return TensorStructInfo(dtype=name, ndim=type_.rank)
        dims = tensors.shape_of(type_)
        if self._keeps_shape_var(dims) and not unproven & set(dims):
            return TensorStructInfo(self._shape_vars[dims], name)
        used = {s for d in dims for s in symbol_text.symbols_of(d)}
        if used & self._unknown or unproven & set(dims):
            return TensorStructInfo(dtype=name, ndim=len(dims))
        return from_mlir(type_, self.symbols)

    def _keeps_shape_var(self, sizes: tuple[Dim, ...]) -> bool:
        """Whether the result shape is that of a shape variable and the operation keeps it."""
        is_flat = issubclass(self.kind, CumulativeOp) and self.attrs["axis"] is None
        is_pooling = "pool_size" in self.kind.attribute_fields
        drops = self.kind.SHORT_NAME in _DROPS_SHAPE_VARS or is_flat or is_pooling
        return sizes in self._shape_vars and not drops


def _sizes_of(info: StructInfo | None) -> Sequence[Any] | None:
    """The sizes of a tensor, if known."""
    shape = info.shape if isinstance(info, TensorStructInfo) else None
    return shape.values if isinstance(shape, ShapeExpr) else None


def _shape_var_sizes(info: TensorStructInfo) -> Sequence[Any] | None:
    """The sizes held by a tensor's shape variable, if known."""
    held = getattr(info.shape, "struct_info_or_none", lambda: None)()
    if info.shape_var is None or not isinstance(held, ShapeStructInfo):
        return None
    return held.values


def _squeezed(x: TensorStructInfo) -> TensorStructInfo:
    """The squeezed tensor, given the sizes held by its shape variable, if known."""
    held = _shape_var_sizes(x)
    if held is None:
        return TensorStructInfo(dtype=x.dtype)
    has_ones = any(isinstance(size, IntImm) and size.value == 1 for size in held)
    return TensorStructInfo(dtype=x.dtype) if has_ones else x


def _is_tensor(infos: Sequence[StructInfo]) -> bool:
    return all(isinstance(info, TensorStructInfo) for info in infos)


def _tensors_in(infos: Sequence[StructInfo]) -> Iterator[TensorStructInfo]:
    for info in infos:
        if isinstance(info, TupleStructInfo):
            yield from _tensors_in(info.fields)
        elif isinstance(info, TensorStructInfo):
            yield info


def _common_device(infos: Sequence[TensorStructInfo]) -> VDevice | None:
    result = {info.vdevice: None for info in infos if info.vdevice is not None}
    if len(result) > 1:
        raise ValueError(f"operands must live on one device, got {list(result)}")
    return next(iter(result), None)


def _on_device(info: StructInfo, device: VDevice) -> StructInfo:
    """Struct info with the device of all tensors set."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_on_device(part, device) for part in info.fields])
    if isinstance(info, TensorStructInfo):
        return info.replace(vdevice=device)
    return info


def _with_dtype(info: StructInfo, old: str, new: str) -> StructInfo:
    """Struct info with element type ``old`` replaced by ``new``."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_with_dtype(part, old, new) for part in info.fields])
    if isinstance(info, TensorStructInfo) and info.dtype == old:
        return info.replace(dtype=new)
    return info


def _comparable(info: StructInfo) -> StructInfo:
    """An operand of a comparison: Relax ignores the operands' element types."""
    if not isinstance(info, TensorStructInfo):
        return info
    return info.replace(dtype="float32")


def _common(a: StructInfo, b: StructInfo) -> StructInfo:
    """The struct info that both have in common."""
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        if len(a.fields) != len(b.fields):
            return ObjectStructInfo()
        pairs = zip(a.fields, b.fields, strict=True)
        return TupleStructInfo([_common(x, y) for x, y in pairs])
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        dtype = a.dtype if a.dtype == b.dtype else "void"
        if a.shape is not None and b.shape is not None and a.shape == b.shape:
            return TensorStructInfo(a.shape, dtype, a.vdevice)
        ndim = a.ndim if a.ndim == b.ndim else -1
        return TensorStructInfo(None, dtype, a.vdevice, ndim)
    return a if type(a) is type(b) else ObjectStructInfo()

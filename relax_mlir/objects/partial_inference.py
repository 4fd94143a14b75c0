"""Results of operations on tensors of which only a part is known.

An operation's ``infer`` takes types that are known. Here it is asked several times, with
one thing after another in place of what is not known: what all its answers agree on is
what is known of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Any

from mlir import ir

from relax_mlir.dialects import constraints, dtypes, tensors
from relax_mlir.dialects import symbols as symbol_text
from relax_mlir.dialects.dims import Dim, symbol
from relax_mlir.dialects.relax.collapse import CollapseSumLikeOp, CollapseSumToOp
from relax_mlir.dialects.relax.compare import CompareOp
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.cumulative import CumulativeOp
from relax_mlir.dialects.relax.elementwise import BinaryOp, ElementTypeError
from relax_mlir.dialects.relax.indexing import GatherNdOp
from relax_mlir.dialects.relax.layout_transform import LayoutTransformOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.relax.squeeze import SqueezeOp
from relax_mlir.objects.expr import Expr
from relax_mlir.objects.operand_rules import (
    check_operands,
    from_data_alone,
    said_of_result,
)
from relax_mlir.objects.prim import IntImm
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir

__all__ = ["PartialInference"]

_RANKS = range(1, 7)  # what is tried for a rank that is not known, before 0
# Operations that look at the sizes which a variable holds.
_LOOKS_INTO = (
    BinaryOp,
    BroadcastToOp,
    CollapseSumLikeOp,
    CollapseSumToOp,
    LayoutTransformOp,
    ReshapeOp,
    StridedSliceOp,
)
# Operations that do not say of a result that it has the shape which a variable holds.
_FORGETFUL = frozenset(
    {
        *("bucketize", "index_put", "index_tensor", "nn_nll_loss"),
        *("scatter_elements", "scatter_nd", "sum", "max", "min", "mean", "prod"),
        *("std", "variance"),
    }
)
# Operands that may be scalars: they are taken as tensors of rank 0.
_SCALARS = frozenset({"x1", "x2", "indices", "index"})
# Element types of the operands whose type has nothing to do with that of the others.
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
class _Guess:
    """What stands for what is not known: element types by name, and a rank."""

    dtypes: Mapping[str, str]
    rank: int | None


@dataclass
class PartialInference:
    """One application of an operation to tensors that may be known in part.

    A size that is not known becomes a symbol of its own; where one shows in the result,
    its shape is not known either, unless it is the shape that a variable holds.

    Attributes:
        kind: the operation.
        attrs: its attributes, those that have a default maybe left out.
        names: the variables of the function around it.
    """

    kind: type[RelaxOperation]
    attrs: dict[str, Any]  # Any: as many types as attributes
    names: Symbols
    _unknown: set[str] = field(default_factory=set)
    _held: dict[tuple[int, int], tuple[Dim, ...]] = field(default_factory=dict)
    _holders: dict[tuple[Dim, ...], Expr] = field(default_factory=dict)
    _fresh: Iterator[int] = field(default_factory=count)
    _looks_into: bool = False
    _has_batch: bool = False
    _is_certain: bool = True  # no sizes that are known by name had to be taken as equal

    def __post_init__(self) -> None:
        self.attrs = {**self.kind.attribute_defaults(), **self.attrs}

    def forget(self, names: Iterable[str]) -> None:
        """The sizes with these names are not known."""
        self._unknown.update(names)

    def hold(self, holder: Expr, sizes: Sequence[Dim]) -> None:
        """A variable holds a shape of these sizes, which have names of their own."""
        self._holders.setdefault(tuple(sizes), holder)

    def result(self, infos: Sequence[StructInfo]) -> StructInfo:
        """What the operation gives for operands of which ``infos`` are known.

        Raises:
            ValueError: the operands do not fit the operation, whatever is not known.
        """
        check_operands(self.kind, self.attrs, infos)
        taken = self._with_scalars(infos)
        device = _common_device(list(_tensors_in(taken)))
        found = self._of_held(taken)
        found = said_of_result(self.kind, taken, found, is_certain=self._is_certain)
        if infos and all(isinstance(i, PrimStructInfo) for i in infos):
            assert isinstance(found, TensorStructInfo)
            return PrimStructInfo(found.dtype)
        return found if device is None else _on(found, device)

    def _of_held(self, infos: Sequence[StructInfo]) -> StructInfo:
        """The result; where a variable holds a shape, its sizes count for few operations."""
        looked: StructInfo | None = None
        if issubclass(self.kind, _LOOKS_INTO):
            self._looks_into = True
            looked = self._of_no_rank(infos) or self._of_ranks(infos)
            held = any(_held_sizes(info) is not None for info in _tensors_in(infos))
            if not held or issubclass(self.kind, (LayoutTransformOp, StridedSliceOp)):
                return looked
        self._looks_into = False
        found = self._of_no_rank(infos) or self._of_ranks(infos)
        has_shape = getattr(found, "shape", None) is not None
        return found if looked is None or has_shape else looked

    def _with_scalars(self, infos: Sequence[StructInfo]) -> list[StructInfo]:
        taken: list[StructInfo] = []
        for name, info in zip(self.kind.operand_fields, infos, strict=False):
            if isinstance(info, PrimStructInfo) and name in _SCALARS:
                info = TensorStructInfo((), info.dtype)
            if issubclass(self.kind, CompareOp):
                info = _comparable(info)
            if name == "fill_value" and getattr(info, "ndim", 0):
                raise ValueError(f"fill_value: expected a tensor of rank 0, got {info}")
            if name in _OWN_TYPES or (name == "fill_value" and taken):
                info = _renamed(info, "void", _OWN_TYPES.get(name, "float32"))
            taken.append(info)
        return taken

    def _dtypes(self, infos: Sequence[StructInfo]) -> dict[str, None]:
        """Element types of the operands that have the same, as a rule."""
        named = zip(self.kind.operand_fields, infos, strict=False)
        alike = [info for name, info in named if name not in _OWN_TYPES]
        return {t.dtype: None for t in _tensors_in(alike)}

    def _of_no_rank(self, infos: Sequence[StructInfo]) -> StructInfo | None:
        """A result whose rank depends on sizes that are not known.

        Those of which 1 is removed, or the number of indices that an element has.
        """
        x = infos[0] if infos else None
        if issubclass(self.kind, SqueezeOp) and self.attrs["axis"] is None:
            if isinstance(x, TensorStructInfo) and x.shape_var is not None:
                return _squeezed(x)
            told = _sizes_of(x)
        elif issubclass(self.kind, GatherNdOp):
            told = _sizes_of(infos[1])
            told = None if told is None else told[-1:]
        else:
            return from_data_alone(self.kind, self.attrs, infos)
        if not isinstance(x, TensorStructInfo) or not _is_tensor(infos):
            return None
        if told is not None and all(isinstance(size, IntImm) for size in told):
            return None
        return TensorStructInfo(dtype=x.dtype)

    def _of_ranks(self, infos: Sequence[StructInfo]) -> StructInfo:
        if all(t.ndim >= 0 for t in _tensors_in(infos)):
            return self._of_dtypes(infos, None)
        found: list[StructInfo] = []
        for rank in _RANKS:
            with suppress(ValueError):
                found.append(self._of_dtypes(infos, rank))
        return reduce(_agreed, found) if found else self._of_dtypes(infos, 0)

    def _of_dtypes(self, infos: Sequence[StructInfo], rank: int | None) -> StructInfo:
        given = self._dtypes(infos)
        known = [d for d in given if d not in ("void", "bool")]
        first, *others = dict.fromkeys((*known, "float32"))
        try:
            found, dtype = self._of_guess(infos, _Guess({"void": first}, rank)), first
        except ElementTypeError as error:
            if error.are_floats_alone:
                raise
            return self._of_other_dtypes(infos, rank)
        except ValueError:
            if "void" not in given or not others:
                raise
            dtype = others[0]
            found = self._of_guess(infos, _Guess({"void": dtype}, rank))
        if "void" in given:
            found = _agreed(found, self._with_another(infos, dtype, rank, found))
        return found

    def _of_other_dtypes(
        self, infos: Sequence[StructInfo], rank: int | None
    ) -> StructInfo:
        """The result where the operation has no program for the type, as Relax allows."""
        all_ = self._dtypes(infos)
        given = set(all_) - {"void"}
        if len(given) > 1:
            raise ValueError(f"operands have several element types: {sorted(given)}")
        refusal: ElementTypeError | None = None
        for other in ("int16", "int64", "bool", "float32"):
            guess = _Guess(dict.fromkeys((*given, "void"), other), rank)
            try:
                found = self._of_guess(infos, guess)
            except ElementTypeError as error:
                refusal = error
                continue
            back = "void" if "void" in all_ else next(iter(given), "void")
            return _renamed(found, other, back)
        assert refusal is not None
        raise refusal

    def _with_another(
        self,
        infos: Sequence[StructInfo],
        dtype: str,
        rank: int | None,
        otherwise: StructInfo,
    ) -> StructInfo:
        """The result where another type that the operation takes stands for ``dtype``."""
        for other in ("int64", "float16", "float32"):
            if other != dtype:
                with suppress(ValueError):
                    replaced = {"void": other, dtype: other}
                    return self._of_guess(infos, _Guess(replaced, rank))
        return otherwise

    def _of_guess(self, infos: Sequence[StructInfo], guess: _Guess) -> StructInfo:
        try:
            return self._infer(infos, guess)
        except ElementTypeError:
            raise
        except ValueError:
            unshaped = any(t.shape is None for t in _tensors_in(infos))
            if "kernel_layout" not in self.kind.attribute_fields or not unshaped:
                raise
        return self._ranks_alone(infos, guess)

    def _ranks_alone(self, infos: Sequence[StructInfo], guess: _Guess) -> StructInfo:
        """The result for tensors of which type and rank are known."""
        ranks = [(i, guess.rank or 0 if i.ndim < 0 else i.ndim) for i in infos]  # pyright: ignore[reportAttributeAccessIssue]
        ones = [TensorStructInfo([1] * rank, i.dtype) for i, rank in ranks]  # pyright: ignore[reportAttributeAccessIssue]
        found = self._infer(ones, guess)
        assert isinstance(found, TensorStructInfo)
        return TensorStructInfo(dtype=found.dtype, ndim=found.ndim)

    def _infer(self, infos: Sequence[StructInfo], guess: _Guess) -> StructInfo:
        fixed = _Guess({}, guess.rank)
        types = [
            self._type(info, fixed if name in _OWN_TYPES else guess)
            for name, info in zip(self.kind.operand_fields, infos, strict=False)
        ]
        self._has_batch = any(getattr(t, "rank", 0) > 2 for t in types)
        with constraints.collect() as assumed:
            inferred = self.kind.infer(*types, **self.attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        doubtful = self._doubtful(assumed)
        self._learn(assumed)
        made = [self._info(type_, doubtful) for type_ in results]
        self._is_certain = not self._disagree(assumed)
        if self.kind.SHORT_NAME.startswith("collapse_sum") and not self._is_certain:
            raise ValueError("sizes differ, as far as is known")
        return made[0] if len(made) == 1 else TupleStructInfo(made)

    def _disagree(self, assumed: Any) -> bool:
        """Whether two sizes that are known by name only had to be taken as equal."""
        return any(
            not (isinstance(size, int) or str(size) in self._unknown)
            for c in assumed
            if c.relation == "==" and not c.is_certain
            for size in (c.lhs, c.rhs)
        )

    def _learn(self, assumed: Any) -> None:
        """A layer's data has the sizes that its weights ask for: so has what holds them."""
        if not self._is_layer():
            return
        told = {c.lhs: c.rhs for c in assumed if c.relation == "=="}
        told |= {c.rhs: c.lhs for c in assumed if c.relation == "=="}
        for sizes, holder in list(self._holders.items()):
            now = tuple(told.get(size, size) for size in sizes)
            if any(str(size) in self._unknown for size in now):
                self.hold(holder, now)

    def _is_layer(self) -> bool:
        return self.kind.script_name().startswith("nn.")

    def _doubtful(self, assumed: Any) -> set[Dim]:
        """Sizes that are right only if two expressions turn out to be equal."""
        is_flat = issubclass(self.kind, MatmulOp) and not self._has_batch
        if issubclass(self.kind, (GatherNdOp, SqueezeOp)) or is_flat:
            return set()  # what is assumed is no size of the result
        is_told = "collapse_target" in self.kind.operand_fields
        if self.kind.argument_attributes or self._is_layer() or is_told:
            return set()  # the caller, or the shape of the data, says what it is
        open_ = [c for c in assumed if c.relation == "==" and not c.is_certain]
        return {side for c in open_ for side in (c.lhs, c.rhs)}

    def _type(self, info: StructInfo, guess: _Guess) -> Any:
        if isinstance(info, TupleStructInfo):
            return tuple(self._type(part, guess) for part in info.fields)
        if not isinstance(info, TensorStructInfo):
            raise ValueError(f"expected a tensor, got {info}")
        element = dtypes.dtype(guess.dtypes.get(info.dtype, info.dtype))
        if isinstance(info.shape, ShapeExpr):
            return to_mlir(TensorStructInfo(info.shape, element.name), self.names)
        return tensors.tensor_type(self._sizes(info, guess), element)

    def _sizes(self, info: TensorStructInfo, guess: _Guess) -> tuple[Dim, ...]:
        """Symbols for sizes that are not known; for one shape variable the same."""
        rank = (guess.rank or 0) if info.ndim < 0 else info.ndim
        held = _held_sizes(info)
        if held is not None and self._looks_into:
            return self.names.dims(held)
        if info.shape is None:
            return self._new(rank)
        key = (id(info.shape), rank)
        if key not in self._held:
            self._held[key] = self._new(rank)
            if rank:
                self.hold(info.shape, self._held[key])
        return self._held[key]

    def _new(self, rank: int) -> tuple[Dim, ...]:
        sizes = tuple(symbol(f"unknown_{next(self._fresh)}") for _ in range(rank))
        self._unknown.update(map(str, sizes))
        return sizes

    def _info(self, type_: ir.Type, doubtful: set[Dim]) -> StructInfo:
        if isinstance(type_, ir.TupleType):
            parts = [type_.get_type(i) for i in range(type_.num_types)]
            return TupleStructInfo([self._info(p, doubtful) for p in parts])
        if not isinstance(type_, ir.RankedTensorType):
            return from_mlir(type_, self.names)
        name = tensors.dtype_of(type_).name
        if not type_.has_static_shape and type_.encoding is None:
            return TensorStructInfo(dtype=name, ndim=type_.rank)
        dims = tensors.shape_of(type_)
        if self._is_held(dims) and not doubtful & set(dims):
            return TensorStructInfo(self._holders[dims], name)
        used = {s for d in dims for s in symbol_text.symbols_of(d)}
        if used & self._unknown or doubtful & set(dims):
            return TensorStructInfo(dtype=name, ndim=len(dims))
        return from_mlir(type_, self.names)

    def _is_held(self, sizes: tuple[Dim, ...]) -> bool:
        """Whether a variable holds these sizes, and the operation says so."""
        is_flat = issubclass(self.kind, CumulativeOp) and self.attrs["axis"] is None
        slides = "pool_size" in self.kind.attribute_fields
        forgets = self.kind.SHORT_NAME in _FORGETFUL or is_flat or slides
        return sizes in self._holders and not forgets


def _sizes_of(info: StructInfo | None) -> Sequence[Any] | None:
    """The sizes of a tensor, if they are known."""
    shape = info.shape if isinstance(info, TensorStructInfo) else None
    return shape.values if isinstance(shape, ShapeExpr) else None


def _held_sizes(info: TensorStructInfo) -> Sequence[Any] | None:
    """The sizes that the variable holds which is the shape of a tensor, if known."""
    held = getattr(info.shape, "struct_info_or_none", lambda: None)()
    if info.shape_var is None or not isinstance(held, ShapeStructInfo):
        return None
    return held.values


def _squeezed(x: TensorStructInfo) -> TensorStructInfo:
    """``x`` without its sizes of 1, where a variable holds them."""
    held = _held_sizes(x)
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
    found = {info.vdevice: None for info in infos if info.vdevice is not None}
    if len(found) > 1:
        raise ValueError(f"operands must live on one device, got {list(found)}")
    return next(iter(found), None)


def _on(info: StructInfo, device: VDevice) -> StructInfo:
    """``info`` of tensors that live on ``device``."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_on(part, device) for part in info.fields])
    if isinstance(info, TensorStructInfo):
        return info.replace(vdevice=device)
    return info


def _renamed(info: StructInfo, old: str, new: str) -> StructInfo:
    """``info`` with element type ``new`` in place of ``old``."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_renamed(part, old, new) for part in info.fields])
    if isinstance(info, TensorStructInfo) and info.dtype == old:
        return info.replace(dtype=new)
    return info


def _comparable(info: StructInfo) -> StructInfo:
    """``info`` as it may be compared: Relax looks at no types where the result has its own."""
    if not isinstance(info, TensorStructInfo):
        return info
    return info.replace(dtype="float32")


def _agreed(a: StructInfo, b: StructInfo) -> StructInfo:
    """What holds for both."""
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        if len(a.fields) != len(b.fields):
            return ObjectStructInfo()
        pairs = zip(a.fields, b.fields, strict=True)
        return TupleStructInfo([_agreed(x, y) for x, y in pairs])
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        dtype = a.dtype if a.dtype == b.dtype else "void"
        if a.shape is not None and b.shape is not None and a.shape == b.shape:
            return TensorStructInfo(a.shape, dtype, a.vdevice)
        ndim = a.ndim if a.ndim == b.ndim else -1
        return TensorStructInfo(None, dtype, a.vdevice, ndim)
    return a if type(a) is type(b) else ObjectStructInfo()

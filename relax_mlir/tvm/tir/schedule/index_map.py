"""Index maps: transformations of buffer layouts and iter domains."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from relax_mlir.dialects import dtypes
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import prim
from relax_mlir.objects.expression_evaluator import ExpressionEvaluator
from relax_mlir.objects.prim import PrimExpr, Range, Var, intrinsics
from relax_mlir.objects.prim.script_text import prim_expr_script
from relax_mlir.objects.prim.simplify import simplify as simplify_expr
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute
from relax_mlir.tvm.tir.schedule import inversion, regions
from relax_mlir.tvm.tir.schedule.indices import simplify

__all__ = ["SCRIPT_NAMES", "IndexMap", "function_of_text", "index_ranges"]


class IndexMap:
    """A function from initial indices to final indices.

    Args:
        initial_indices: one variable for each initial index.
        final_indices: expressions in those.
        inverse_index_map: the inverse, if known; computed otherwise.
    """

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"

    def __init__(
        self,
        initial_indices: Sequence[Var],
        final_indices: Sequence[Any],
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
    ) -> None:
        self.initial_indices = list(initial_indices)
        self.final_indices: list[PrimExpr] = list(map(prim.convert, final_indices))
        is_map = inverse_index_map is None or isinstance(inverse_index_map, IndexMap)
        self.inverse_index_map: IndexMap | None = (
            inverse_index_map  # pyright: ignore[reportAttributeAccessIssue]
            if is_map
            else IndexMap.from_func(inverse_index_map)  # pyright: ignore[reportArgumentType]
        )

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """An index map from a Python function.

        Args:
            mapping_function: takes one variable for each index, returns one or several expressions.
            ndim: the number of indices, for functions with a variadic parameter.
            inverse_index_map: the inverse, if known.
            index_dtype: the dtype of the variables.

        Raises:
            ValueError: the result contains axis separators.
        """
        made, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ValueError(
                "index map: expected only indices, got `AXIS_SEPARATOR`. Hint: use "
                "`from_func_with_separators`"
            )
        return made

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """An index map from a Python function that may return ``IndexMap.AXIS_SEPARATOR``, too.

        Returns:
            The map, and the final indices that separators precede.
        """
        if not callable(mapping_function):
            kind = type(mapping_function).__name__
            raise TypeError(f"index map: expected a function of indices, got {kind}")
        args, named = _variables(mapping_function, ndim, index_dtype)
        result = mapping_function(*args, **named)
        listed = list(result) if isinstance(result, (list, tuple)) else [result]
        indices: list[PrimExpr] = []
        separators: list[int] = []
        for value in listed:
            if isinstance(value, str) and value == IndexMap.AXIS_SEPARATOR:
                separators.append(len(indices))
            elif isinstance(value, (PrimExpr, int)):
                is_number = isinstance(value, int)
                indices.append(prim.const(value, index_dtype) if is_number else value)
            else:
                raise TypeError(
                    "index map: expected a function that returns indices, got "
                    f"{value!r} of type {type(value).__name__}"
                )
        made = IndexMap([*args, *named.values()], indices, inverse_index_map)
        return made, separators

    @staticmethod
    def from_text(
        text: str, index_dtype: str = "int64", names: Mapping[str, Any] | None = None
    ) -> IndexMap:
        """Parses the result of ``str``.

        Args:
            text: the text.
            index_dtype: the dtype of the variables.
            names: the values of free names in it.

        Raises:
            ValueError: it is not a function of indices.
        """
        function = function_of_text(text, names)
        return IndexMap.from_func(function, index_dtype=index_dtype)

    def substitute(self, values: Mapping[Var, Any]) -> IndexMap:
        """The map with expressions substituted for free variables."""
        free = {v: t for v, t in values.items() if v not in self.initial_indices}
        final = [prim.substitute(f, free) for f in self.final_indices]
        return IndexMap(self.initial_indices, final, self.inverse_index_map)

    def map_indices(
        self, indices: Sequence[Any], analyzer: object = None
    ) -> list[PrimExpr]:
        """Apply the map to indices.

        Raises:
            ArgumentValueError: the number of indices is wrong.
        """
        expected = len(self.initial_indices)
        if len(indices) != expected:
            raise ArgumentValueError(
                f"IndexMap.map_indices: `indices`: expected {expected}, got {len(indices)}"
            )
        values = dict(zip(self.initial_indices, indices, strict=True))
        return [simplify_expr(prim.substitute(f, values)) for f in self.final_indices]

    def map_shape(
        self, shape: Sequence[Any], analyzer: object = None
    ) -> list[PrimExpr]:
        """Apply the map to a shape."""
        symbols = Symbols(self._dtype)
        found = self.map_symbolic_shape(symbols.dims(shape), symbols)
        return [prim.cast(self._dtype, symbols.expr(d)) for d in found]

    def map_symbolic_shape(self, shape: Sequence[Dim], symbols: Symbols) -> list[Dim]:
        """Apply the map to a shape of symbolic sizes."""
        names, final = self.dims(symbols)
        if len(shape) != len(names):
            raise ArgumentValueError(
                f"IndexMap.map_shape: `shape`: expected {len(names)} sizes, "
                f"got {len(shape)}"
            )
        sizes = dict(zip(names, shape, strict=True))
        computed = [_extent(f, sizes) for f in final]
        for low in (_interval_over(f, sizes)[0].low for f in final):
            if low != 0:
                raise ValueError(
                    f"index map `{self}`: expected indices from 0 on, got {low}"
                )
        declared = map(_divisor, self.final_indices)
        return [r if d is None else d for r, d in zip(computed, declared, strict=True)]

    def dims(self, symbols: Symbols) -> tuple[list[str], list[Dim]]:
        """The names of the initial indices, and the final indices as expressions in them.

        Raises:
            ValueError: a final index is not built of sums, products and quotients.
        """
        names = [symbols.name(var) for var in self.initial_indices]
        return names, list(map(symbols.dim, self.final_indices))

    @property
    def _dtype(self) -> str:
        if self.initial_indices:
            return self.initial_indices[0].dtype
        return "int64"

    def map_ndarray(self, arr_src: Any) -> Any:
        """Apply the map to an array: each element moves to its final indices."""
        from relax_mlir.runtime.ndarray import array

        source = np.asarray(arr_src.numpy() if hasattr(arr_src, "numpy") else arr_src)
        shape = [int(prim.convert(s)) for s in self.map_shape(source.shape)]
        made = np.zeros(shape, source.dtype)
        grid = np.indices(source.shape)
        values = dict(zip(self.initial_indices, grid, strict=True))
        final_indices = [
            np.broadcast_to(_evaluate_on_arrays(f, values), source.shape)
            for f in self.final_indices
        ]
        made[tuple(final_indices)] = source
        return array(made)

    map_tensor = map_ndarray

    def inverse(self, shape: Sequence[Any], analyzer: object = None) -> IndexMap:
        """The inverse map.

        Args:
            shape: the extent or range of each initial index.

        Raises:
            ValueError: the map is not bijective on the shape.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        made, padding = self.non_surjective_inverse(shape)
        if not (isinstance(padding, prim.IntImm) and padding.value == 0):
            raise ValueError(
                f"index map `{self}`: not bijective on {list(shape)}: nothing is mapped "
                f"to where {padding}"
            )
        return made

    def non_surjective_inverse(
        self, shape: Sequence[Any], analyzer: object = None
    ) -> tuple[IndexMap, PrimExpr]:
        """The inverse map and the padding predicate, which is false if the inverse was given.

        Raises:
            ValueError: the map is not injective, or that is unknown.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map, prim.const(False)
        ranges = [s if isinstance(s, Range) else Range(0, s) for s in shape]
        symbols = Symbols(self._dtype)
        names, final = self.dims(symbols)
        extents = [symbols.dim(r.extent) for r in ranges]
        starts = [symbols.dim(r.min) for r in ranges]
        shifted = {n: dims.symbol(n) + s for n, s in zip(names, starts, strict=True)}
        shifted_indices = [substitute(f, shifted) for f in final]
        found = inversion.invert(
            shifted_indices, dict(zip(names, extents, strict=True))
        )
        if found is None:
            raise ValueError(
                f"index map `{self}`: expected each final index to be a sum of iter splits of "
                "the initial ones that covers all of them"
            )
        axes = [self._axis_name(n) for n in range(len(final))]
        variables = [Var(name, self._dtype) for name in axes]
        for number, var in enumerate(variables):
            symbols.alias(var, inversion.final_symbol(number))
        inverse_indices = [
            symbols.expr(found.values[n] + s)
            for n, s in zip(names, starts, strict=True)
        ]
        padding = inversion.padding_term(found.padding, symbols)
        sizes = dict(zip(names, extents, strict=True))
        for final_index, reached, var in zip(
            self.final_indices, shifted_indices, variables, strict=True
        ):
            size = _extent(reached, sizes)
            declared = _divisor(final_index)
            if declared is not None and isinstance(size, int) and size < declared:
                out_of_range = prim.LE(prim.const(size, var.dtype), var)
                is_empty = isinstance(padding, prim.IntImm)
                padding = out_of_range if is_empty else prim.Or(padding, out_of_range)
        return IndexMap(variables, inverse_indices), padding

    def _axis_name(self, number: int) -> str:
        """The name of a final index: of the initial index it equals, or by its position."""
        final = self.final_indices[number]
        return final.name if isinstance(final, Var) else f"axis{number}"

    def is_equivalent_to(self, other_map: IndexMap, analyzer: object = None) -> bool:
        """Whether another map is equal up to names and simplification."""
        sizes = [len(self.initial_indices), len(self.final_indices)]
        other_sizes = [len(other_map.initial_indices), len(other_map.final_indices)]
        if sizes != other_sizes:
            return False
        mapped = other_map.map_indices(self.initial_indices)
        return all(map(_is_same, self.final_indices, mapped))

    def __str__(self) -> str:
        inner = ", ".join(v.name for v in self.initial_indices)
        values = "".join(
            f"{prim_expr_script(f)}, " for f in self.final_indices
        ).removesuffix(" ")
        return f"lambda {inner}: ({values})"

    def __repr__(self) -> str:
        return f"T.index_map({self})"


def _divisor(index: PrimExpr) -> int | None:
    """The divisor of an index that is a remainder; its extent even if fewer values occur."""
    if isinstance(index, prim.Cast):
        return _divisor(index.value)
    divisor = index.b if isinstance(index, prim.FloorMod) else None
    return divisor.value if isinstance(divisor, prim.IntImm) else None


def _interval_over(
    index: Dim, sizes: Mapping[str, Dim]
) -> tuple[regions.Interval, dict[str, tuple[int, int | None]]]:
    """The interval of an index over a shape, and the value ranges of the initial indices."""
    domains = {name: regions.Interval(0, size - 1) for name, size in sizes.items()}
    limits = index_ranges(list(sizes), list(sizes.values()))
    return regions.evaluate_interval(index, domains, limits), limits


def _extent(index: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """The extent of an index over a shape."""
    interval, limits = _interval_over(index, sizes)
    return simplify(interval.extent, limits)


def _constants(dtype: str) -> Callable[[Any], PrimExpr]:
    def constant(value: Any) -> PrimExpr:
        return prim.const(float(value) if isinstance(value, str) else value, dtype)

    return constant


SCRIPT_NAMES = SimpleNamespace(
    **{name: getattr(intrinsics, name) for name in intrinsics.__all__},
    **{dtype: _constants(dtype) for dtype in dtypes.NAMES},
)
_ALLOWED = (
    *(ast.Lambda, ast.arguments, ast.arg, ast.Name, ast.Load, ast.Tuple, ast.List),
    *(ast.Constant, ast.BinOp, ast.UnaryOp, ast.unaryop, ast.Call, ast.keyword),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Attribute),
    *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
    *(ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.IfExp),
)
_Index = (PrimExpr, int, float)


class _IndexEvaluator(ExpressionEvaluator):
    """Evaluates index expressions: given names, arithmetic, functions of ``T``.

    Args:
        names: the values of free names.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__()
        self._names = names

    def lookup(self, name: str) -> Any:
        if name == "T":
            return SCRIPT_NAMES
        if name in self._names:
            return self._names[name]
        raise NameError(f"name `{name}` is not defined", name=name)

    def attribute(self, value: Any, name: str) -> Any:
        known = vars(SCRIPT_NAMES)
        if value is not SCRIPT_NAMES or name not in known:
            raise NameError(f"`T.{name}` is not a function of indices", name=name)
        return known[name]

    def callee(self, function: Any) -> Any:
        if not any(function is known for known in vars(SCRIPT_NAMES).values()):
            raise TypeError(f"expected a function of `T` to call, got {function!r:.60}")
        return function

    def binary(self, apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not (isinstance(left, _Index) and isinstance(right, _Index)):
            raise TypeError(f"expected indices, got {left!r:.60} and {right!r:.60}")
        is_shift = apply is operator.lshift and isinstance(right, int)
        if is_shift and not 0 <= right < _INDEX_BITS:
            raise ValueError(f"expected a shift by 0 to {_INDEX_BITS - 1}, got {right}")
        return apply(left, right)


_INDEX_BITS = 64


def function_of_text(
    text: str, names: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Parses a lambda such as ``lambda i, j: (j, i)`` into a function.

    The text may come from a file: it is evaluated as data, and can call nothing but arithmetic
    and the scalar functions of ``T``.

    Raises:
        ValueError: it is not a function of indices.
    """
    try:
        expression = ast.parse(text, mode="eval").body
        unknown = [n for n in ast.walk(expression) if not isinstance(n, _ALLOWED)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"index map {text!r:.60}: not an expression: {error}"
        ) from error
    if unknown or not isinstance(expression, ast.Lambda):
        got = type(unknown[0] if unknown else expression).__name__
        raise ValueError(
            f"index map `{text}`: expected a function of indices, got `{got}` in it"
        )

    def checked(evaluate: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return evaluate(*args, **named)
        except (NameError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"index map `{text}`: {error}") from error

    made = checked(_IndexEvaluator(names or {}).value, expression)
    return wraps(made)(partial(checked, made))


def index_ranges(
    names: Sequence[str], shape: Sequence[Dim]
) -> dict[str, tuple[int, int | None]]:
    """The value ranges of indices into a shape."""
    return {
        n: (0, s - 1 if isinstance(s, int) else None)
        for n, s in zip(names, shape, strict=True)
    }


def _variables(
    function: Callable[..., Any], ndim: int | None, dtype: str
) -> tuple[list[Var], dict[str, Var]]:
    """One variable for each parameter of a function."""
    args: list[Var] = []
    named: dict[str, Var] = {}
    rest = ""
    for name, param in inspect.signature(function).parameters.items():
        if param.kind in (param.POSITIONAL_ONLY, param.POSITIONAL_OR_KEYWORD):
            args.append(Var(name, dtype))
        elif param.kind == param.VAR_POSITIONAL:
            rest = name
        elif param.kind == param.KEYWORD_ONLY:
            named[name] = Var(name, dtype)
        else:
            raise ValueError(
                f"index map: expected positional parameters, got `**{name}`"
            )
    if rest:
        if ndim is None:
            raise ValueError(f"index map: `*{rest}`: expected `ndim` to be given")
        count = ndim - len(args) - len(named)
        args += [Var(f"{rest}_{n}", dtype) for n in range(count)]
    return args, named


def _is_same(a: PrimExpr, b: PrimExpr) -> bool:
    symbols = Symbols(a.dtype)
    try:
        return symbols.dim(a) == symbols.dim(b)
    except ValueError:
        return prim.structurally_equal(simplify_expr(a), simplify_expr(b))


_ON_ARRAYS: Mapping[type, Callable[[Any, Any], Any]] = {
    prim.Add: np.add,
    prim.Sub: np.subtract,
    prim.Mul: np.multiply,
    prim.FloorDiv: np.floor_divide,
    prim.FloorMod: np.mod,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
}


def _evaluate_on_arrays(term: PrimExpr, values: Mapping[Var, Any]) -> Any:
    """Evaluates an expression elementwise on arrays."""
    if isinstance(term, prim.IntImm):
        return term.value
    if isinstance(term, Var):
        return values[term]
    if isinstance(term, prim.Cast):
        return _evaluate_on_arrays(term.value, values)
    apply = _ON_ARRAYS.get(type(term))
    if apply is None:
        raise ValueError(f"index map: cannot compute `{term}` of arrays")
    return apply(*(_evaluate_on_arrays(c, values) for c in term.children()))

"""Maps of indices: how a layout, or the axes of a block, are written in other indices."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import functions, prim
from relax_mlir.objects.expression_evaluator import ExpressionEvaluator
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.simplify import simplify as simplify_term
from relax_mlir.objects.sizes import Symbols
from relax_mlir.tir.schedule import inversion, regions
from relax_mlir.tir.schedule.indices import simplify

__all__ = ["SCRIPT_NAMES", "IndexMap", "function_of_text", "limits_of"]


class IndexMap:
    """A map from indices to other indices.

    Args:
        initial_indices: a variable per index.
        final_indices: terms in those.
        inverse_index_map: the inverse, where it is known; computed otherwise.
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
        """A map from a Python function.

        Args:
            mapping_function: takes a variable per index, gives a term or several.
            ndim: how many indices there are, for functions that take any number.
            inverse_index_map: the inverse, where it is known.
            index_dtype: type of the variables.

        Raises:
            ValueError: the result has axis separators.
        """
        made, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ValueError(
                "index map: expected indices alone, got `AXIS_SEPARATOR`. Hint: use "
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
        """A map from a Python function that may give ``IndexMap.AXIS_SEPARATOR`` too.

        Returns:
            The map, and before which of the new indices a separator stands.
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
        """The map that ``str`` spelled.

        Args:
            text: of the map.
            index_dtype: type of the variables.
            names: what stands for names in it that are no indices.

        Raises:
            ValueError: it is no function of indices.
        """
        function = function_of_text(text, names)
        return IndexMap.from_func(function, index_dtype=index_dtype)

    def with_values(self, values: Mapping[Var, Any]) -> IndexMap:
        """The map with terms in place of variables that are no indices."""
        free = {v: t for v, t in values.items() if v not in self.initial_indices}
        final = [prim.substitute(f, free) for f in self.final_indices]
        return IndexMap(self.initial_indices, final, self.inverse_index_map)

    def map_indices(
        self, indices: Sequence[Any], analyzer: object = None
    ) -> list[PrimExpr]:
        """The new indices of an element.

        Raises:
            ArgumentValueError: it has another number of indices.
        """
        expected = len(self.initial_indices)
        if len(indices) != expected:
            raise ArgumentValueError(
                f"IndexMap.map_indices: `indices`: expected {expected}, got {len(indices)}"
            )
        values = dict(zip(self.initial_indices, indices, strict=True))
        return [simplify_term(prim.substitute(f, values)) for f in self.final_indices]

    def map_shape(
        self, shape: Sequence[Any], analyzer: object = None
    ) -> list[PrimExpr]:
        """The shape that a buffer of a shape has in the new indices."""
        symbols = Symbols(self._dtype)
        found = self.shape_dims(symbols.dims(shape), symbols)
        return [prim.cast(self._dtype, symbols.term(d)) for d in found]

    def shape_dims(self, shape: Sequence[Dim], symbols: Symbols) -> list[Dim]:
        """The new shape, as sizes."""
        names, final = self.dims(symbols)
        if len(shape) != len(names):
            raise ArgumentValueError(
                f"IndexMap.map_shape: `shape`: expected {len(names)} sizes, "
                f"got {len(shape)}"
            )
        sizes = dict(zip(names, shape, strict=True))
        reached = [_extent(f, sizes) for f in final]
        for low in (_run(f, sizes)[0].low for f in final):
            if low != 0:
                raise ValueError(
                    f"index map `{self}`: expected indices from 0 on, got {low}"
                )
        declared = map(_divisor, self.final_indices)
        return [r if d is None else d for r, d in zip(reached, declared, strict=True)]

    def dims(self, symbols: Symbols) -> tuple[list[str], list[Dim]]:
        """The names of the initial indices, and the new ones as expressions in those.

        Raises:
            ValueError: there is more in them than sums, products and quotients.
        """
        names = [symbols.name(var) for var in self.initial_indices]
        return names, list(map(symbols.dim, self.final_indices))

    @property
    def _dtype(self) -> str:
        if self.initial_indices:
            return self.initial_indices[0].dtype
        return "int64"

    def map_ndarray(self, arr_src: Any) -> Any:
        """An array whose elements stand where their new indices say."""
        from relax_mlir.runtime.ndarray import array

        source = np.asarray(arr_src.numpy() if hasattr(arr_src, "numpy") else arr_src)
        shape = [int(prim.convert(s)) for s in self.map_shape(source.shape)]
        made = np.zeros(shape, source.dtype)
        grid = np.indices(source.shape)
        values = dict(zip(self.initial_indices, grid, strict=True))
        places = [
            np.broadcast_to(_of_arrays(f, values), source.shape)
            for f in self.final_indices
        ]
        made[tuple(places)] = source
        return array(made)

    map_tensor = map_ndarray

    def inverse(self, shape: Sequence[Any], analyzer: object = None) -> IndexMap:
        """The map back.

        Args:
            shape: a size or a range per index: where the map is from.

        Raises:
            ValueError: several indices are mapped to one, or some are mapped to nothing.
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
        """The map back, and where nothing is mapped to; nowhere if the map back is given.

        Raises:
            ValueError: several indices are mapped to one, or that is not known.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map, prim.const(False)
        ranges = [s if isinstance(s, Range) else Range(0, s) for s in shape]
        symbols = Symbols(self._dtype)
        names, final = self.dims(symbols)
        extents = [symbols.dim(r.extent) for r in ranges]
        starts = [symbols.dim(r.min) for r in ranges]
        shifted = {n: dims.symbol(n) + s for n, s in zip(names, starts, strict=True)}
        moved = [substitute(f, shifted) for f in final]
        found = inversion.invert(moved, dict(zip(names, extents, strict=True)))
        if found is None:
            raise ValueError(
                f"index map `{self}`: expected each of the indices to be made of parts "
                "of the old ones, and of all of them"
            )
        axes = [self._axis_name(n) for n in range(len(final))]
        variables = [Var(name, self._dtype) for name in axes]
        for number, var in enumerate(variables):
            symbols.alias(var, inversion.place(number))
        back = [
            symbols.term(found.values[n] + s)
            for n, s in zip(names, starts, strict=True)
        ]
        padding = inversion.padding_term(found.padding, symbols)
        sizes = dict(zip(names, extents, strict=True))
        for final_index, reached, var in zip(
            self.final_indices, moved, variables, strict=True
        ):
            size = _extent(reached, sizes)
            declared = _divisor(final_index)
            if declared is not None and isinstance(size, int) and size < declared:
                beyond = prim.LE(prim.const(size, var.dtype), var)
                is_none = isinstance(padding, prim.IntImm)
                padding = beyond if is_none else prim.Or(padding, beyond)
        return IndexMap(variables, back), padding

    def _axis_name(self, number: int) -> str:
        """What a new index is called: as the old one that it is, or by its number."""
        final = self.final_indices[number]
        return final.name if isinstance(final, Var) else f"axis{number}"

    def is_equivalent_to(self, other_map: IndexMap, analyzer: object = None) -> bool:
        """Whether another map does the same."""
        sizes = [len(self.initial_indices), len(self.final_indices)]
        theirs = [len(other_map.initial_indices), len(other_map.final_indices)]
        if sizes != theirs:
            return False
        mapped = other_map.map_indices(self.initial_indices)
        return all(map(_is_same, self.final_indices, mapped))

    def __str__(self) -> str:
        inner = ", ".join(v.name for v in self.initial_indices)
        values = "".join(f"{text_of(f)}, " for f in self.final_indices).removesuffix(
            " "
        )
        return f"lambda {inner}: ({values})"

    def __repr__(self) -> str:
        return f"T.index_map({self})"


def _divisor(index: PrimExpr) -> int | None:
    """How long an index is that is a remainder, also where it has fewer values."""
    if isinstance(index, prim.Cast):
        return _divisor(index.value)
    divisor = index.b if isinstance(index, prim.FloorMod) else None
    return divisor.value if isinstance(divisor, prim.IntImm) else None


def _run(
    index: Dim, sizes: Mapping[str, Dim]
) -> tuple[regions.Run, dict[str, tuple[int, int | None]]]:
    """The values of an index, in terms of the sizes of others, and their bounds."""
    domains = {name: regions.Run(0, size - 1) for name, size in sizes.items()}
    limits = limits_of(list(sizes), list(sizes.values()))
    return regions.interval(index, domains, limits), limits


def _extent(index: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """How many values an index has, in terms of the sizes of others."""
    run, limits = _run(index, sizes)
    return simplify(run.extent, limits)


def _constants(dtype: str) -> Callable[[Any], PrimExpr]:
    return lambda value: prim.const(value, dtype)


_DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")
SCRIPT_NAMES = SimpleNamespace(
    **{name: getattr(functions, name) for name in functions.__all__},
    **{dtype: _constants(dtype) for dtype in _DTYPES},
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
    """Evaluates indices: names that are given, arithmetic, functions of ``T``.

    Args:
        names: what stands for names that are no indices.
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
            raise NameError(f"`T.{name}` is no function of indices", name=name)
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
    """The function that a text such as ``lambda i, j: (j, i)`` spells.

    The text may come from a file: it is read as data, and reaches nothing but arithmetic
    and the functions of ``T`` that scripts use for scalars.

    Raises:
        ValueError: it is no function of indices.
    """
    try:
        tree = ast.parse(text, mode="eval").body
        unknown = [n for n in ast.walk(tree) if not isinstance(n, _ALLOWED)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"index map {text!r:.60}: no expression: {error}") from error
    if unknown or not isinstance(tree, ast.Lambda):
        got = type(unknown[0] if unknown else tree).__name__
        raise ValueError(
            f"index map `{text}`: expected a function of indices, got `{got}` in it"
        )

    def checked(evaluate: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return evaluate(*args, **named)
        except (NameError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"index map `{text}`: {error}") from error

    made = checked(_IndexEvaluator(names or {}).value, tree)
    return wraps(made)(partial(checked, made))


def limits_of(
    names: Sequence[str], shape: Sequence[Dim]
) -> dict[str, tuple[int, int | None]]:
    """Bounds of indices into a shape."""
    return {
        n: (0, s - 1 if isinstance(s, int) else None)
        for n, s in zip(names, shape, strict=True)
    }


def _variables(
    function: Callable[..., Any], ndim: int | None, dtype: str
) -> tuple[list[Var], dict[str, Var]]:
    """A variable for each parameter of a function."""
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
            raise ValueError(f"index map: expected parameters by place, got `**{name}`")
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
        return prim.structurally_equal(simplify_term(a), simplify_term(b))


_ON_ARRAYS: Mapping[type, Callable[[Any, Any], Any]] = {
    prim.Add: np.add,
    prim.Sub: np.subtract,
    prim.Mul: np.multiply,
    prim.FloorDiv: np.floor_divide,
    prim.FloorMod: np.mod,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
}


def _of_arrays(term: PrimExpr, values: Mapping[Var, Any]) -> Any:
    """A term for all values of its variables at once."""
    if isinstance(term, prim.IntImm):
        return term.value
    if isinstance(term, Var):
        return values[term]
    if isinstance(term, prim.Cast):
        return _of_arrays(term.value, values)
    apply = _ON_ARRAYS.get(type(term))
    if apply is None:
        raise ValueError(f"index map: cannot compute `{term}` of arrays")
    return apply(*(_of_arrays(c, values) for c in term.children()))

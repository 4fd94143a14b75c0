"""Input types of a model: declared shapes, with a symbol for every unknown size."""

import re
from collections.abc import Iterable, Mapping, Sequence

import onnx

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.errors import near_misses
from relax_mlir.frontends.onnx.weights import MAX_ELEMENTS, as_text, element_type

__all__ = ["InputType", "Shapes", "input_types"]

InputType = tuple[tuple[Dim, ...], DType]
Shapes = Mapping[str, Sequence[int | str]]

# Exporters' placeholders for unnamed sizes.
_NAMELESS = frozenset({"", "?", "-1", "0", "None", "none", "unknown"})
_LONGEST = 64  # characters of a symbol
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def input_types(
    types: Mapping[str, onnx.TypeProto], overrides: Shapes
) -> dict[str, InputType | None]:
    """Shape and element type of each input; None for one that is not a numeric tensor.

    A named size keeps its name if it is a valid symbol; ``past + sequence`` is an
    expression if both names are sizes by themselves elsewhere; an unknown size becomes
    ``<input>_<axis>``. An override of a named size applies to all its occurrences.

    Args:
        types: declared types by name.
        overrides: shapes by input; a number makes a size static, a string renames it.

    Raises:
        ValueError: an input has no shape, or an override does not match it.
        NotImplementedError: an input is not a tensor, or of an unsupported type.
    """
    for name in overrides:
        if name not in types:
            raise ValueError(
                f"shapes: there is no input `{name}`: expected one of "
                f"{', '.join(f'`{t}`' for t in types)}.{near_misses(name, types)}"
            )
    objects = [name for name, type_ in types.items() if _is_object(type_)]
    declared = {n: _declared(n, t) for n, t in types.items() if n not in objects}
    symbols = _Symbols(dims for dims, _ in declared.values())
    found = {n: symbols.shape(n, dims) for n, (dims, _) in declared.items()}
    given = {n: _given(n, sizes) for n, sizes in overrides.items()}
    renamed = _renamed(found, given)
    result: dict[str, InputType | None] = {}
    for name in types:
        if name in objects:
            result[name] = None
            continue
        dtype = declared[name][1]
        shape = found[name]
        if name in given:
            result[name] = given[name], dtype
        elif shape is None:
            raise ValueError(
                f"input `{name}` has no shape. Hint: give one, as in "
                f"shapes={{{name!r}: [1, 'n']}}"
            )
        else:
            result[name] = tuple(shapes.substitute(d, renamed) for d in shape), dtype
    return result


_Declared = tuple[list[int | str | None] | None, DType]


def _is_object(type_: onnx.TypeProto) -> bool:
    """Whether a type is a sequence, an optional, or a tensor of strings."""
    is_text = type_.tensor_type.elem_type == onnx.TensorProto.STRING
    return is_text or type_.WhichOneof("value") in ("sequence_type", "optional_type")


def _declared(name: str, type_: onnx.TypeProto) -> _Declared:
    """Declared sizes, None for an unknown one, or None for an unknown rank; element type."""
    kind = type_.WhichOneof("value")
    if kind is None:
        raise ValueError(f"input `{name}` has no type")
    if kind != "tensor_type":
        raise NotImplementedError(
            f"input `{name}`: expected a tensor, got a {kind.removesuffix('_type')}"
        )
    tensor = type_.tensor_type
    try:
        dtype = element_type(tensor.elem_type)
    except (ValueError, NotImplementedError) as error:
        raise type(error)(f"input `{name}`: {error}") from error
    if not tensor.HasField("shape"):
        return None, dtype
    return [_declared_size(name, dim) for dim in tensor.shape.dim], dtype


def _declared_size(name: str, dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_param"):
        text = as_text(dim.dim_param).strip()
        return None if text in _NAMELESS else text
    if dim.dim_value > MAX_ELEMENTS:
        raise ValueError(f"input `{name}` is too large: got a size of {dim.dim_value}")
    return dim.dim_value if dim.dim_value > 0 else None


class _Symbols:
    """Symbols of declared sizes; the same text always gives the same symbol."""

    def __init__(self, declared: Iterable[Sequence[int | str | None] | None]) -> None:
        texts = [d for dims in declared for d in dims or () if isinstance(d, str)]
        self._taken: set[str] = set()
        self._dims: dict[str, Dim] = {}
        plain = [text for text in texts if _SIMPLE.fullmatch(text)]
        for text in (*plain, *texts):
            if text not in self._dims:
                self._dims[text] = self._read(text, set(plain))

    def shape(
        self, name: str, sizes: Sequence[int | str | None] | None
    ) -> tuple[Dim, ...] | None:
        if sizes is None:
            return None
        return tuple(
            self._dims[size]
            if isinstance(size, str)
            else size or self._fresh(f"{name}_{axis}")
            for axis, size in enumerate(sizes)
        )

    def _read(self, text: str, plain: set[str]) -> Dim:
        """An expression over sizes that occur by themselves, else one symbol."""
        if not _SIMPLE.fullmatch(text):
            try:
                dim = shapes.parse(text)
            except ValueError:
                return self._fresh(text)
            if isinstance(dim, Expr) and plain.issuperset(shapes.symbols_of(dim)):
                return dim
        return self._fresh(text)

    def _fresh(self, text: str) -> Dim:
        name = re.sub(r"[^A-Za-z0-9_.]", "_", text)[:_LONGEST]
        name = name if _SIMPLE.match(name) else f"_{name}"
        unique, count = name, 0
        while unique in self._taken:
            count += 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        return shapes.symbol(unique)


def _given(name: str, sizes: Sequence[int | str]) -> tuple[Dim, ...]:
    if isinstance(sizes, str):
        raise ValueError(f"shapes: `{name}`: expected a list of sizes, got {sizes!r}")
    return tuple(_given_size(name, size) for size in sizes)


def _given_size(name: str, size: int | str) -> Dim:
    try:
        dim = shapes.parse(size) if isinstance(size, str) else int(size)
    except (ValueError, TypeError) as error:
        raise ValueError(f"shapes: `{name}`: {error}") from error
    if isinstance(dim, int) and not 0 <= dim <= MAX_ELEMENTS:
        raise ValueError(f"shapes: `{name}`: bad size: expected 0 or more, got {size}")
    return dim


def _renamed(
    found: Mapping[str, tuple[Dim, ...] | None], given: Mapping[str, tuple[Dim, ...]]
) -> dict[str, Dim]:
    """Substitutions of the model's symbols that follow from the overrides."""
    renamed: dict[str, Dim] = {}
    for name, sizes in given.items():
        declared = found[name]
        if declared is None:
            continue
        if len(declared) != len(sizes):
            raise ValueError(
                f"shapes: `{name}`: expected {len(declared)} sizes, got {len(sizes)}"
            )
        for old, new in zip(declared, sizes, strict=True):
            for symbol in _plain_symbol(old):
                if renamed.setdefault(symbol, new) != new:
                    raise ValueError(
                        f"shapes: `{symbol}` cannot be both `{renamed[symbol]}` and "
                        f"`{new}`"
                    )
    return renamed


def _plain_symbol(dim: Dim) -> tuple[str, ...]:
    """The symbol of a dimension that is a single symbol; empty otherwise."""
    names = () if isinstance(dim, int) else shapes.symbols_of(dim)
    return names if names == (str(dim),) else ()

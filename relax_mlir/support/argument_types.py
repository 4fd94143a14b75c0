"""Runtime type checks of public functions' arguments, by their annotations.

A package calls :func:`check_exports` after importing its exports. Calls between modules of this
package, which import functions from where they are defined, are not checked.
"""

from __future__ import annotations

import collections.abc as abc
import enum
import functools
import inspect
import operator
import os
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Optional, TypeVar, Union, cast, get_args, get_origin

from relax_mlir.errors import ArgumentTypeError, ArgumentValueError, short_repr

__all__ = [
    "ValueCondition",
    "at_least",
    "caller_of",
    "check_exports",
    "check_methods",
    "checked",
    "of_rank",
    "skip_argument_checks",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_Accepts = Callable[[Any], bool]

_OWN = "relax_mlir"
# Classes with thousands of instances per program, which check their own arguments.
_UNCHECKED_MODULES = (
    "relax_mlir.dialects",
    "relax_mlir.objects.stmt.buffer",
    *(
        f"relax_mlir.objects.expr.{module}"
        for module in ("attrs", "bindings", "calls", "node", "operator", "values")
    ),
    "relax_mlir.objects.expr.variables",
    "relax_mlir.objects.prim.",
)
_SEQUENCES = (abc.Sequence, abc.MutableSequence, abc.Collection, list, tuple)
_DICTIONARIES = (abc.Mapping, abc.MutableMapping, dict)


class _Function(typing.Protocol):
    """A Python function."""

    __code__: Any
    __module__: str
    __qualname__: str

    @property
    def __globals__(self) -> dict[str, Any]: ...

    def __call__(self, *args: Any, **named: Any) -> Any: ...


@dataclass(frozen=True)
class ValueCondition:
    """A condition on the values of a parameter annotated ``Annotated[type, ValueCondition(...)]``.

    Attributes:
        expected: the values, in words, for messages.
        test: whether a value of the type satisfies the condition.
    """

    expected: str
    test: _Accepts


def at_least(least: int) -> ValueCondition:
    """The condition of integers with a lower bound."""
    return ValueCondition(
        f"an integer of at least {least}", lambda v: operator.index(v) >= least
    )


def of_rank(least: int, most: int | None = None) -> ValueCondition:
    """The condition of tensors of a rank, or of a range of ranks."""
    last = least if most is None else most
    what = f"rank {least}" if last == least else f"rank {least} to {last}"
    return ValueCondition(f"a tensor of {what}", lambda v: least <= v.ndim <= last)


@dataclass(frozen=True)
class _Check:
    """The check of a parameter.

    Attributes:
        name: of the parameter.
        accepts: whether a value is accepted.
        has_type: whether a value has the type; it may still violate a condition.
        expected: the accepted values, in words.
    """

    name: str
    accepts: _Accepts
    has_type: _Accepts
    expected: str


@dataclass(frozen=True)
class _Signature:
    """The checks of a function: by position, of ``*args``, and by name."""

    positional: tuple[_Check | None, ...]
    further: _Check | None
    named: dict[str, _Check]


def checked(function: _F) -> _F:
    """A function that raises `ArgumentTypeError` for arguments of wrong types.

    Parameters without annotation, or of type ``Any``, are not checked. Annotations are resolved at
    the first call. For a class, its constructor and methods are checked, in place.
    """
    if isinstance(function, type):
        check_methods(function)
    if not inspect.isfunction(function) or _MARK in vars(function):
        return cast("_F", function)
    return cast("_F", _checked(cast("_Function", function)))


def skip_argument_checks(function: _F) -> _F:
    """Excludes a function from :func:`checked`, since it checks its arguments itself."""
    setattr(function, _MARK, True)
    return function


_MARK = "__checked__"


@functools.cache
def _checked(function: _Function) -> Callable[..., Any]:
    found: list[_Signature] = []

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if not found:
            found.append(_signature(function))
        try:
            _check(function, found[0], args, named)
            return function(*args, **named)
        except RecursionError as error:
            raise ArgumentValueError(
                f"{_name(function)}: arguments are nested too deeply, or recursively"
            ) from error

    setattr(call, _MARK, True)
    return call


def caller_of(frame: types.FrameType) -> types.FrameType:
    """The caller's frame, skipping frames of argument checks."""
    while (caller := frame.f_back) is not None and caller.f_code is _CHECKED_CODE:
        frame = caller
    if caller is None:
        raise ValueError("expected a frame with a caller")
    return caller


def _check(
    function: _Function,
    signature: _Signature,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    positional = signature.positional
    for value, check in zip(args, positional, strict=False):
        if check is not None and not check.accepts(value):
            raise _argument_error(function, check, value)
    if (check := signature.further) is not None:
        for value in args[len(positional) :]:
            if not check.accepts(value):
                raise _argument_error(function, check, value)
    for name, value in named.items():
        check = signature.named.get(name)
        if check is not None and not check.accepts(value):
            raise _argument_error(function, check, value)


def _argument_error(
    function: _Function, check: _Check, value: object
) -> ArgumentTypeError | ArgumentValueError:
    expected = f"{_name(function)}: `{check.name}`: expected {check.expected}"
    if check.has_type(value):
        return ArgumentValueError(f"{expected}, got {short_repr(value)}")
    return ArgumentTypeError(f"{expected}, got {_type_in_words(value)}")


def _name(function: _Function) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _type_in_words(value: object) -> str:
    """The type of a value in words: its class, and those of its elements."""
    if isinstance(value, (list, tuple, dict)) and value:
        elements = value.values() if isinstance(value, dict) else value
        kinds = sorted({type(v).__name__ for v in elements})
        return f"{type(value).__name__} of {', '.join(kinds)}"
    return "None" if value is None else type(value).__name__


_CHECKED_CODE = cast("_Function", _checked(caller_of)).__code__


def check_exports(namespace: dict[str, Any]) -> None:
    """Adds argument checks to the functions and classes that a package exports.

    Functions are checked under the package's name only, constructors and methods everywhere.

    Args:
        namespace: the package's ``globals()``.
    """
    for name in namespace["__all__"]:
        value = namespace.get(name)
        if isinstance(value, type):
            check_methods(value)
        elif inspect.isfunction(value) and _is_own(value):
            namespace[name] = checked(value)


def check_methods(kind: type) -> None:
    """Adds argument checks to a class's constructor and public methods, in place.

    Includes its bases. Methods that recurse over deep programs are not checked.
    """
    if issubclass(kind, (enum.Enum, BaseException, tuple)):
        return
    for base in filter(_is_checked, kind.__mro__):
        for name, value in list(vars(base).items()):
            if name in ("__init__", "__call__") or not name.startswith(_UNCHECKED):
                _check_method(base, name, value)


_UNCHECKED = ("_", "visit", "rewrite")


def _check_method(kind: type, name: str, value: object) -> None:
    if inspect.isfunction(value):
        setattr(kind, name, checked(value))
    elif isinstance(value, (staticmethod, classmethod)):
        function = value.__func__
        setattr(kind, name, type(value)(checked(function)))


def _is_own(value: _Function) -> bool:
    return value.__module__.partition(".")[0] == _OWN


def _is_checked(kind: type) -> bool:
    return kind.__module__.startswith(f"{_OWN}.") and not kind.__module__.startswith(
        _UNCHECKED_MODULES
    )


def _signature(function: _Function) -> _Signature:
    positional: list[_Check | None] = []
    further: _Check | None = None
    named: dict[str, _Check] = {}
    for parameter in inspect.signature(function).parameters.values():
        check = _check_of(function, parameter)
        if parameter.kind is parameter.VAR_POSITIONAL:
            further = check
        elif parameter.kind is not parameter.VAR_KEYWORD:
            if parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(check)
            if check is not None:
                named[parameter.name] = check
    return _Signature(tuple(positional), further, named)


def _check_of(function: _Function, parameter: inspect.Parameter) -> _Check | None:
    if parameter.annotation is parameter.empty:
        return None
    hint = _resolved(function, parameter.annotation)
    if parameter.default is None and hint is not Any:
        hint = Optional[hint]  # noqa: UP045  a dynamic type
    accepts = _accepts(hint, ValueCondition)
    if accepts is None:
        return None
    has_type = _accepts(hint, None) or (lambda v: True)
    return _Check(parameter.name, accepts, has_type, _words(hint))


def _resolved(function: _Function, annotation: Any) -> Any:
    """Resolves an annotation; ``Any`` if it names imports for type checkers only.

    Names are looked up in the module of the annotation, also if a decorator of another module wraps
    the function.
    """
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    known = inspect.unwrap(function).__globals__
    try:
        return typing.get_type_hints(holder, known, include_extras=True)["value"]
    except (NameError, AttributeError, TypeError):
        return Any


def _accepts(hint: Any, condition: type[ValueCondition] | None) -> _Accepts | None:
    """The predicate of a type; None if it accepts every value.

    Args:
        condition: the class of conditions to check, too; None for types only.
    """
    if hint is None or hint is types.NoneType:
        return lambda v: v is None
    if isinstance(hint, TypeVar):
        bound = hint.__bound__
        return _accepts(bound, condition) if bound is not None else None
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _any_of([_accepts(a, condition) for a in get_args(hint)])
    if origin is typing.Annotated:
        kind, *metadata = get_args(hint)
        tests = [t.test for t in metadata if condition and isinstance(t, condition)]
        return _all_of([_accepts(kind, condition), *tests])
    if origin is typing.Literal:
        return _is_one_of(get_args(hint))
    if origin is not None:
        return _accepts_generic(origin, get_args(hint), condition)
    return _accepts_class(hint)


def _any_of(known: Sequence[_Accepts | None]) -> _Accepts | None:
    checks = [k for k in known if k is not None]
    if len(checks) < len(known):
        return None
    return lambda v: any(accepts(v) for accepts in checks)


def _all_of(known: Sequence[_Accepts | None]) -> _Accepts | None:
    checks = [k for k in known if k is not None]
    if not checks:
        return None
    return lambda v: all(accepts(v) for accepts in checks)


def _is_one_of(values: Sequence[Any]) -> _Accepts:
    kinds = tuple({type(v) for v in values})
    return lambda v: isinstance(v, kinds) and v in values


def _accepts_generic(
    origin: Any, arguments: Sequence[Any], condition: type[ValueCondition] | None
) -> _Accepts | None:
    if origin in _SEQUENCES:
        return _sequence_of(_accepts(_element(origin, arguments), condition))
    if origin in _DICTIONARIES:
        plain = [a for a in arguments if inspect.isclass(a)]  # no generic types
        known = [_accepts(a, condition) for a in arguments]
        return _dictionary_of(known if len(plain) == len(arguments) else [])
    if origin in (abc.Iterable, abc.Iterator):
        return _is_iterable
    if origin is abc.Callable:
        return callable
    if origin is type:
        return lambda v: isinstance(v, type)
    return _accepts_class(origin)


def _element(origin: Any, arguments: Sequence[Any]) -> Any:
    """The element type of a sequence; ``Any`` if elements have types of their own."""
    each_has_its_own = origin is tuple and (
        len(arguments) != 2 or arguments[1] is not ...
    )
    return Any if each_has_its_own else next(iter(arguments), Any)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, abc.Iterable) and not isinstance(value, (str, bytes))


def _sequence_of(accepts: _Accepts | None) -> _Accepts:
    def accepts_sequence(value: Any) -> bool:
        if accepts is None or not _is_sequence(value):
            return _is_sequence(value)
        is_plain = isinstance(value, (list, tuple, range)) or hasattr(value, "dtype")
        return not is_plain or all(map(accepts, value))

    return accepts_sequence


def _dictionary_of(parts: Sequence[_Accepts | None]) -> _Accepts:
    keys, values = parts if len(parts) == 2 else (None, None)

    def accepts_dictionary(value: Any) -> bool:
        if not isinstance(value, dict):
            return isinstance(value, abc.Mapping)
        return (keys is None or all(map(keys, value))) and (
            values is None or all(map(values, value.values()))
        )

    return accepts_dictionary


def _is_sequence(value: Any) -> bool:
    """Whether a value is a sized, ordered collection; an array of rank 0 is not."""
    others = (str, bytes, bytearray, abc.Mapping, set, frozenset)
    has_elements = hasattr(value, "__len__") and hasattr(value, "__iter__")
    return (
        has_elements
        and not isinstance(value, (type, *others))
        and getattr(value, "shape", None) != ()
    )


def _accepts_class(kind: Any) -> _Accepts | None:
    if not isinstance(kind, type) or kind in (object, Any):
        return None
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _SEQUENCES:
        return _sequence_of(None)
    if getattr(kind, "_is_protocol", False) or kind.__module__ == "typing":
        return None
    return lambda v: isinstance(v, kind)


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_bool(value: Any) -> bool:
    return value is None or _is_integer(value) or type(value).__name__ == "bool"


_PLAIN: dict[Any, _Accepts] = {
    int: _is_integer,
    bool: _is_bool,
    float: lambda v: isinstance(v, Real),
    abc.Callable: callable,
    abc.Iterable: _is_iterable,
    abc.Mapping: lambda v: isinstance(v, abc.Mapping),
    dict: lambda v: isinstance(v, abc.Mapping),
}

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a bool",
    bytes: "bytes",
    os.PathLike: "a path",
    abc.Callable: "a function",
    type: "a class",
    type(None): "None",
    None: "None",
}


def _words(hint: Any) -> str:
    """A type in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = [_words(a) for a in get_args(hint)]
        return " or ".join([", ".join(parts[:-1]), parts[-1]])
    if origin is typing.Annotated:
        kind, *metadata = get_args(hint)
        conditions = [t.expected for t in metadata if isinstance(t, ValueCondition)]
        return " that is ".join(conditions) or _words(kind)
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in get_args(hint))
    if isinstance(hint, TypeVar):
        return _words(hint.__bound__)
    kind = origin or hint
    if kind in _SEQUENCES:
        element = _element(origin, get_args(hint))
        of = (
            f" of {_words(element)}"
            if _accepts(element, ValueCondition) is not None
            else ""
        )
        return f"a sequence{of}"
    if kind in _DICTIONARIES:
        return "a dictionary"
    if kind in (abc.Iterable, abc.Iterator):
        return "something to iterate over"
    return _WORDS.get(kind) or _with_article(kind.__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[0].upper() in 'AEIO' else 'a'} {name}"

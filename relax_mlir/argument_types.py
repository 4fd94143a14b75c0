"""Arguments of public functions are checked against the annotations of their parameters.

A package calls :func:`check_exports` when it has imported what it exports. Calls between modules
of this package, which take functions from where they are defined, are not checked.
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

from relax_mlir.errors import ArgumentTypeError, ArgumentValueError, shown

__all__ = [
    "Holds",
    "at_least",
    "caller_of",
    "check_exports",
    "check_methods",
    "checked",
    "checks_by_itself",
    "of_rank",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_Accepts = Callable[[Any], bool]

_OWN = "relax_mlir"
# Classes of which programs have thousands of instances; they check by themselves what they need.
_COUNTLESS = (
    "relax_mlir.dialects",
    "relax_mlir.objects.buffer",
    "relax_mlir.objects.expr",
    "relax_mlir.objects.node",
    "relax_mlir.objects.prim.",
)
_SEQUENCES = (abc.Sequence, abc.MutableSequence, abc.Collection, list, tuple)
_DICTIONARIES = (abc.Mapping, abc.MutableMapping, dict)


class _Function(typing.Protocol):
    """A function that is written in Python."""

    __code__: Any
    __module__: str
    __qualname__: str

    @property
    def __globals__(self) -> dict[str, Any]: ...

    def __call__(self, *args: Any, **named: Any) -> Any: ...


@dataclass(frozen=True)
class Holds:
    """What holds of the values of a parameter that is annotated ``Annotated[type, Holds(...)]``.

    Attributes:
        expected: the values, in words.
        test: tells whether one of the type is one of them.
    """

    expected: str
    test: _Accepts


def at_least(least: int) -> Holds:
    """The integers from a number up."""
    return Holds(
        f"an integer of at least {least}", lambda v: operator.index(v) >= least
    )


def of_rank(least: int, most: int | None = None) -> Holds:
    """Tensors of so many dimensions, or of a number of them in a range."""
    last = least if most is None else most
    what = f"rank {least}" if last == least else f"rank {least} to {last}"
    return Holds(f"a tensor of {what}", lambda v: least <= v.ndim <= last)


@dataclass(frozen=True)
class _Check:
    """What values a parameter takes.

    Attributes:
        name: of the parameter.
        accepts: whether it takes a value.
        has_type: whether a value is of its type, of which not all may be taken.
        expected: what they are, in words.
    """

    name: str
    accepts: _Accepts
    has_type: _Accepts
    expected: str


@dataclass(frozen=True)
class _Signature:
    """The checks of a function: by position, of further positions, and by name."""

    positional: tuple[_Check | None, ...]
    further: _Check | None
    named: dict[str, _Check]


def checked(function: _F) -> _F:
    """The function, which raises `ArgumentTypeError` for arguments of wrong types.

    What has no annotation, or ``Any``, is taken as it is. Annotations are read at the first call.
    Of a class, its constructor and methods are checked, in place.
    """
    if isinstance(function, type):
        check_methods(function)
    if not inspect.isfunction(function) or _MARK in vars(function):
        return cast("_F", function)
    return cast("_F", _checked(cast("_Function", function)))


def checks_by_itself(function: _F) -> _F:
    """A function that :func:`checked` leaves as it is: it says more, or in other words."""
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
                f"{_name(function)}: arguments are nested too deeply, or hold themselves"
            ) from error

    setattr(call, _MARK, True)
    return call


def caller_of(frame: types.FrameType) -> types.FrameType:
    """The frame that called a function, of which checked ones are none of their own."""
    while (caller := frame.f_back) is not None and caller.f_code is _CHECKED_CODE:
        frame = caller
    if caller is None:
        raise ValueError("expected a frame that another one called")
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
            raise _refusal(function, check, value)
    if (check := signature.further) is not None:
        for value in args[len(positional) :]:
            if not check.accepts(value):
                raise _refusal(function, check, value)
    for name, value in named.items():
        check = signature.named.get(name)
        if check is not None and not check.accepts(value):
            raise _refusal(function, check, value)


def _refusal(
    function: _Function, check: _Check, value: object
) -> ArgumentTypeError | ArgumentValueError:
    expected = f"{_name(function)}: `{check.name}`: expected {check.expected}"
    if check.has_type(value):
        return ArgumentValueError(f"{expected}, got {shown(value)}")
    return ArgumentTypeError(f"{expected}, got {_kind(value)}")


def _name(function: _Function) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _kind(value: object) -> str:
    """What a value is, in words: its class, and those of its elements."""
    if isinstance(value, (list, tuple, dict)) and value:
        elements = value.values() if isinstance(value, dict) else value
        kinds = sorted({type(v).__name__ for v in elements})
        return f"{type(value).__name__} of {', '.join(kinds)}"
    return "None" if value is None else type(value).__name__


_CHECKED_CODE = cast("_Function", _checked(caller_of)).__code__


def check_exports(namespace: dict[str, Any]) -> None:
    """Check the arguments of the functions and classes that a package exports.

    Functions are checked under the package's name alone, constructors and methods everywhere.

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
    """Check the arguments of a class's constructor and public methods, in place.

    Those of its bases, too. What calls itself for each part of a deep program is not checked.
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
        _COUNTLESS
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
        hint = Optional[hint]  # noqa: UP045  a type that is known here alone
    accepts = _accepts(hint, Holds)
    if accepts is None:
        return None
    has_type = _accepts(hint, None) or (lambda v: True)
    return _Check(parameter.name, accepts, has_type, _words(hint))


def _resolved(function: _Function, annotation: Any) -> Any:
    """What an annotation says; ``Any`` if it names what is imported for type checkers alone.

    The names in it are those of the module that wrote it, also where a decorator of another
    one has wrapped the function.
    """
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    known = inspect.unwrap(function).__globals__
    try:
        return typing.get_type_hints(holder, known, include_extras=True)["value"]
    except (NameError, AttributeError, TypeError):
        return Any


def _accepts(hint: Any, condition: type[Holds] | None) -> _Accepts | None:
    """Tells whether a value is what a type says; None where every value may be.

    Args:
        condition: the class of what has to hold besides; None if types alone matter.
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
        kind, *told = get_args(hint)
        tests = [t.test for t in told if condition and isinstance(t, condition)]
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
    origin: Any, arguments: Sequence[Any], condition: type[Holds] | None
) -> _Accepts | None:
    if origin in _SEQUENCES:
        return _sequence_of(_accepts(_element(origin, arguments), condition))
    if origin in _DICTIONARIES:
        plain = [a for a in arguments if inspect.isclass(a)]  # others say more below
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
    """The type of all elements of a sequence; ``Any`` where each has its own."""
    each_has_its_own = origin is tuple and (
        len(arguments) != 2 or arguments[1] is not ...
    )
    return Any if each_has_its_own else next(iter(arguments), Any)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, abc.Iterable) and not isinstance(value, (str, bytes))


def _sequence_of(accepts: _Accepts | None) -> _Accepts:
    def told(value: Any) -> bool:
        if accepts is None or not _is_sequence(value):
            return _is_sequence(value)
        is_plain = isinstance(value, (list, tuple, range)) or hasattr(value, "dtype")
        return not is_plain or all(map(accepts, value))

    return told


def _dictionary_of(parts: Sequence[_Accepts | None]) -> _Accepts:
    keys, values = parts if len(parts) == 2 else (None, None)

    def told(value: Any) -> bool:
        if not isinstance(value, dict):
            return isinstance(value, abc.Mapping)
        return (keys is None or all(map(keys, value))) and (
            values is None or all(map(values, value.values()))
        )

    return told


def _is_sequence(value: Any) -> bool:
    """Whether a value has a number of elements, in an order; an array of rank 0 has not."""
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
    """What a type says, in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = [_words(a) for a in get_args(hint)]
        return " or ".join([", ".join(parts[:-1]), parts[-1]])
    if origin is typing.Annotated:
        kind, *told = get_args(hint)
        said = [t.expected for t in told if isinstance(t, Holds)]
        return " that is ".join(said) or _words(kind)
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in get_args(hint))
    if isinstance(hint, TypeVar):
        return _words(hint.__bound__)
    kind = origin or hint
    if kind in _SEQUENCES:
        element = _element(origin, get_args(hint))
        of = f" of {_words(element)}" if _accepts(element, Holds) is not None else ""
        return f"a sequence{of}"
    if kind in _DICTIONARIES:
        return "a dictionary"
    if kind in (abc.Iterable, abc.Iterator):
        return "something to iterate over"
    return _WORDS.get(kind) or _with_article(kind.__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[0].upper() in 'AEIO' else 'a'} {name}"

"""Every exception that relax_mlir raises on purpose.

A message reads *where: what is wrong: expected E, got G. Hint.* Leaves raise
``ValueError`` with one sentence; the boundary that knows the place wraps it once
with :func:`located`.
"""

import difflib
from collections.abc import Iterable

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "CompileError",
    "DeviceError",
    "EmulationError",
    "FailedAssertionError",
    "IRError",
    "IndexOutOfRangeError",
    "MismatchError",
    "MissingElementError",
    "ModelError",
    "OperatorError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "PassError",
    "PipelineError",
    "RelaxError",
    "RunError",
    "ScheduleError",
    "ScriptError",
    "SignatureError",
    "TuningError",
    "UnknownAttributeError",
    "UnknownNameError",
    "UnknownOperatorError",
    "UnsupportedArgumentError",
    "UnsupportedError",
    "VerificationError",
    "near_misses",
    "shown",
    "text_of",
    "without_hint",
]


class RelaxError(RuntimeError):
    """Base of all errors of this package."""


class ArgumentTypeError(RelaxError, TypeError):
    """An argument of a public function is of another type than its parameter."""


class ArgumentValueError(RelaxError, ValueError):
    """An argument of a public function is a value that its parameter does not take."""


class MissingElementError(RelaxError, ValueError, IndexError):
    """A tuple, a tensor or a schedule has no such field, dimension or value."""


class MismatchError(RelaxError, ValueError, AssertionError):
    """Arguments do not fit each other."""


class UnknownNameError(RelaxError, KeyError):
    """A table has no such name."""

    __str__ = Exception.__str__  # a `KeyError` quotes its message


class UnknownAttributeError(RelaxError, AttributeError):
    """An object has no attribute, and a module no function, of that name."""


class UnsupportedArgumentError(RelaxError, ValueError, NotImplementedError):
    """An argument means something, but nothing that is done here."""


class IRError(RelaxError, ValueError):
    """A module is not well formed: syntax, types, or an op used wrongly."""


class OperatorError(IRError, TypeError, RuntimeError):
    """An operator is applied to arguments that do not fit it.

    TVM has three kinds of it, which programs catch; this is all of them.
    """


class UnknownOperatorError(OperatorError, AttributeError):
    """There is no operator of that name."""


class DivisionError(OperatorError, ZeroDivisionError):
    """A number is divided by zero."""


class BuilderError(IRError, RuntimeError):
    """A function is being built out of turn: begun twice, or never finished."""


class TensorArgumentError(RelaxError, TypeError, AssertionError):
    """A function of tensor expressions is given what is no tensor and no plain value."""


class PipelineError(RelaxError, ValueError):
    """A pass pipeline string is malformed or names something unknown."""


class PassError(RelaxError, RuntimeError):
    """A pass could not do its work on this module."""


class VerificationError(RelaxError, RuntimeError):
    """A pass changed the values that a module computes, or left what it must not."""


class ModelError(RelaxError, ValueError):
    """A model cannot be read: damaged, inconsistent, or outside the standard."""


class SignatureError(ModelError):
    """A compiled model is not signed as it has to be, or signatures cannot be checked."""


class UnsupportedError(ModelError, NotImplementedError):
    """A model is valid but uses something that has no rule here yet."""


class TuningError(RelaxError, ValueError):
    """A tuning database is damaged, or does not fit; or kernels cannot be tuned so."""


class ScriptError(RelaxError, RuntimeError):
    """A script is no program: syntax, names, types, or what it calls.

    The message names the file, the line and the column, and shows the line with a caret.
    """


class ScheduleError(RelaxError, RuntimeError):
    """A schedule primitive would change what a program computes, or cannot be applied.

    Attributes:
        summary: the same without names, or empty.
    """

    def __init__(self, message: str, summary: str = "") -> None:
        super().__init__(message)
        self.summary = summary


class RunError(RelaxError, ValueError, RuntimeError):
    """A value that a program meets when it runs is not what its types say."""


class FailedAssertionError(RunError, AssertionError):
    """What a program asserts does not hold."""


class OutOfMemoryError(RunError, MemoryError):
    """A program needs more memory than there is."""


class IndexOutOfRangeError(RunError, IndexError):
    """An index of a tensor is outside of what the operator that reads it allows.

    Raised by models that are compiled with ``checks="indices"``; for constant indices,
    when they are compiled.
    """


class OutOfBoundsError(RunError, IndexError):
    """A compiled kernel accesses memory out of bounds, or reads what nothing wrote.

    Found between guard pages (``RELAX_MLIR_GUARD=1``); it is a bug of this package.
    """


class DeviceError(RelaxError, RuntimeError):
    """A GPU is not there, or its driver refuses what it is asked for."""


class EmulationError(RelaxError):
    """An emulated kernel does what it must not, such as a race, or what is not known."""


class CompileError(RelaxError, RuntimeError):
    """Code generation failed."""


def near_misses(name: object, known: Iterable[str]) -> str:
    """A hint that lists the known names closest to ``name``, or an empty string."""
    if not isinstance(name, str):
        return ""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return (
        f" Did you mean {' or '.join(f'`{word}`' for word in close)}?" if close else ""
    )


def shown(value: object) -> str:
    """A value in a message: its text, shortened, or its class where it has none."""
    try:
        text = repr(value)
    except Exception:
        return f"a `{type(value).__name__}`"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def text_of(value: object, where: str, expected: str) -> str:
    """The text of an argument, such as a target or an element type.

    Raises:
        ArgumentTypeError: it has none.
    """
    if type(value) is str:
        return value
    try:
        return str(value)
    except Exception as error:
        kind = type(value).__name__
        raise ArgumentTypeError(f"{where}: expected {expected}, got {kind}") from error


_SHOWN = 200  # characters of a value in a message


def without_hint(error: Exception) -> str:
    """What is wrong, without what to do about it: for a place in another sentence."""
    return str(error).partition(" Hint:")[0].rstrip(".")

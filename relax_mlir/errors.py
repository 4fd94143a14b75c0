"""The exceptions of relax_mlir.

A message reads *where: what is wrong: expected E, got G. Hint.* Inner functions raise
``ValueError`` with one sentence; the caller that knows the location wraps it once.
"""

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
    "short_repr",
    "string_of_argument",
    "without_compiler",
    "without_hint",
]


class RelaxError(RuntimeError):
    """Base class of all errors of this package."""


class ArgumentTypeError(RelaxError, TypeError):
    """An argument of a public function has the wrong type."""


class ArgumentValueError(RelaxError, ValueError):
    """An argument of a public function has an invalid value."""


class MissingElementError(RelaxError, ValueError, IndexError):
    """A tuple, tensor or schedule lacks a field, dimension or value."""


class MismatchError(RelaxError, ValueError, AssertionError):
    """Arguments are inconsistent with each other."""


class UnknownNameError(RelaxError, KeyError):
    """A lookup of an unknown name."""

    __str__ = Exception.__str__  # a `KeyError` quotes its message


class UnknownAttributeError(RelaxError, AttributeError):
    """An object lacks an attribute, or a module a function, of that name."""


class UnsupportedArgumentError(RelaxError, ValueError, NotImplementedError):
    """An argument is valid, but not supported."""


class IRError(RelaxError, ValueError):
    """A module is malformed: syntax, types, or misuse of an operation."""


class OperatorError(IRError, TypeError, RuntimeError):
    """An operator is applied to invalid arguments.

    TVM raises three exception types for this, which programs catch; this is all of them.
    """


class UnknownOperatorError(OperatorError, AttributeError):
    """There is no operator of that name."""


class DivisionError(OperatorError, ZeroDivisionError):
    """A constant division by zero."""


class BuilderError(IRError, RuntimeError):
    """A function builder is used out of order: begun twice, or never finished."""


class TensorArgumentError(RelaxError, TypeError, AssertionError):
    """A tensor expression function gets an argument that is neither a tensor nor a scalar."""


class PipelineError(RelaxError, ValueError):
    """A pass pipeline string is malformed or has unknown names."""


class PassError(RelaxError, RuntimeError):
    """A pass failed on a module."""


class VerificationError(RelaxError, RuntimeError):
    """A pass changed the values that a module computes, or violated an invariant."""


class ModelError(RelaxError, ValueError):
    """A model cannot be read: damaged, inconsistent, or outside of the standard."""


class SignatureError(ModelError):
    """A compiled model lacks a valid signature, or signatures cannot be checked."""


class UnsupportedError(ModelError, NotImplementedError):
    """A model is valid but uses an unsupported feature."""


class TuningError(RelaxError, ValueError):
    """A tuning database is damaged or incompatible, or kernels cannot be tuned as requested."""


class ScriptError(RelaxError, RuntimeError):
    """A script is invalid: syntax, names, types, or calls.

    The message has the file, line and column, and shows the line with a caret.
    """


class ScheduleError(RelaxError, RuntimeError):
    """A schedule primitive is not applicable, or would change the result of a program.

    Attributes:
        summary: the message without names, or empty.
    """

    def __init__(self, message: str, summary: str = "") -> None:
        super().__init__(message)
        self.summary = summary


class RunError(RelaxError, ValueError, RuntimeError):
    """A run-time value contradicts the types of a program."""


class FailedAssertionError(RunError, AssertionError):
    """An assertion of a program failed."""


class OutOfMemoryError(RunError, MemoryError):
    """A program needs more memory than is available."""


class IndexOutOfRangeError(RunError, IndexError):
    """A tensor index is outside of the range that its operator allows.

    Raised by models that are compiled with ``checks="indices"``; for constant indices,
    at compile time.
    """


class OutOfBoundsError(RunError, IndexError):
    """A compiled kernel accesses memory out of bounds, or reads uninitialised memory.

    Found with guard pages (``RELAX_MLIR_GUARD=1``); it is a bug of this package.
    """


class DeviceError(RelaxError, RuntimeError):
    """No GPU is available, or its driver reports an error."""


class EmulationError(RelaxError):
    """An emulated kernel has an error, such as a race, or uses an unsupported instruction."""


class CompileError(RelaxError, RuntimeError):
    """Code generation failed."""


def near_misses(name: object, known: Iterable[str]) -> str:
    """A hint that lists the known names closest to ``name``, or an empty string."""
    if not isinstance(name, str):
        return ""
    import difflib  # late: it takes longer to import than the rest of this module

    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return (
        f" Did you mean {' or '.join(f'`{word}`' for word in close)}?" if close else ""
    )


def short_repr(value: object) -> str:
    """The text of a value for messages, shortened; its class if it has no text."""
    try:
        text = repr(value)
    except Exception:
        return f"a `{type(value).__name__}`"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def string_of_argument(value: object, where: str, expected: str) -> str:
    """The string form of an argument, such as a target or an element type.

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


_SHOWN = 200  # most characters of a value in a message


def without_hint(error: Exception) -> str:
    """The message of an error without its hint, for use in another message."""
    return str(error).partition(" Hint:")[0].rstrip(".")


def without_compiler(what: str, error: ModuleNotFoundError) -> ImportError:
    """The error where a module of the compiler, or one that it needs, is missing."""
    return ImportError(
        f"{what}: the compiler is not installed, or not completely: no module "
        f"`{error.name}`. Hint: `pip install relax_mlir`",
        name=error.name,
    )

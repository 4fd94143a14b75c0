"""Pass contexts, pass instruments, and the call protocol of passes."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr.node import Expr
from relax_mlir.support.argument_types import skip_argument_checks

__all__ = ["AnyPass", "PassContext", "PassInfo", "PassInstrument"]


@dataclass(frozen=True)
class PassInfo:
    """The metadata of a pass.

    Attributes:
        opt_level: the least ``opt_level`` of a context in which a `Sequential` runs it.
        name: its name.
        required: passes that a `Sequential` runs before it, by name.
        traceable: whether tuning may record it.
    """

    opt_level: int
    name: str
    required: Sequence[str] = ()
    traceable: bool = False


class PassInstrument:
    """Callbacks around passes; subclasses override those they need."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is exited."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Returns whether a pass may run on a module."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called before a pass runs on a module."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the result of a pass."""


def _check_is_number(name: str, value: object) -> None:
    if not isinstance(value, int):
        raise TypeError(f"`{name}`: expected a number, got {value!r}")


def _check_is_module(where: str, value: object) -> None:
    if isinstance(value, IRModule):
        return
    hint = " Hint: `IRModule.from_expr` creates one." if isinstance(value, Expr) else ""
    raise TypeError(f"{where}: expected an IRModule, got {type(value).__name__}.{hint}")


_current: ContextVar["PassContext | None"] = ContextVar("pass_context", default=None)


class PassContext:
    """The settings of passes that are called inside ``with PassContext(...):``.

    Args:
        opt_level: a `Sequential` skips passes of a higher level.
        required_pass: passes that it runs regardless, by name.
        disabled_pass: passes that it skips, by name.
        instruments: callbacks around every pass.
        config: options of passes.
        trace: the trace recorded by tuning.

    Raises:
        TypeError: an argument is not a list of names, or not a dictionary.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[PassInstrument] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: object = None,
        trace_stack: Sequence[object] | None = None,
        make_traceable: object = None,
        num_evals: int = 0,
        tuning_api_database: object = None,
    ) -> None:
        listed = {
            "required_pass": required_pass,
            "disabled_pass": disabled_pass,
            "instruments": instruments,
        }
        for name, value in listed.items():
            if value is not None and not isinstance(value, (list, tuple)):
                raise TypeError(f"`{name}`: expected a list, got {value!r}")
        if config is not None and not hasattr(config, "keys"):
            raise TypeError(f"`config`: expected a dictionary, got {config!r}")
        _check_is_number("opt_level", opt_level)
        self.opt_level = opt_level
        self.required_pass = list(required_pass or ())
        self.disabled_pass = list(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.config = dict(config or {})
        self.trace = trace
        self._outer: list[PassContext | None] = []

    def __repr__(self) -> str:
        names = ("opt_level", "required_pass", "disabled_pass", "instruments", "config")
        shown = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"PassContext({', '.join(shown)})"

    @staticmethod
    def current() -> "PassContext":
        """The innermost open context, or a default one."""
        found = _current.get()
        if found is None:
            found = PassContext()
            _current.set(found)
        return found

    def __enter__(self) -> "PassContext":  # noqa: PYI034  it is for typing_extensions
        self._outer.append(_current.get())
        _current.set(self)
        self._enter_instruments()
        return self

    def _enter_instruments(self) -> None:
        entered: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            for instrument in entered:
                instrument.exit_pass_ctx()
            self.instruments = []
            _current.set(self._outer.pop())
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._exit_instruments()
        finally:
            _current.set(self._outer.pop())

    def _exit_instruments(self) -> None:
        try:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = []
            raise

    def override_instruments(
        self, instruments: Sequence[PassInstrument] | None
    ) -> None:
        """Replaces the instruments; the previous ones are exited."""
        self._exit_instruments()
        self.instruments = [] if instruments is None else list(instruments)
        for instrument in self.instruments:
            instrument.enter_pass_ctx()

    def is_enabled(self, info: PassInfo) -> bool:
        """Whether a `Sequential` runs a pass in this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def before_pass(self, mod: IRModule, info: PassInfo) -> bool:
        """Calls the instruments before a pass; returns whether the pass may run."""
        if info.name not in self.required_pass:
            for instrument in self.instruments:
                if not instrument.should_run(mod, info):
                    return False
        for instrument in self.instruments:
            instrument.run_before_pass(mod, info)
        return True

    def after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Calls the instruments with the result of a pass."""
        for instrument in self.instruments:
            instrument.run_after_pass(mod, info)


class AnyPass:
    """A callable that maps a module to a transformed copy."""

    @property
    def info(self) -> PassInfo:
        """The metadata of the pass."""
        raise NotImplementedError

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """The transformed module; the argument is unchanged."""
        raise NotImplementedError

    @skip_argument_checks  # its errors name the pass
    def __call__(self, mod: IRModule, ctx: PassContext | None = None) -> IRModule:
        """A transformed copy of ``mod``, in the current context.

        Raises:
            TypeError: ``mod`` is not a module.
            PassError: the pass failed.
        """
        _check_is_module(f"pass `{self.info.name}`", mod)
        context = PassContext.current() if ctx is None else ctx
        if not isinstance(context, PassContext):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(context).__name__
            raise TypeError(
                f"pass `{self.info.name}`: `ctx`: expected a PassContext, got {kind}"
            )
        if not context.before_pass(mod, self.info):
            return mod
        changed = self.transform(mod, context)
        context.after_pass(changed, self.info)
        return changed

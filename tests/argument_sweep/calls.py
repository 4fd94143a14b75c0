"""Random calls of the ways in, with arguments that fit and others."""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.tvm import tir
from tests.argument_sweep.judge import accident
from tests.argument_sweep.values import PROGRAMS, fitting, hostile
from tests.argument_sweep.ways_in import WayIn

__all__ = ["Sweep", "TookTooLong", "limited", "shown"]

_MANY = 12  # values of a class that are kept
_SECONDS = 20  # for a call


class TookTooLong(BaseException):
    """A call took longer than it may; no ``except Exception`` hides it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` where what is inside takes longer."""

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def shown(value: Any, depth: int = 2) -> str:
    """A value in a line, whatever it is."""
    if isinstance(value, (list, tuple)) and depth:
        return f"[{', '.join(shown(v, depth - 1) for v in value[:6])}]"
    if isinstance(value, dict) and depth:
        pairs = list(value.items())[:6]
        return f"{{{', '.join(f'{k!r}: {shown(v, depth - 1)}' for k, v in pairs)}}}"
    try:
        text = repr(value).replace("\n", " ")[:60]
    except Exception:  # of an object that was made wrongly
        text = "no text"
    return (
        text
        if isinstance(value, (int, float, str))
        else f"<{type(value).__name__}: {text}>"
    )


class Sweep:
    """Calls ways in; results are arguments of later calls.

    Args:
        seed: of the random numbers that choose arguments.

    Attributes:
        accidents: a call for each place where one ended by accident.
        calls, good: how many there were, and how many of them returned.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._hostile = hostile()
        self._fitting = fitting()
        self._by_class: defaultdict[str, list[Any]] = defaultdict(list)
        for value in self._fitting:
            self._keep(value)
        self.accidents: dict[str, str] = {}
        self.calls = self.good = 0

    def call(self, way: WayIn) -> None:
        """Call a way in once."""
        if way.owner in tir.Schedule.__mro__:
            self._schedule()
        args, named = self._arguments(way.function)
        if way.owner is not None:
            known = self._by_class[way.owner.__name__]
            receivers = [v for v in known if isinstance(v, way.owner)]
            if not receivers:
                return
            args[:1] = [self._rng.choice(receivers)]
        made = self.attempt(way.name, way.function, args, named)
        for value in made if isinstance(made, (list, tuple)) else [made]:
            if type(value).__module__.startswith("relax_mlir"):
                self._keep(value)

    def attempt(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        """What a call returns; None if it raises, which is judged."""
        self.calls += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()), limited(_SECONDS):
                made = function(*args, **named)
        except TookTooLong:
            self.accidents.setdefault(f"{name}: took longer than {_SECONDS} s", "")
        except Exception as error:
            if where := accident(error, name):
                call = f"{name}({shown(args)}, {shown(named)})"
                self.accidents.setdefault(where, call)
        else:
            self.good += 1
            return made
        return None

    def value(self, annotation: str, rate: float) -> Any:
        """An argument, which does not fit at a rate.

        Args:
            annotation: of its parameter.
            rate: from 0 to 1.
        """
        if self._rng.random() < rate:
            return self._rng.choice(self._hostile)
        return self._fitting_one(annotation)

    def _schedule(self) -> None:
        """Let primitives be called on a new schedule, with its own blocks and loops."""
        made = tir.Schedule(self._rng.choice(PROGRAMS))
        blocks = made.get_child_blocks(made.get_block("root"))
        self._by_class["Schedule"] = [made]
        for name, found in (("BlockRV", blocks), ("LoopRV", _loops(made, blocks))):
            self._by_class[name] = list(found)

    def _keep(self, value: Any) -> None:
        for kind in type(value).__mro__[:-1]:
            known = self._by_class[kind.__name__]
            if len(known) < _MANY:
                known.append(value)
            elif self._rng.random() < 0.05:
                known[self._rng.randrange(_MANY)] = value

    def _arguments(
        self, function: Callable[..., Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        rate = self._rng.choice((0.0, 0.15, 0.3, 0.6))  # of values that do not fit
        args: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in _parameters(function):
            if parameter.kind is parameter.VAR_POSITIONAL:
                count = 0 if named else self._rng.randrange(3)
                args += [self._value(parameter, rate) for _ in range(count)]
            elif parameter.kind is parameter.VAR_KEYWORD:
                continue
            elif parameter.default is not parameter.empty:
                if self._rng.random() < 0.3:
                    named[parameter.name] = self._value(parameter, rate)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = self._value(parameter, rate)
            else:
                args.append(self._value(parameter, rate))
        return args, named

    def _value(self, parameter: inspect.Parameter, rate: float) -> Any:
        if self._rng.random() < rate:
            return self._rng.choice(self._hostile)
        if self._rng.random() < 0.1:
            return self._rng.choice(self._fitting)
        return self._fitting_one(str(parameter.annotation))

    def _fitting_one(self, annotation: str) -> Any:
        """A value whose class the annotation names, perhaps in a list."""
        names = sorted(set(re.findall(r"[A-Za-z_]+", annotation)))
        known: Sequence[Any] = [v for n in names for v in self._by_class.get(n, ())]
        known = known or self._fitting
        is_list = re.search(r"(Sequence|list|tuple|Iterable)\[", annotation)
        if is_list and self._rng.random() < 0.7:
            return [self._rng.choice(known) for _ in range(self._rng.randint(1, 3))]
        if "None" in names and self._rng.random() < 0.15:
            return None
        return self._rng.choice(known)


def _loops(schedule: tir.Schedule, blocks: Sequence[Any]) -> list[Any]:
    return [loop for block in blocks for loop in schedule.get_loops(block)]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []

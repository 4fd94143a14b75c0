# pyright: strict, reportMissingTypeStubs=false
"""Pass pipelines of our passes and MLIR's, parsed from text."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import IRError, PassError, PipelineError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.passes.relax.verify import Checker
from relax_mlir.pipeline import catalog, upstream
from relax_mlir.pipeline.instruments import Instrument, Step
from relax_mlir.pipeline.options import format_options, make_pass
from relax_mlir.pipeline.pass_instruments import context_instruments
from relax_mlir.pipeline.syntax import Element, malformed, parse_elements
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.symbolic import constraints

__all__ = ["Nest", "OurPass", "Pipeline", "UpstreamPass", "opt"]

MODULE, FUNCTION = "builtin.module", "func.func"


class _FunctionPass(Protocol):
    """Interface of a pass with ``per_function = True``."""

    def run_on_function(self, function: func.FuncOp, module: IRModule) -> None:
        """Transform one function, and nothing outside of it."""
        ...


@dataclass(frozen=True)
class OurPass:
    """A pass written in Python."""

    name: str
    value: Pass

    def __str__(self) -> str:
        """Pipeline text."""
        options = format_options(self.value)
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class UpstreamPass:
    """A pass of MLIR; its options stay text."""

    name: str
    options: str = ""

    def __str__(self) -> str:
        """Pipeline text."""
        return f"{self.name}{{{self.options}}}" if self.options else self.name


_Check = Callable[[IRModule], None]  # raises IRError if the module is invalid


@dataclass(frozen=True)
class Nest:
    """Passes nested under an operation, such as ``func.func(cse)``."""

    anchor: str
    elements: "tuple[OurPass | UpstreamPass | Nest, ...]"

    def __str__(self) -> str:
        """Pipeline text."""
        return f"{self.anchor}({','.join(map(str, self.elements))})"


@dataclass(frozen=True)
class Pipeline:
    """A sequence of passes; its text parses to an equal pipeline."""

    elements: "tuple[OurPass | UpstreamPass | Nest, ...]" = ()

    @staticmethod
    def parse(text: str) -> "Pipeline":
        """Parse the syntax of ``mlir-opt --pass-pipeline``, extended by our passes.

        The outer ``builtin.module(...)`` is optional.

        Raises:
            PipelineError: the text is malformed, or a pass or an option is unknown.
        """
        found: list[OurPass | UpstreamPass | Nest] = []
        for element in parse_elements(text):
            if element.name == MODULE and element.inner is not None:
                found += (_resolve(inner, (), text) for inner in element.inner)
            else:
                found.append(_resolve(element, (), text))
        return Pipeline(tuple(found))

    @staticmethod
    def of(passes: "str | Pass | Sequence[str | Pass]") -> "Pipeline":
        """A pipeline of passes, pipeline text, or a list of both.

        Raises:
            PipelineError: a text is malformed, or a pass or an option is unknown.
        """
        listed = [passes] if isinstance(passes, (str, Pass)) else passes
        found: list[OurPass | UpstreamPass | Nest] = []
        for each in listed:
            is_pass = isinstance(each, Pass)
            found += (
                [OurPass(each.info.name, each)]
                if is_pass
                else (Pipeline.parse(each).elements)
            )
        return Pipeline(tuple(found))

    def __str__(self) -> str:
        """Pipeline text."""
        text = ",".join(map(str, self.elements))
        outer = any(isinstance(e, Nest) and e.anchor == MODULE for e in self.elements)
        return f"{MODULE}({text})" if outer else text

    def run(
        self,
        module: IRModule,
        *,
        verify: bool = True,
        verify_each: bool = True,
        instruments: Sequence[Instrument] = (),
    ) -> None:
        """Transform ``module`` in place; if a pass fails, its state is unspecified.

        An exception of a Python pass is propagated with a note that names the pass.

        Args:
            module: the module to transform.
            verify: whether to verify the module before the first and after each pass.
            verify_each: whether ``relax-verify`` runs after each pass, too. If not, it runs
                after the last one; MLIR's verifier, which takes less time, after each.
                After an error all passes run again on a copy, verified each, so that the
                error names the pass that caused it.
            instruments: callbacks around every pass.

        Raises:
            IRError: the module is invalid to begin with.
            PassError: a pass of MLIR failed, or a pass left an invalid module.
        """
        instruments = [*instruments, *context_instruments()]
        if verify_each or not verify:
            self._run(module, verify, verify_each, instruments)
            return
        before = module.clone()
        try:
            self._run(module, verify, verify_each, instruments)
        except Exception:
            self._run(before, verify, True, ())
            raise

    def _run(
        self,
        module: IRModule,
        verify: bool,
        verify_each: bool,
        instruments: Sequence[Instrument],
    ) -> None:
        # MLIR's bindings abort the process if two threads report errors at once.
        module.context.enable_multithreading(False)
        module.forget_scopes()
        leaves = list(_leaves(self.elements, ()))
        with constraints.with_equalities(constraints_of(module)):
            checks = _first_check(module, leaves) if verify else ()
        for number, (anchors, leaf) in enumerate(leaves, start=1):
            step = Step(number, len(leaves), leaf.name, _nested_text(anchors, leaf))
            run = functools.partial(_run_leaf, anchors, leaf, module)
            is_last = number == len(leaves)
            due = checks if verify_each or is_last else checks[:1]
            holding = constraints.with_equalities(constraints_of(module))
            with module.context, ir.Location.unknown(), holding:
                _run_step(step, run, module, due, instruments)


def opt(
    module: IRModule,
    pipeline: "str | Pass | Sequence[str | Pass]",
    *,
    verify: bool = True,
    instruments: Sequence[Instrument] = (),
) -> IRModule:
    """Run a pipeline on a copy of ``module``.

    Args:
        module: the module, which is not modified.
        pipeline: for instance ``relax-fuse-ops{max-ops=16},func.func(cse)``, or a list of
            pass objects and such texts.
        verify: whether to verify the module before the first and after each pass.
        instruments: callbacks around every pass: dumps, timing, reproducers.

    Raises:
        PipelineError: the text is malformed, or a pass or an option is unknown.
        IRError: the module is invalid to begin with.
        PassError: a pass of MLIR failed, or a pass left an invalid module.
    """
    parsed = Pipeline.of(pipeline)
    copy = module.clone()
    parsed.run(copy, verify=verify, instruments=instruments)
    return copy


def _resolve(
    element: Element, anchors: tuple[str, ...], text: str
) -> OurPass | UpstreamPass | Nest:
    """Resolve a parsed element to a pass or a nest, and validate it."""
    try:
        if element.inner is not None:
            _check_nest(element)
        elif (registered := catalog.find_registered(element.name)) is not None:
            if element.options:
                raise ValueError(f"`{element.name}` has no options")
            return OurPass(element.name, registered)
        elif catalog.is_ours(element.name):
            kind = catalog.find_pass(element.name)
            _check_anchors(element.name, kind, anchors)
            return OurPass(element.name, make_pass(kind, element, text))
        else:
            return _resolve_upstream(element, anchors)
    except PipelineError:
        raise
    except ValueError as error:
        raise malformed(text, element.at, str(error)) from error
    anchors = (*anchors, element.name)
    return Nest(element.name, tuple(_resolve(e, anchors, text) for e in element.inner))


def _resolve_upstream(element: Element, anchors: tuple[str, ...]) -> UpstreamPass:
    if not upstream.has_pass(element.name):
        if "." in element.name:
            raise ValueError(f"expected passes in parentheses after `{element.name}`")
        raise ValueError(catalog.unknown_pass(element.name))
    upstream.check_pass(anchors, element.name, element.options or "")
    return UpstreamPass(element.name, element.options or "")


def _check_nest(element: Element) -> None:
    if not element.inner:
        raise ValueError(f"expected passes in `{element.name}(...)`")
    if catalog.is_ours(element.name) or upstream.has_pass(element.name):
        raise ValueError(f"`{element.name}` is a pass: its options go in braces")
    upstream.check_anchor(element.name)


def _check_anchors(name: str, kind: type[Pass], anchors: tuple[str, ...]) -> None:
    if not anchors or (anchors == (FUNCTION,) and _is_per_function(kind)):
        return
    also = f" or `{FUNCTION}`" if _is_per_function(kind) else ""
    raise ValueError(
        f"`{name}` runs on `{MODULE}`{also}, not on `{anchors[-1]}`. "
        f"Write it outside of `{anchors[0]}(...)`."
    )


def _is_per_function(kind: type[Pass]) -> bool:
    return bool(getattr(kind, "per_function", False))


def _leaves(
    elements: "tuple[OurPass | UpstreamPass | Nest, ...]", anchors: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], OurPass | UpstreamPass]]:
    """Every pass, with the operations it is nested under.

    MLIR runs a whole nested pipeline on one function after the other. Running one pass
    after the other on all functions is equivalent, because a pass must not access other
    functions, and permits verification, timing and dumps per pass.
    """
    for element in elements:
        if isinstance(element, Nest):
            yield from _leaves(element.elements, (*anchors, element.anchor))
        else:
            yield anchors, element


def _nested_text(anchors: tuple[str, ...], leaf: OurPass | UpstreamPass) -> str:
    text = str(leaf)
    for anchor in reversed(anchors):
        text = f"{anchor}({text})"
    return f"{MODULE}({text})" if anchors[:1] == (MODULE,) else text


def _run_step(
    step: Step,
    run: Callable[[], None],
    module: IRModule,
    checks: Sequence[_Check],
    instruments: Sequence[Instrument],
) -> None:
    """Run one pass, verify the module, and call the instruments."""
    try:
        for instrument in instruments:
            instrument.before_pass(step, module)
        start_s = time.perf_counter()
        run()
        time_s = time.perf_counter() - start_s
        _verify_after(step, module, checks)
        for instrument in reversed(instruments):
            instrument.after_pass(step, module, time_s)
    except Exception as error:
        failure = error
        if isinstance(error, upstream.MLIRError | upstream.UpstreamError):
            failure = PassError(f"{step}: {upstream.diagnostics(error)}")
        lines = [i.on_failure(step, module, failure) for i in reversed(instruments)]
        _add_notes(failure, step, [line for line in lines if line])
        if failure is error:
            raise
        raise failure from error


def _add_notes(error: Exception, step: Step, lines: list[str]) -> None:
    """Add the name of the failed pass and the instruments' lines to an error.

    A ``PassError`` that names the pass already gets the lines in its message; other
    exceptions get notes.
    """
    if isinstance(error, PassError) and str(error).startswith(str(step)):
        error.args = ("\n".join([str(error), *lines]),)
        return
    # Python 3.10 has no `add_note`; relax-opt prints the notes.
    notes = [*getattr(error, "__notes__", ()), f"in {step}", *lines]
    vars(error)["__notes__"] = notes


_OURS = "relax_mlir."  # prefix of our modules


def _run_leaf(
    anchors: tuple[str, ...], leaf: OurPass | UpstreamPass, module: IRModule
) -> None:
    if isinstance(leaf, UpstreamPass):
        text = upstream.nested(anchors, leaf.name, leaf.options)
        upstream.run_pass(module.mlir, text)
        return
    if not type(leaf.value).__module__.startswith(_OURS):
        # Creating an operation of a dialect that is not loaded aborts the process.
        module.context.load_all_available_dialects()
    if _is_per_function(type(leaf.value)):
        for function in module.func_ops():
            if not function.is_external:
                cast(_FunctionPass, leaf.value).run_on_function(function, module)
    else:
        leaf.value.run(module)


def _first_check(
    module: IRModule, leaves: "Sequence[tuple[object, OurPass | UpstreamPass]]"
) -> Sequence[_Check]:
    """Verify the input module; returns MLIR's verifier, and ours with what it has verified.

    Wrong types are tolerated if the first pass repairs them.
    """
    module.verify()
    checker = Checker()
    first = leaves[0][1] if leaves else None
    repairs = isinstance(first, OurPass) and getattr(
        first.value, "repairs_types", False
    )
    if not repairs:
        checker.check(module)
    return IRModule.verify, checker.check


def _verify_after(step: Step, module: IRModule, checks: Sequence[_Check]) -> None:
    try:
        for check in checks:
            check(module)
    except IRError as error:
        raise PassError(f"{step}, left an {error}") from error

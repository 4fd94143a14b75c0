"""Mutation testing of ONNX's node tests against onnxruntime and ONNX's reference.

``make node-mutants`` takes some thousand: a node test of which an attribute, an input's
values, shape or type, or how it is given was changed. What we compute has to be what
onnxruntime computes, or the reference; what onnxruntime refuses may be refused, with an
error of ``relax_mlir.errors``. Any other outcome is a bug, or stands in
``node_mutants.tsv`` with its reason. ``--domain microsoft`` mutates models of operators of
com.microsoft, which only onnxruntime defines, ``--domain flow`` those of bodies and
sequences. ``--replay SEED`` shows one mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import relax_mlir
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.node_cases import NodeCase
from tests.frontends.onnx.node_mutations import (
    DOMAINS,
    LAYOUTS,
    has_types_of_standard,
    mutant,
)
from tests.helpers.seed_pool import try_seeds

__all__ = ["Outcome", "attempt", "of_defined", "reason", "run"]

_KNOWN = Path(__file__).with_name("node_mutants.tsv")
_GOOD = ("agrees", "refused", "unknown")
_SECONDS = 120.0  # of silence, after which a worker is killed


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mutant.

    Attributes:
        seed: of the mutant.
        operator: of its node.
        kind: ``agrees``, ``refused`` by both, ``unknown`` to the others; else what is wrong:
            ``wrong`` numbers, ``strict`` (onnxruntime runs it, we refuse), ``lenient``
            (the other way round), ``folding`` (constant inputs give other results),
            ``accident`` (an error that nobody meant), or ``death`` of the process, or more
            than two minutes.
        message: the mutations, and what differs.
    """

    seed: int
    operator: str
    kind: str
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the outcome needs no explanation."""
        return self.kind in _GOOD

    def __str__(self) -> str:
        return f"{self.seed}\t{self.operator}\t{self.kind}\t{self.message}"


_Arrays = list[np.ndarray]
_STAGES = ("onnxruntime", "reference", "ours", "folded")


def attempt(
    seed: int,
    domain: str = "onnx",
    skipped: Collection[str] = (),
    begin: Callable[[str], object] = lambda stage: None,
) -> Outcome:
    """Run a mutant on all runtimes and compare.

    Args:
        seed, domain: of the mutant.
        skipped: those of ``_STAGES`` that end the process; they count as errors.
        begin: is told the name of every stage before it runs.
    """
    case = mutant(seed, domain)

    def staged(stage: str, run: Callable[[NodeCase], _Arrays]) -> _Arrays | Exception:
        if stage in skipped:
            return RuntimeError(f"{stage} ends the process")
        begin(stage)
        return _caught(lambda: run(case))

    theirs = staged("onnxruntime", _onnxruntime)
    standard = staged("reference", _standard)
    ours = staged("ours", _compiled)
    defined = (
        found if isinstance(found, Exception) else of_defined(case, found)
        for found in (ours, theirs, standard)
    )
    kind, message = _verdict(*defined, is_valid=has_types_of_standard(case))
    if kind in ("agrees", "unknown") and case.folds and not isinstance(ours, Exception):
        folded = staged("folded", _folded)
        kind, message = _verdict_of_folding(ours, folded) or (kind, message)
    if kind in _GOOD:
        return Outcome(seed, case.node.op_type, kind)
    said = f"{case.name}: {'; '.join(filter(None, case.mutations))}: {message}"
    return Outcome(seed, case.node.op_type, kind, said)


def _verdict(
    ours: _Arrays | Exception,
    theirs: _Arrays | Exception,
    standard: _Arrays | Exception,
    *,
    is_valid: bool,
) -> tuple[str, str]:
    """The kind of an outcome and its message.

    Args:
        ours, theirs, standard: what the compiler, onnxruntime and the reference give.
        is_valid: whether the standard lets the operator have inputs of these types. If not,
            what onnxruntime refuses may be computed.
    """
    if isinstance(ours, Exception):
        if not _is_meant(ours):
            return "accident", _line(ours)
        return "refused" if isinstance(theirs, Exception) else "strict", _line(ours)
    computed = [a for a in (theirs, standard) if not isinstance(a, Exception)]
    if any(_agree(ours, arrays) for arrays in computed):
        return "agrees", ""
    if not isinstance(theirs, Exception):
        return "wrong", _difference(ours, theirs, "onnxruntime")
    if not is_valid:
        return "unknown", ""
    if not _LACKS.search(str(theirs)):
        return "lenient", f"{_line(theirs)} ({_difference(ours, standard)})"
    if not isinstance(standard, Exception):
        return "wrong", _difference(ours, standard)
    return "unknown", ""


# What onnxruntime says of what it has no code for.
_LACKS = re.compile(
    r"NOT_IMPLEMENTED|Type Error|ends the process|not a registered function/op"
    r"|Unrecognized attribute|Failed to construct locale"
    r"|ValidateOpsetForDomain|Onnx Runtime only \*guarantees|onnxruntime::Model::Model"
)


def of_defined(case: NodeCase, results: _Arrays) -> _Arrays:
    """Results with 0 for elements that the standard leaves undefined.

    Those are integers of floats that none of their type stands for. Ours saturate, and
    are the least for NaN, which the tests of the operator check.
    """
    if case.node.op_type not in ("Cast", "CastLike"):
        return results
    x = case.arrays().get(case.node.input[0])
    if x is None or not _is_of_floats(x.dtype):
        return results
    return [
        np.where(_has_integer(x, y.dtype), y, np.zeros((), y.dtype))
        if _is_of_integers(y.dtype) and y.shape == x.shape
        else y
        for y in results
    ]


def _has_integer(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Where floats are integers of a type, once what is behind the point is cut off."""
    whole, info = np.trunc(x.astype(np.float64)), ml_dtypes.iinfo(dtype)
    return (whole >= float(info.min)) & (whole < float(info.max + 1))


def _is_of_integers(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or "int" in dtype.name


def _is_of_floats(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or "float" in dtype.name


def _verdict_of_folding(
    ours: _Arrays, folded: _Arrays | Exception
) -> tuple[str, str] | None:
    """The mismatch of the results for constant inputs, if there is one."""
    if isinstance(folded, Exception):
        return "folding", _line(folded)
    if len(ours) == len(folded) and all(map(_is_same, ours, folded)):
        return None
    return "folding", _difference(ours, folded, "folded")


def _is_same(ours: np.ndarray, folded: np.ndarray) -> bool:
    """Whether two arrays are equal: whole numbers, special values and signs of zeros.

    Other floats may differ by rounding: sums in another order, functions by other
    polynomials.
    """
    if ours.shape != folded.shape or ours.dtype != folded.dtype:
        return False
    if ours.dtype.kind in "bOSU" or _is_of_integers(ours.dtype):
        return bool(np.array_equal(ours, folded))
    wide = ours.astype(np.float64), folded.astype(np.float64)
    finite = [np.isfinite(w) for w in wide]
    if not np.array_equal(finite[0], finite[1]) or not np.array_equal(
        wide[0][~finite[0]], wide[1][~finite[0]], equal_nan=True
    ):
        return False
    zero = (wide[0] == 0) & (wide[1] == 0)
    if not np.array_equal(np.signbit(wide[0][zero]), np.signbit(wide[1][zero])):
        return False
    near, far = (w[finite[0]] for w in wide)
    info = ml_dtypes.finfo(ours.dtype)
    bound = 64 * float(info.eps) * max(1.0, float(np.abs(far).max(initial=0)))
    return bool(np.all(np.abs(near - far) <= bound))


def _caught(run: Callable[[], _Arrays]) -> _Arrays | Exception:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:  # whatever it is, it is compared
            return error


def _onnxruntime(case: NodeCase) -> _Arrays:
    """Results of onnxruntime; types without Python support go through float32."""
    strange = {n: a for n, a in case.feeds.items() if _is_strange(a.dtype)}
    model = NodeCase(case.name, case.model, strange).folded()
    usual = [v for v in case.model.graph.input if v.name not in strange]
    model.graph.input.extend(usual)
    session = _session(model)
    types = [_strange_type(output.type) for output in session.get_outputs()]
    for value, dtype in zip(model.graph.output, types, strict=True):
        if dtype is not None:
            name, value.name = value.name, f"{value.name}_as_float32"
            value.ClearField("type")
            to = onnx.TensorProto.FLOAT
            cast = helper.make_node("Cast", [name], [value.name], to=to)
            model.graph.node.append(cast)
    if any(dtype is not None for dtype in types):
        session = _session(model)
    feeds = {n: a for n, a in case.feeds.items() if n not in strange}
    results = zip(_arrays(session.run(None, feeds)), types, strict=True)
    return [y if dtype is None else y.astype(dtype) for y, dtype in results]


def _arrays(results: Iterable[object]) -> _Arrays:
    """Results as arrays, text as objects."""
    arrays = map(np.asarray, results)
    return [a.astype(object) if a.dtype.kind in "SUT" else a for a in arrays]


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _strange_type(text: str) -> np.dtype | None:
    """The dtype of ``tensor(bfloat16)`` and the like; None for what numpy knows itself."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    number = dict(onnx.TensorProto.DataType.items()).get(name)
    if number is None:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return dtype if _is_strange(dtype) else None


def _is_strange(dtype: np.dtype) -> bool:
    return dtype.isbuiltin == 2  # registered with numpy, as those of ml_dtypes are


def _standard(case: NodeCase) -> _Arrays:
    return _arrays(ReferenceEvaluator(case.model).run(None, case.feeds))


def _compiled(case: NodeCase) -> _Arrays:
    """Results of our compiled code, which must not modify its inputs."""
    module = import_onnx(case.model)
    names = [a.value for a in module.func_op("main").attributes["relax.input_names"]]
    given = [_laid_out(case, name) for name in names]
    kept = {name: array.tobytes() for name, array in case.feeds.items()}
    compiled = relax_mlir.compile(module, cache=False)
    results = _arrays(compiled(*given))
    for name, array in zip(names, given, strict=True):
        if array.tobytes() != kept[name]:
            raise AssertionError(f"Error: the call wrote to input `{name}`")
    return results


def _laid_out(case: NodeCase, name: str) -> np.ndarray:
    array = case.feeds[name]
    return LAYOUTS[case.layouts[name]](array) if name in case.layouts else array


def _folded(case: NodeCase) -> _Arrays:
    compiled = relax_mlir.compile(import_onnx(case.folded()), cache=False)
    return _arrays(compiled())


def _is_meant(error: Exception) -> bool:
    """Whether an error is acceptable for users: ours, or of a call's arguments."""
    text = str(error)
    if isinstance(error, RelaxError):
        return _ACCIDENT.search(text) is None
    return isinstance(error, (ValueError, TypeError)) and text.startswith("`main`")


# What Python says of its own mistakes, if it is wrapped without a word.
_ACCIDENT = re.compile(
    r"has no attribute '|NoneType|object is not|index out of range|unpack|takes \d+ pos"
    r"|division by zero|math domain|Error: |: '[a-z_]+'\.|is no type of a Relax value"
)


def _agree(ours: _Arrays, theirs: _Arrays) -> bool:
    return len(ours) == len(theirs) and all(map(_is_close, ours, theirs))


def _is_close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if ours.dtype.kind in "OSU":
        return bool(np.array_equal(ours, theirs))
    if ours.dtype.kind in "iub" and ours.dtype.itemsize > 1:
        return bool(np.array_equal(ours, theirs))
    wide = ours.astype(np.float64), theirs.astype(np.float64)
    if ours.dtype.kind in "iub":
        rounding = 0 if ours.dtype.kind == "b" else 1  # of what is quantised
        return bool(np.all(np.abs(wide[0] - wide[1]) <= rounding))
    finite = np.isfinite(wide[1])
    scale = float(np.abs(wide[1][finite]).max(initial=1))
    rough = ours.dtype.itemsize <= 2
    tolerance = 3e-2 if rough else 1e-3  # sums of few elements, in another order
    return bool(
        np.allclose(
            *wide, rtol=tolerance, atol=tolerance * min(scale, 1e3), equal_nan=True
        )
    )


def _difference(
    ours: _Arrays, theirs: _Arrays | Exception, others: str = "reference"
) -> str:
    """The first elements of the results, from where they differ."""
    if isinstance(theirs, Exception):
        return f"{others}: {_line(theirs)}"
    pairs = list(zip(ours, theirs, strict=False))
    mine, other = next((p for p in pairs if not _is_close(*p)), pairs[0])
    start = 0
    if mine.shape == other.shape and mine.dtype.kind not in "OSU":
        apart = [
            not _is_close(a, b)
            for a, b in zip(mine.reshape(-1, 1), other.reshape(-1, 1), strict=True)
        ]
        start = apart.index(True) if any(apart) else 0

    def shown(array: np.ndarray) -> str:
        part = array.reshape(-1)[start : start + 4]
        return " ".join(f"{array.dtype}{list(array.shape)} {part}".split())

    return f"got {shown(mine)}, {others} {shown(other)} from element {start}"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


@cache
def _known() -> tuple[tuple[str, str, re.Pattern[str], str], ...]:
    lines = _KNOWN.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple((o, kind, re.compile(text), why) for o, kind, text, why in rows)


def reason(outcome: Outcome) -> str | None:
    """The listed reason for an outcome, or None."""
    for operators, kind, text, why in _known():
        is_of = operators == "*" or outcome.operator in operators.split("|")
        if is_of and kind == outcome.kind and text.search(outcome.message):
            return why
    return None


def _limit_memory() -> None:
    """Limit memory, so that allocations fail before the machine's memory is exhausted."""
    limit = 4 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


_Task = tuple[int, str, tuple[str, ...]]


def _tried(task: _Task) -> Outcome:
    """The outcome of a seed without the stages to skip; stages go to the log."""
    return attempt(*task, lambda stage: print(stage, file=sys.stderr, flush=True))


def run(seeds: Iterable[int], workers: int = 1, domain: str = "onnx") -> list[Outcome]:
    """Run mutants in child processes, which may crash; outcomes by seed.

    Where another runtime ends the process, the mutant is tried again without it.
    """
    outcomes: list[Outcome] = []
    waiting: list[_Task] = [(seed, domain, ()) for seed in seeds]
    while waiting:
        again: list[_Task] = []
        for (seed, _, skipped), found in try_seeds(
            _tried, waiting, workers=workers, seconds=_SECONDS, begin=_limit_memory
        ):
            if isinstance(found, Outcome):
                outcomes.append(found)
                continue
            stage = next(
                (s for s in reversed(found.log.splitlines()) if s in _STAGES), ""
            )
            if stage in ("onnxruntime", "reference") and stage not in skipped:
                again.append((seed, domain, (*skipped, stage)))
                continue
            case = mutant(seed, domain)
            message = f"{case.name}: {'; '.join(case.mutations)}: {stage}: {found.kind}"
            outcomes.append(Outcome(seed, case.node.op_type, "death", message))
        waiting = again
    return sorted(outcomes, key=lambda o: o.seed)


def _replay(seed: int, domain: str) -> None:
    """Print a mutant, and propagate its exception."""
    case = mutant(seed, domain)
    print(case.name, case.mutations)
    print(onnx.printer.to_text(case.model))
    print(
        {name: (a.dtype, a.shape, a.reshape(-1)[:20]) for name, a in case.feeds.items()}
    )
    print("reference:", _caught(lambda: _standard(case)), flush=True)
    print("ours:", _compiled(case), flush=True)
    if case.folds:
        print("folded:", _folded(case), flush=True)
    print("onnxruntime:", _caught(lambda: _onnxruntime(case)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 if an outcome has no reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=4000, help="how many seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--domain", choices=DOMAINS, default="onnx")
    parser.add_argument("--replay", type=int, help="show this seed alone")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        _replay(options.replay, options.domain)
        return 0
    seeds = range(options.first, options.first + options.count)
    outcomes = run(seeds, options.workers, options.domain)
    for kind, number in Counter(o.kind for o in outcomes).most_common():
        print(f"{number:6} {kind}")
    bad = [o for o in outcomes if not o.is_good and reason(o) is None]
    listed = sum(not o.is_good for o in outcomes) - len(bad)
    print(f"{listed:6} of them listed with a reason")
    for outcome in sorted(bad, key=lambda o: (o.kind, o.operator, o.seed)):
        print(outcome)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

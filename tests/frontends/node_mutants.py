"""Mutants of ONNX's node tests, compared with onnxruntime and ONNX's reference.

``make node-mutants`` takes some thousand: a node test of which an attribute, an input's
values, shape or type, or how it is given was changed. What we compute has to be what
onnxruntime computes, or the reference; what onnxruntime refuses may be refused, with an
error of ``relax_mlir.errors``. Any other outcome is a bug, or stands in
``node_mutants.tsv`` with its reason. ``--replay SEED`` shows one mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, helper, numpy_helper
from onnx.backend.test import loader
from onnx.reference import ReferenceEvaluator

import relax_mlir
from relax_mlir import reference
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx

__all__ = ["Outcome", "attempt", "mutant", "reason"]

_KNOWN = Path(__file__).with_name("node_mutants.tsv")
_MOST_ELEMENTS = 1 << 16  # of an input
_MOST_BYTES = 1 << 26  # that a model may ask for
# Operators of which two runtimes need not agree: they draw numbers.
_RANDOM = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    )
)


@dataclass
class NodeCase:
    """A model of one node, and what it is called with.

    Attributes:
        name: of the node test; mutations: what was changed, in words.
        model: of one node; feeds: its inputs.
    """

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    mutations: list[str] = field(default_factory=list)

    @property
    def node(self) -> onnx.NodeProto:
        """The node."""
        return self.model.graph.node[0]

    def declare(self) -> None:
        """Let the graph's inputs have the types of the arrays, and outputs none."""
        names = [v.name for v in self.model.graph.input if v.name in self.feeds]
        del self.model.graph.input[:], self.model.graph.value_info[:]
        for name in names:
            array = self.feeds[name]
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            value = helper.make_tensor_value_info(name, element, array.shape)
            self.model.graph.input.append(value)
        for value in self.model.graph.output:
            value.ClearField("type")


@dataclass(frozen=True)
class Outcome:
    """How a mutant ended.

    Attributes:
        seed: what it was made of; operator: of its node.
        kind: ``agrees``, ``refused`` by both, ``unknown`` to the others; else what is wrong:
            ``wrong`` numbers, ``strict`` (onnxruntime runs it, we refuse), ``lenient``
            (the other way round), ``accident`` (an error that nobody meant), or ``death`` of
            the process, or more than two minutes.
        message: more of it.
    """

    seed: int
    operator: str
    kind: str
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing has to be said about it."""
        return self.kind in ("agrees", "refused", "unknown")

    def __str__(self) -> str:
        return f"{self.seed}\t{self.operator}\t{self.kind}\t{self.message}"


@cache
def bases() -> tuple[NodeCase, ...]:
    """The node tests that take and give tensors of numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX's own arithmetic overflows here
        tests = loader.load_model_tests(kind="node")
    found: list[NodeCase] = []
    for test in sorted(tests, key=lambda t: t.name):
        if "_expanded" in test.name or "training" in test.name:
            continue
        base = _base(test)
        if base is not None:
            found.append(base)
    return tuple(found)


def _base(test: Any) -> NodeCase | None:  # Any: its class is not exported
    model, (inputs, outputs) = test.model, test.data_sets[0]
    arrays = [*inputs, *outputs]
    if any(not isinstance(a, np.ndarray) or a.dtype.kind in "OSU" for a in arrays):
        return None
    if len(model.graph.node) != 1 or len(inputs) != len(model.graph.input):
        return None
    node = model.graph.node[0]
    if node.domain not in ("", "ai.onnx.ml") or node.op_type in _RANDOM:
        return None
    if any(a.type == AttributeProto.GRAPH for a in node.attribute):
        return None
    names = [value.name for value in model.graph.input]
    return NodeCase(test.name, model, dict(zip(names, inputs, strict=True)))


def mutant(seed: int) -> NodeCase:
    """A node test that is changed in one way or two."""
    rng = np.random.default_rng(seed)
    base = bases()[int(rng.integers(len(bases())))]
    model = onnx.ModelProto()
    model.CopyFrom(base.model)
    made = NodeCase(base.name, model, dict(base.feeds))
    for _ in range(int(rng.integers(1, 3))):
        mutation = _MUTATIONS[int(rng.integers(len(_MUTATIONS)))]
        said = mutation(rng, made)
        if said:
            made.mutations.append(said)
    made.declare()
    if rng.random() < 0.3:
        made.mutations.append(_open_sizes(rng, made))
    return made


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _attribute(rng: np.random.Generator, case: NodeCase) -> str:
    """Change or drop an attribute, or give one a value that was the default."""
    given = list(case.node.attribute)
    schema: Any  # Any: its stub lacks the types of attributes
    try:
        version = case.model.opset_import[0].version
        schema = onnx.defs.get_schema(case.node.op_type, version, case.node.domain)
    except onnx.defs.SchemaError:
        return ""
    names = sorted(schema.attributes)
    if not names:
        return ""
    name = _pick(rng, names)
    old = next((a for a in given if a.name == name), None)
    if old is None:
        default = schema.attributes[name].default_value
        old = (
            default
            if default.name
            else _blank(name, schema.attributes[name].type.value)
        )
    value = _changed(rng, old)
    kept = [a for a in given if a.name != name]
    del case.node.attribute[:]
    case.node.attribute.extend(kept)
    if value is None or rng.random() < 0.1:
        return f"without {name}"
    case.node.attribute.append(helper.make_attribute(name, value, attr_type=old.type))
    return f"{name}={value!r}"


def _blank(name: str, kind: int) -> AttributeProto:
    return AttributeProto(name=name, type=AttributeProto.AttributeType.Name(kind))


def _changed(rng: np.random.Generator, old: AttributeProto) -> Any:
    """Another value of an attribute; None where there is none to be thought of."""
    if old.type == AttributeProto.INT:
        return int(_pick(rng, [old.i - 1, old.i + 1, 0, 1, -1, 2, 3, 7, 2**31, 2**62]))
    if old.type == AttributeProto.FLOAT:
        return float(_pick(rng, [0.0, 1.0, -1.0, old.f * 2, old.f / 2, 1e-3, 1e30]))
    if old.type == AttributeProto.STRING:
        return _pick(rng, _TEXTS)
    if old.type == AttributeProto.INTS:
        return _changed_list(rng, list(old.ints), [-1, 0, 1, 2, 3, 5, 2**31])
    if old.type == AttributeProto.FLOATS:
        return _changed_list(rng, list(old.floats), [-1.0, 0.0, 0.5, 1.0, 2.0])
    return None


def _changed_list(
    rng: np.random.Generator, old: list[Any], values: Sequence[Any]
) -> list[Any]:
    kind = rng.integers(4)
    if kind == 0 or not old:
        return [*old, _pick(rng, values)]
    if kind == 1 and len(old) > 1:
        return old[:-1]
    place = int(rng.integers(len(old)))
    old[place] = _pick(rng, values)
    return old


_TEXTS = (
    *("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "nearest", "cubic"),
    *("none", "add", "mul", "max", "min", "mean", "sum", "constant", "edge", "reflect"),
    *("wrap", "zeros", "border", "half_pixel", "align_corners", "asymmetric", "floor"),
    *("ceil", "round_prefer_floor", "forward", "reverse", "bidirectional", "tanh"),
    *("LEFT", "RIGHT", "DCR", "CRD", "avg", "", "nonsense"),
)


def _values(rng: np.random.Generator, case: NodeCase) -> str:
    """Change elements of an input."""
    name = _pick(rng, list(case.feeds)) if case.feeds else None
    if name is None or not case.feeds[name].size:
        return ""
    array = case.feeds[name].copy()
    flat = array.reshape(-1)
    count = int(rng.integers(1, min(4, flat.size) + 1))
    places = rng.choice(flat.size, count, replace=False)
    if array.dtype.kind == "b":
        flat[places] = ~flat[places]
    elif array.dtype.kind in "iu":
        flat[places] = rng.integers(0 if array.dtype.kind == "u" else -4, 6, count)
    else:
        extremes = [0.0, -0.0, 1.0, -1.0, 0.5, 1e4, np.inf, -np.inf, np.nan, 1e-30]
        with np.errstate(all="ignore"):
            flat[places] = np.array(rng.choice(extremes, count)).astype(array.dtype)
    case.feeds[name] = flat.reshape(array.shape)
    return f"values of {name}"


def _shape(rng: np.random.Generator, case: NodeCase) -> str:
    """Cut, repeat, add or drop an axis of an input."""
    name = _pick(rng, list(case.feeds)) if case.feeds else None
    if name is None:
        return ""
    array = case.feeds[name]
    kind = rng.integers(5)
    if kind == 0 or not array.ndim:
        case.feeds[name] = np.expand_dims(array, int(rng.integers(array.ndim + 1)))
        return f"{name} of shape {case.feeds[name].shape}"
    axis = int(rng.integers(array.ndim))
    size = array.shape[axis]
    if kind == 1 and size:
        array = np.take(array, 0, axis)
    elif kind == 2 and size and 2 * array.size < _MOST_ELEMENTS:
        array = np.concatenate([array, array], axis)
    else:
        kept = int(_pick(rng, [0, 1, max(size - 1, 0)]))
        array = np.take(array, range(min(kept, size)), axis)
    case.feeds[name] = np.ascontiguousarray(array).reshape(array.shape)
    return f"{name} of shape {array.shape}"


_TYPES = (
    *(np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.uint8),
    *(np.int16, np.uint16, np.uint32, np.uint64, np.bool_, ml_dtypes.bfloat16),
)


def _type(rng: np.random.Generator, case: NodeCase) -> str:
    """Give all inputs of one element type another."""
    if not case.feeds:
        return ""
    old = case.feeds[_pick(rng, list(case.feeds))].dtype
    new = np.dtype(_pick(rng, _TYPES))
    for name, array in case.feeds.items():
        if array.dtype == old:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.feeds[name] = array.astype(new)
    return f"{old} as {new}"


def _constant(rng: np.random.Generator, case: NodeCase) -> str:
    """Let the model hold an input."""
    if not case.feeds:
        return ""
    name = _pick(rng, list(case.feeds))
    tensor = numpy_helper.from_array(case.feeds.pop(name), name)
    case.model.graph.initializer.append(tensor)
    return f"{name} is constant"


def _left_out(rng: np.random.Generator, case: NodeCase) -> str:
    """Leave out an input."""
    if not case.node.input:
        return ""
    place = int(rng.integers(len(case.node.input)))
    name = case.node.input[place]
    case.node.input[place] = ""
    if name not in case.node.input:
        case.feeds.pop(name, None)
    return f"without {name}"


def _open_sizes(rng: np.random.Generator, case: NodeCase) -> str:
    """Declare sizes of inputs by names, each its own, or of equal sizes the same."""
    are_shared = rng.random() < 0.5
    for number, value in enumerate(case.model.graph.input):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            own = f"s{dim.dim_value}" if are_shared else f"n{number}_{axis}"
            dim.dim_param = own
    return "open sizes"


Mutation = Callable[[np.random.Generator, NodeCase], str]
_MUTATIONS: tuple[Mutation, ...] = (
    *(_attribute, _attribute, _attribute),
    *(_values, _values, _shape, _shape, _type, _constant, _left_out),
)

Arrays = list[np.ndarray]


def attempt(seed: int, *, compiles: bool = True) -> Outcome:
    """Run a mutant everywhere and compare.

    Args:
        compiles: whether we compile it, not only compute it by the operators' definitions.
    """
    case = mutant(seed)
    operator = case.node.op_type
    theirs = _caught(lambda: _onnxruntime(case))
    ours = _caught(lambda: _compiled(case) if compiles else _defined(case))
    said = f"{case.name}: {'; '.join(filter(None, case.mutations))}: "
    if isinstance(ours, Exception):
        if not _is_meant(ours):
            return Outcome(seed, operator, "accident", said + _line(ours))
        if isinstance(theirs, Exception):
            return Outcome(seed, operator, "refused")
        return Outcome(seed, operator, "strict", said + _line(ours))
    if not isinstance(theirs, Exception) and _agree(ours, theirs):
        return Outcome(seed, operator, "agrees")
    defined = _caught(lambda: _standard(case))
    if not isinstance(defined, Exception) and _agree(ours, defined):
        return Outcome(seed, operator, "agrees")
    if isinstance(theirs, Exception):
        is_lacking = "NOT_IMPLEMENTED" in str(theirs) or "Type Error" in str(theirs)
        kind = "unknown" if is_lacking else "lenient"
        return Outcome(seed, operator, kind, said + _line(theirs))
    return Outcome(seed, operator, "wrong", said + _difference(ours, theirs))


def _caught(run: Callable[[], Arrays]) -> Arrays | Exception:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:  # whatever it is, it is compared
            return error


def _onnxruntime(case: NodeCase) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
    feeds = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            a.view(np.uint16), onnx.TensorProto.BFLOAT16
        )
        if a.dtype == ml_dtypes.bfloat16
        else a
        for name, a in case.feeds.items()
    }
    return [np.asarray(y) for y in session.run(None, feeds)]


def _standard(case: NodeCase) -> Arrays:
    return [np.asarray(y) for y in ReferenceEvaluator(case.model).run(None, case.feeds)]


def _inputs(module: relax_mlir.IRModule, case: NodeCase) -> Arrays:
    names = module.func_op("main").attributes["relax.input_names"]
    return [case.feeds[attribute.value] for attribute in names]


def _defined(case: NodeCase) -> Arrays:
    module = import_onnx(case.model)
    if any("relax.call_operator" in str(op) for op in module.func_ops()):
        return _run_compiled(module, case)  # a stage
    return [np.asarray(y) for y in reference.run(module, *_inputs(module, case))]


def _compiled(case: NodeCase) -> Arrays:
    return _run_compiled(import_onnx(case.model), case)


def _run_compiled(module: relax_mlir.IRModule, case: NodeCase) -> Arrays:
    compiled = relax_mlir.compile(module, cache=False)
    return [np.asarray(y) for y in compiled(*_inputs(module, case))]


def _is_meant(error: Exception) -> bool:
    """Whether an error is one that a user may meet: ours, or of a call's arguments."""
    text = str(error)
    if isinstance(error, RelaxError):
        return _ACCIDENT.search(text) is None
    return isinstance(error, (ValueError, TypeError)) and text.startswith("`main`")


# What Python says of its own mistakes, if it is wrapped without a word.
_ACCIDENT = re.compile(
    r"has no attribute '|NoneType|object is not|index out of range|unpack|takes \d+ pos"
    r"|division by zero|math domain|Error: |: '[a-z_]+'\.|is no type of a Relax value"
)


def _agree(ours: Arrays, theirs: Arrays) -> bool:
    return len(ours) == len(theirs) and all(map(_is_close, ours, theirs))


def _is_close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        is_bits = theirs.dtype == np.uint16 and ours.dtype == ml_dtypes.bfloat16
        if ours.shape != theirs.shape or not is_bits:
            return False
        theirs = theirs.view(ml_dtypes.bfloat16)
    if ours.dtype.kind in "iub":
        far = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        return bool(
            np.all(
                far
                <= (1 if ours.dtype.itemsize == 1 and ours.dtype.kind in "iu" else 0)
            )
        )
    wide = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(wide[1])
    scale = float(np.abs(wide[1][finite]).max(initial=1))
    rough = ours.dtype.itemsize == 2
    tolerance = 3e-2 if rough else 1e-3  # sums of few elements, in another order
    return bool(
        np.allclose(
            *wide, rtol=tolerance, atol=tolerance * min(scale, 1e3), equal_nan=True
        )
    )


def _difference(ours: Arrays, theirs: Arrays) -> str:
    def shown(arrays: Arrays) -> str:
        first = [f"{a.dtype}{list(a.shape)} {a.reshape(-1)[:4]}" for a in arrays[:2]]
        return " ".join("; ".join(first).split())

    return f"got {shown(ours)}, onnxruntime {shown(theirs)}"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


@cache
def _known() -> tuple[tuple[str, str, re.Pattern[str], str], ...]:
    lines = _KNOWN.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple((o, kind, re.compile(text), why) for o, kind, text, why in rows)


def reason(outcome: Outcome) -> str | None:
    """Why an outcome may be as it is; None if nothing says so."""
    for operator, kind, text, why in _known():
        is_of = operator in ("*", outcome.operator) and kind == outcome.kind
        if is_of and text.search(outcome.message):
            return why
    return None


def _serve() -> None:
    """A worker: seeds in, outcomes out, a line each."""
    for line in sys.stdin:
        outcome = attempt(int(line))
        print(str(outcome), flush=True)


def run(seeds: Iterable[int], workers: int = 1) -> list[Outcome]:
    """Try mutants in processes, which may die; how each ended, in no order."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for seed in seeds:
        waiting.put(seed)
    outcomes: list[Outcome] = []

    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.frontends.node_mutants", "--serve"]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nothing, text=True
        )

    def work() -> None:
        process = started()
        while True:
            try:
                seed = waiting.get_nowait()
            except Empty:
                break
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            watch = threading.Timer(120, process.kill)
            watch.start()
            parts = process.stdout.readline().rstrip("\n").split("\t", 3)
            watch.cancel()
            if len(parts) == 4:
                outcomes.append(Outcome(int(parts[0]), *parts[1:]))
            else:
                case = mutant(seed)
                message = f"{case.name}: {'; '.join(case.mutations)}"
                outcomes.append(Outcome(seed, case.node.op_type, "death", message))
                process.kill()
                process = started()
        process.kill()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _replay(seed: int) -> None:
    """Show a mutant, and let what it raises escape."""
    case = mutant(seed)
    print(case.name, case.mutations)
    print(onnx.printer.to_text(case.model))
    print({name: (a.dtype, a.shape) for name, a in case.feeds.items()})
    print("onnxruntime:", _caught(lambda: _onnxruntime(case)))
    print("reference:", _caught(lambda: _standard(case)), flush=True)
    print("ours:", _compiled(case))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as asked on the command line; 1 if an outcome has no reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=4000, help="how many seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, help="show this seed alone")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve()
        return 0
    if options.replay is not None:
        _replay(options.replay)
        return 0
    seeds = range(options.first, options.first + options.count)
    outcomes = run(seeds, options.workers)
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

"""Mutations of ONNX's node tests: attributes, values, shapes, types, opsets, layouts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from tests.frontends.onnx.flow_cases import flow_bases
from tests.frontends.onnx.microsoft_cases import microsoft_bases, microsoft_schema
from tests.frontends.onnx.node_cases import NodeCase, bases

__all__ = ["DOMAINS", "LAYOUTS", "has_types_of_standard", "mutant"]

_MOST_ELEMENTS = 1 << 16  # of an input


# What is mutated.
DOMAINS: Mapping[str, Callable[[], tuple[NodeCase, ...]]] = {
    "onnx": bases,
    "microsoft": microsoft_bases,
    "flow": flow_bases,
}


@cache
def _families(domain: str) -> tuple[tuple[NodeCase, ...], ...]:
    """The node tests of each operator."""
    found: dict[str, list[NodeCase]] = {}
    for base in DOMAINS[domain]():
        found.setdefault(base.node.op_type, []).append(base)
    return tuple(map(tuple, found.values()))


def mutant(seed: int, domain: str = "onnx") -> NodeCase:
    """A node test with one mutation or two; half of them by operator, half by test.

    Args:
        seed: of the random numbers.
        domain: ``onnx``; ``microsoft`` for models of com.microsoft's operators; ``flow``
            for those of bodies and sequences.
    """
    rng = np.random.default_rng(seed)
    families, whole = _families(domain), DOMAINS[domain]()
    base = _pick(rng, _pick(rng, families) if rng.random() < 0.5 else whole)
    model = onnx.ModelProto()
    model.CopyFrom(base.model)
    model.ir_version = 10  # onnxruntime lags behind onnx, which writes the newest
    made = NodeCase(base.name, model, dict(base.feeds), base.place)
    for _ in range(int(rng.integers(1, 3))):
        said = _pick(rng, _MUTATIONS)(rng, made)
        if said:
            made.mutations.append(said)
    made.declare()
    for mutation, chance in ((_open_sizes, 0.3), (_layout, 0.15), (_folded, 0.15)):
        if made.feeds and rng.random() < chance:
            made.mutations.append(mutation(rng, made))
    return made


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _schema(case: NodeCase) -> Any:  # Any: its stub lacks the types of attributes
    versions = {o.domain: o.version for o in case.model.opset_import}
    domain = case.node.domain
    if domain == "com.microsoft":
        return microsoft_schema(case.node.op_type)
    try:
        return onnx.defs.get_schema(case.node.op_type, versions[domain], domain)
    except (KeyError, onnx.defs.SchemaError):
        return None


def _attribute(rng: np.random.Generator, case: NodeCase) -> str:
    """Change or drop an attribute, or give one a value that was the default."""
    given, schema = list(case.node.attribute), _schema(case)
    if schema is None or not schema.attributes:
        return ""
    name = _pick(rng, sorted(schema.attributes))
    old = next((a for a in given if a.name == name), None)
    if old is None:
        default = schema.attributes[name].default_value
        kind = schema.attributes[name].type.value
        old = default if default.name else _blank(name, kind)
    value = _changed(rng, old, _words(schema.attributes[name].description))
    kept = [a for a in given if a.name != name]
    del case.node.attribute[:]
    case.node.attribute.extend(kept)
    if value is None or rng.random() < 0.1:
        return f"without {name}"
    case.node.attribute.append(helper.make_attribute(name, value, attr_type=old.type))
    return f"{name}={value!r}"


def _blank(name: str, kind: int) -> AttributeProto:
    return AttributeProto(name=name, type=AttributeProto.AttributeType.Name(kind))


@cache
def _words(description: str) -> tuple[str, ...]:
    """What the description of an attribute quotes or writes in capitals."""
    return tuple(sorted({w[0] or w[1] for w in _QUOTED.findall(description)}))


_QUOTED = re.compile(r"['\"`]([A-Za-z_]+)['\"`]|\b([A-Z][A-Z_]+)\b")


def _changed(
    rng: np.random.Generator, old: AttributeProto, words: tuple[str, ...]
) -> Any:
    """Another value of an attribute; None where there is none to be thought of."""
    if old.type == AttributeProto.INT:
        near = [old.i - 1, old.i + 1, 0, 1, -1, 2, 3, 7, 2**31, 2**62]
        return int(_pick(rng, [*near, int(rng.integers(24))]))  # the last: a type
    if old.type == AttributeProto.FLOAT:
        return float(_pick(rng, [0.0, 1.0, -1.0, old.f * 2, old.f / 2, 1e-3, 1e30]))
    if old.type == AttributeProto.STRING:
        return _pick(rng, words if words and rng.random() < 0.7 else _TEXTS)
    if old.type == AttributeProto.STRINGS:
        return _changed_list(rng, [s.decode() for s in old.strings], words or _LETTERS)
    if old.type == AttributeProto.TENSOR:
        return _changed_tensor(rng, old.t)
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


def _changed_tensor(
    rng: np.random.Generator, old: onnx.TensorProto
) -> onnx.TensorProto | None:
    if not old.data_type:
        return None
    array = numpy_helper.to_array(old).copy()
    kind = rng.integers(3)
    if kind == 0:
        array = array.astype(_pick(rng, _TYPES)) if array.dtype.kind != "O" else array
    elif kind == 1 or not array.size:
        array = array.reshape(-1)[:-1]
    else:
        _change_elements(rng, array.reshape(-1), 1)
    return numpy_helper.from_array(array)


_LETTERS = ("a", "b", "c", "A", "", "1", "-2.5e1", "nan", "ä b")
_TEXTS = (
    *("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "nearest", "cubic"),
    *("none", "add", "mul", "max", "min", "mean", "sum", "constant", "edge", "reflect"),
    *("wrap", "zeros", "border", "half_pixel", "align_corners", "asymmetric", "floor"),
    *("ceil", "round_prefer_floor", "forward", "reverse", "bidirectional", "tanh"),
    *("LEFT", "RIGHT", "DCR", "CRD", "avg", "", "nonsense"),
)


def _values(rng: np.random.Generator, case: NodeCase) -> str:
    """Change elements of an input: usual numbers, or the extremes of its type."""
    name = _pick(rng, list(case.feeds)) if case.feeds else None
    if name is None or not case.feeds[name].size:
        return ""
    array = case.feeds[name].copy()
    flat = array.reshape(-1)
    places = _change_elements(rng, flat, int(rng.integers(1, min(4, flat.size) + 1)))
    case.feeds[name] = flat.reshape(array.shape)
    shown = ", ".join(str(flat[place]) for place in places)
    return f"values of {name} ({shown})"


def _change_elements(
    rng: np.random.Generator, flat: np.ndarray, count: int
) -> np.ndarray:
    """Change elements of an array in place; where they are."""
    places = rng.choice(flat.size, count, replace=False)
    for place in places:
        if flat.dtype.kind == "O":  # of which an array would become an element
            flat[place] = _pick(rng, _LETTERS)
            continue
        with np.errstate(all="ignore"):
            flat[place] = np.array(_pick(rng, _numbers(flat.dtype))).astype(flat.dtype)
    return places


def _numbers(dtype: np.dtype) -> list[Any]:
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu" or "int" in dtype.name:
        info = ml_dtypes.iinfo(dtype)
        small = range(0 if dtype.kind == "u" else -4, 6)
        return [np.array(i, dtype) for i in (*small, *small, info.min, info.max)]
    usual = [0.0, -0.0, 1.0, -1.0, 0.5, 1e4, np.inf, -np.inf, np.nan, 1e-30]
    if dtype.kind == "f" or dtype == ml_dtypes.bfloat16:
        info = ml_dtypes.finfo(dtype)
        extremes = (info.max, info.min, info.tiny, -info.smallest_subnormal)
        usual += [*extremes, info.tiny / dtype.type(2)]  # the last: subnormal
    return usual


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
        array = np.array(np.take(array, 0, axis), array.dtype)
    elif kind == 2 and size and 2 * array.size < _MOST_ELEMENTS:
        array = np.concatenate([array, array], axis)
    else:
        kept = int(_pick(rng, [0, 1, max(size - 1, 0)]))
        array = np.take(array, range(min(kept, size)), axis)
    case.feeds[name] = np.ascontiguousarray(array).reshape(array.shape)
    return f"{name} of shape {array.shape}"


def _size(rng: np.random.Generator, case: NodeCase) -> str:
    """Cut all axes of one size, of all inputs, to nothing or to one."""
    sizes = sorted({size for a in case.feeds.values() for size in a.shape})
    if not sizes:
        return ""
    old, new = _pick(rng, sizes), int(_pick(rng, [0, 0, 1]))
    for name, array in case.feeds.items():
        kept = tuple(slice(min(new, n) if n == old else n) for n in array.shape)
        case.feeds[name] = np.array(array[kept])  # a number stays an array
    return f"sizes {old} as {new}"


def _scalar(rng: np.random.Generator, case: NodeCase) -> str:
    """Give one element as a scalar or as an axis of one; a scalar as the other."""
    names = [n for n, a in case.feeds.items() if a.size]
    if not names:
        return ""
    name = _pick(rng, names)
    array = case.feeds[name]
    shape = (1,) if not array.ndim else _pick(rng, [(), (), (1,)])
    case.feeds[name] = array.reshape(-1)[:1].reshape(shape)
    return f"{name} of shape {shape}"


_TYPES = (
    *(np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.uint8),
    *(np.int16, np.uint16, np.uint32, np.uint64, np.bool_, ml_dtypes.bfloat16),
    *(np.float32, np.float16, np.float64, np.int64, ml_dtypes.bfloat16, np.int32),
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4),
)


def _type(rng: np.random.Generator, case: NodeCase) -> str:
    """Give all inputs of one element type another."""
    if not case.feeds:
        return ""
    old = case.feeds[_pick(rng, list(case.feeds))].dtype
    new = np.dtype(_pick(rng, _TYPES))
    if old.kind == "O":
        return ""
    for name, array in case.feeds.items():
        if array.dtype == old:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.feeds[name] = array.astype(new)
    return f"{old} as {new}"


def _constant(rng: np.random.Generator, case: NodeCase) -> str:
    """Let the model hold an input, or all."""
    if not case.feeds:
        return ""
    names = list(case.feeds)
    held = names if rng.random() < 0.2 else [_pick(rng, names)]
    for name in held:
        tensor = numpy_helper.from_array(case.feeds.pop(name), name)
        case.model.graph.initializer.append(tensor)
    return f"{', '.join(held)} constant"


def _left_out(rng: np.random.Generator, case: NodeCase) -> str:
    """Leave out an input: its name is empty, or the list ends before it."""
    if not case.node.input:
        return ""
    place = int(rng.integers(len(case.node.input)))
    removed = list(case.node.input[place:])
    if rng.random() < 0.5:
        removed = removed[:1]
        case.node.input[place] = ""
    else:
        del case.node.input[place:]
    for name in removed:
        if name not in case.node.input:
            case.feeds.pop(name, None)
    return f"without {', '.join(removed)}"


def _given(rng: np.random.Generator, case: NodeCase) -> str:
    """Give an optional input that the node test leaves out."""
    schema, inputs = _schema(case), case.node.input
    formal = [] if schema is None else list(schema.inputs)
    places = [n for n in range(len(formal)) if n >= len(inputs) or not inputs[n]]
    if not places or not case.feeds:
        return ""
    place = _pick(rng, places)
    like = case.feeds[_pick(rng, list(case.feeds))]
    dtype = _type_of(case, formal, place)
    if dtype is None:
        return ""
    shapes = [like.shape, like.shape[:1], like.shape[1:2], like.shape[-1:], (1,), ()]
    shape = _pick(rng, shapes)
    array = rng.integers(-2 if dtype.kind not in "bu" else 0, 3, shape).astype(dtype)
    inputs.extend([""] * (place + 1 - len(inputs)))
    inputs[place] = name = f"given_{place}"
    case.feeds[name] = array
    return f"{formal[place].name} given: {dtype}{list(shape)}"


def has_types_of_standard(case: NodeCase) -> bool:
    """Whether the standard lets the node have inputs of the types that they have."""
    schema = _schema(case)
    if schema is None or not schema.inputs:
        return True
    held = {t.name: t.data_type for t in case.model.graph.initializer}
    given = {v.name: v.type.tensor_type.elem_type for v in case.model.graph.input}
    for place, name in enumerate(case.node.input):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        element = {**held, **given}.get(name)
        if element is None:
            continue
        text = f"tensor({onnx.TensorProto.DataType.Name(element).lower()})"
        if not any(text in allowed for allowed in formal.types):
            return False
    return True


def _type_of(case: NodeCase, formal: Sequence[Any], place: int) -> np.dtype | None:
    """The type of an input that is missing: of those of its type variable, if any."""
    for number, name in enumerate(case.node.input[: len(formal)]):
        if formal[number].type_str == formal[place].type_str and name in case.feeds:
            return case.feeds[name].dtype
    for text in sorted(formal[place].types):
        match = re.fullmatch(r"tensor\((\w+)\)", text)
        if match and match[1] != "string":
            number = onnx.TensorProto.DataType.Value(match[1].upper())
            return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return None


def _outputs(rng: np.random.Generator, case: NodeCase) -> str:
    """Leave an output out, or ask for one that the node test leaves out."""
    schema, outputs = _schema(case), case.node.output
    formal = [] if schema is None else list(schema.outputs)
    missing = [n for n in range(len(formal)) if n >= len(outputs) or not outputs[n]]
    if missing and rng.random() < 0.7:
        place = missing[0]
        outputs.extend([""] * (place + 1 - len(outputs)))
        outputs[place] = name = f"asked_{place}"
        case.model.graph.output.append(onnx.ValueInfoProto(name=name))
        return f"{formal[place].name} asked for"
    named = {value.name: value for value in case.model.graph.output}
    places = [n for n, name in enumerate(outputs) if name in named]
    if len(named) < 2 or not places:
        return ""
    place = _pick(rng, places)
    case.model.graph.output.remove(named[outputs[place]])
    removed, outputs[place] = outputs[place], ""
    return f"without output {removed}"


@cache
def _versions(domain: str, operator: str) -> tuple[int, ...]:
    """The opsets that begin a version of an operator."""
    schemas = onnx.defs.get_all_schemas_with_history()
    own = (s for s in schemas if (s.domain, s.name) == (domain, operator))
    return tuple(sorted({s.since_version for s in own}))


def _opset(rng: np.random.Generator, case: NodeCase) -> str:
    """Let the model be of another opset that has the operator."""
    domain = case.node.domain
    imported = next((o for o in case.model.opset_import if o.domain == domain), None)
    versions = _versions(domain, case.node.op_type)
    if imported is None or not versions:
        return ""
    imported.version = int(_pick(rng, [*versions, *(v - 1 for v in versions[1:])]))
    return f"opset {imported.version}"


def _open_sizes(rng: np.random.Generator, case: NodeCase) -> str:
    """Declare sizes of inputs by names, each its own, or of equal sizes the same."""
    are_shared, share = rng.random() < 0.5, _pick(rng, [1.0, 1.0, 0.5])
    for number, value in enumerate(case.model.graph.input):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            own = f"s{dim.dim_value}" if are_shared else f"n{number}_{axis}"
            if rng.random() < share:
                dim.dim_param = own
    return "open sizes" if share == 1.0 else "some open sizes"


def _misaligned(array: np.ndarray) -> np.ndarray:
    memory = bytearray(array.nbytes + 1)
    placed = np.frombuffer(memory, np.uint8, array.nbytes, 1).view(array.dtype)
    placed[...] = array.reshape(-1)
    return placed.reshape(array.shape)


def _strided(array: np.ndarray) -> np.ndarray:
    wide = np.repeat(array[..., None], 2, -1)
    return wide[..., 0]


def _reversed(array: np.ndarray) -> np.ndarray:
    flipped = np.flip(array).copy()
    return np.flip(flipped)


def _column_major(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


# How the memory of an array may be laid out; each keeps shape and elements.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "misaligned": _misaligned,
    "every second element": _strided,
    "negative strides": _reversed,
    "column-major": _column_major,
    "read-only": _read_only,
}


def _layout(rng: np.random.Generator, case: NodeCase) -> str:
    """Pass an input as an array that is not contiguous, aligned or writable."""
    name, layout = _pick(rng, list(case.feeds)), _pick(rng, list(LAYOUTS))
    if case.feeds[name].dtype.kind == "O":
        return ""
    case.layouts[name] = layout
    return f"{name} {layout}"


def _folded(rng: np.random.Generator, case: NodeCase) -> str:
    """Compare constant folding with what is computed at run time."""
    case.folds = True
    return "folded"


Mutation = Callable[[np.random.Generator, NodeCase], str]
_MUTATIONS: tuple[Mutation, ...] = (
    *(_attribute, _attribute, _attribute, _attribute),
    *(_values, _values, _values, _shape, _shape, _size, _scalar),
    *(_type, _constant, _left_out, _given, _opset, _outputs),
)

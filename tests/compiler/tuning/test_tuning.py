"""Autotuning: candidates, selection, the database, and its use by ``compile``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir

import relax_mlir
from relax_mlir import IRModule, TuningDatabase, import_onnx
from relax_mlir.compiler import driver
from relax_mlir.compiler.driver import target_of
from relax_mlir.compiler.kernel_modules import kernel_hash
from relax_mlir.compiler.tuning import search
from relax_mlir.compiler.tuning.database import TuningRecord, target_key
from relax_mlir.compiler.tuning.search import measure_interleaved, results_agree
from relax_mlir.compiler.tuning.tasks import tuning_tasks
from relax_mlir.errors import PassError, TuningError
from relax_mlir.ir.function_attributes import is_prim_func
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import from_source

# One kernel that has three configurations, and sizes that are known or not.
_SOFTMAX = """
func.func @main(%x: tensor<3x20xf32>) -> tensor<3x20xf32> {
  %y = "relax.nn_softmax"(%x) {axis = 1 : i64} : (tensor<3x20xf32>) -> tensor<3x20xf32>
  return %y : tensor<3x20xf32>
}"""
_OPEN = """
    <ir_version: 10, opset_import: ["" : 21]>
    twice (float[n, 20] x) => (float[m, 20] z) {
        y = Concat <axis = 0> (x, x)
        z = Softmax (y)
    }
"""
X = np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)


def softmax() -> IRModule:
    return IRModule.parse(_SOFTMAX)


def opened() -> IRModule:
    return import_onnx(onnx.parser.parse_model(_OPEN).SerializeToString())


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the tests share."""
    return tmp_path_factory.mktemp("objects")


def record(**fields: Any) -> TuningRecord:
    """What is said of the only kernel of the softmax, on this machine."""
    lowered = relax_mlir.lower(softmax(), to="planned")
    (function,) = filter(is_prim_func, lowered.func_ops())
    told: dict[str, Any] = {
        "kernel": kernel_hash(function),
        "target": target_key(target_of("cpu")),
        "name": "softmax",
        "configuration": "RowWise{vectors=2, chunk=0}",
        "default": "RowWise{vectors=1, chunk=0}",
        "time_us": 2.0,
        "default_time_us": 3.0,
        "trials": 3,
    }
    return TuningRecord(**{**told, **fields})


def written(path: Path, *records: TuningRecord) -> Path:
    TuningDatabase(path).with_records(records).write()
    return path


def fixed_times(monkeypatch: pytest.MonkeyPatch, *times_us: float) -> None:
    """Let the configurations of a kernel take these times, in order."""
    by_number = dict(enumerate(times_us))

    def measured(calls: list[object], rounds: int) -> np.ndarray:
        numbers = range(len(calls)) if len(calls) == len(by_number) else (0, 1)
        chosen = [by_number[n] for n in numbers]
        return np.tile(np.array(chosen), (rounds, 1))

    monkeypatch.setattr(search, "measure_interleaved", measured)


def test_the_fastest_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: Path
) -> None:
    fixed_times(monkeypatch, 3, 2, 4)

    found = relax_mlir.tune(softmax(), database=tmp_path / "db.json", cache=objects)

    assert list(found.records.values()) == [record(time_us=3 * (2 / 3))]
    assert found.records == TuningDatabase.read(tmp_path / "db.json").records
    (kept,) = found.records.values()
    assert kept.speedup == 1.5


def test_a_little_faster_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: Path
) -> None:
    fixed_times(monkeypatch, 3, 2.95, 4)

    found = relax_mlir.tune(softmax(), database=tmp_path / "db.json", cache=objects)

    (kept,) = found.records.values()
    assert (kept.configuration, kept.speedup) == ("", 1)


def test_what_computes_something_else_does_not_win(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: Path
) -> None:
    fixed_times(monkeypatch, 3, 1)
    answers = iter([True, False, True])
    monkeypatch.setattr(search, "results_agree", lambda *arrays: next(answers))

    found = relax_mlir.tune(softmax(), database=tmp_path / "db.json", cache=objects)

    # Of three configurations the second was wrong; the third is the faster one.
    (kept,) = found.records.values()
    assert kept.configuration == "RowWise{vectors=4, chunk=0}"


def test_no_more_are_tried_than_asked_for(tmp_path: Path, objects: Path) -> None:
    options: dict[str, Any] = {"cache": objects, "rounds": 1}

    two = relax_mlir.tune(softmax(), trials=2, database=tmp_path / "2", **options)
    none = relax_mlir.tune(softmax(), trials=1, database=tmp_path / "1", **options)

    assert [r.trials for r in two.records.values()] == [2]
    assert none.records == {}


def test_a_tuned_model_computes_the_same(tmp_path: Path, objects: Path) -> None:
    database = written(tmp_path / "db.json", record())

    tuned = relax_mlir.compile(softmax(), tuning=database, cache=objects)

    (expected,) = relax_mlir.compile(softmax(), cache=objects)(X)
    np.testing.assert_allclose(tuned(X)[0], expected, rtol=1e-6)
    (kernel,) = relax_mlir.explain(softmax(), tuning=database).kernels
    assert kernel.choice.configuration == "RowWise{vectors=2, chunk=0}"


def test_the_database_is_part_of_the_key_of_the_cache(
    tmp_path: Path, objects: Path
) -> None:
    database = written(tmp_path / "db.json", record())

    codes = [
        driver.compile(softmax(), tuning=chosen, cache=objects).code
        for chosen in (None, database, None, database)
    ]

    assert codes[0] == codes[2] != codes[1] == codes[3]


def test_other_kernels_and_machines_stay_at_their_default(tmp_path: Path) -> None:
    others = record(kernel="0" * 32), record(target="cpu:other")
    database = written(tmp_path / "db.json", *others)

    (kernel,) = relax_mlir.explain(softmax(), tuning=database).kernels

    assert kernel.choice.configuration == record().default


def test_a_kernel_that_says_how_it_is_written_keeps_that(tmp_path: Path) -> None:
    database = TuningDatabase.read(written(tmp_path / "db.json", record()))
    lowered = relax_mlir.lower(softmax(), to="planned")
    (function,) = filter(is_prim_func, lowered.func_ops())
    with lowered.context:
        function.attributes["tir.config"] = ir.StringAttr.get("Fallback")

    database.apply(lowered, target_of("cpu"))

    assert ir.StringAttr(function.attributes["tir.config"]).value == "Fallback"


def test_new_records_replace_old_ones_of_their_kernels(tmp_path: Path) -> None:
    database = TuningDatabase(tmp_path / "db.json")
    old, other = record(), record(kernel="0" * 32)

    database = database.with_records([old, other]).with_records([record(trials=9)])

    assert [r.trials for r in database.records.values()] == [9, 3]
    database.write()
    assert TuningDatabase.read(database.path).records == database.records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a tuning database, or damaged"),
        ("\x00", "not a tuning database"),
        ("[" * 200_000, "not a tuning database"),
        ("[]", "expected the format `relax_mlir tuning`"),
        ('{"format": "relax_mlir tuning", "version": 2}', "expected version 1, got 2"),
        ('{"format": "relax_mlir tuning", "version": 1}', "expected a list"),
    ],
)
def test_what_is_no_database_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "db.json"
    path.write_text(text)

    with pytest.raises(TuningError, match=f"db.json: .*{message}"):
        relax_mlir.compile(softmax(), tuning=path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("trials", "3", "record 0: `trials`: expected an integer, got '3'"),
        ("time_us", None, "record 0: `time_us`: expected a number, got None"),
        ("trials", True, "record 0: `trials`: expected an integer, got True"),
        ("time_us", 0, "record 0: `time_us`: expected a time, got 0"),
        ("more", 1, "record 0: expected the fields kernel, target, name"),
    ],
)
def test_damaged_records_are_refused(
    field: str, value: object, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "db.json", record())
    found = json.loads(path.read_text())
    found["records"][0][field] = value
    path.write_text(json.dumps(found))

    with pytest.raises(TuningError, match=message):
        TuningDatabase.read(path)


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        relax_mlir.compile(softmax(), tuning=tmp_path / "db.json")


def test_a_configuration_that_is_no_more(tmp_path: Path) -> None:
    database = written(tmp_path / "db.json", record(configuration="RowWise{vectors=3}"))

    expected = (
        "`vectors`: expected one of 1, 2, 4, got 3. Hint: `.*db.json`.*tune again"
    )
    with pytest.raises(PassError, match=expected):
        relax_mlir.compile(softmax(), tuning=database, cache=False)


def test_tuning_keeps_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "db.json"
    path.write_text("precious")

    with pytest.raises(TuningError, match="damaged"):
        relax_mlir.tune(softmax(), database=path)
    assert path.read_text() == "precious"


def test_what_cannot_be_tuned(tmp_path: Path) -> None:
    options: dict[str, Any] = {"database": tmp_path / "db.json"}
    with pytest.raises(TuningError, match="no symbolic size `m`: expected `n`"):
        relax_mlir.tune(opened(), sizes={"m": 3}, **options)
    with pytest.raises(TuningError, match="size `n`: expected 1 or more, got 0"):
        relax_mlir.tune(opened(), sizes={"n": 0}, **options)
    with pytest.raises(TuningError, match="1 or more trials and rounds, got 0, 9"):
        relax_mlir.tune(softmax(), trials=0, **options)
    with pytest.raises(TuningError, match="target `cpu:bdver4`"):
        relax_mlir.tune(softmax(), target="cpu:bdver4", **options)
    loops = relax_mlir.lower(softmax(), to="loops")
    with pytest.raises(TuningError, match="expected one whose kernels"):
        relax_mlir.tune(loops, **options)
    assert not (tmp_path / "db.json").exists()


def test_kernels_of_one_number_are_tuned(tmp_path: Path, objects: Path) -> None:
    text = """func.func @main(%x: tensor<64x64xf32>) -> tensor<f32> {
      %y = "relax.sum"(%x) {axis = array<i64: 0, 1>, keepdims = false}
        : (tensor<64x64xf32>) -> tensor<f32>
      return %y : tensor<f32>
    }"""
    path = tmp_path / "db.json"

    found = relax_mlir.tune(
        IRModule.parse(text), database=path, rounds=1, cache=objects
    )

    assert [r.name for r in found.found] == ["sum"]


_PRIM_FUNCS = """
@I.ir_module
class Module:
    @T.prim_func
    def rows(x: T.Buffer((64, 64), "float32"), y: T.Buffer((64, 64), "float32")):
        for i, j in T.grid(64, 64):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = T.max(x[vi, vj], T.float32(0))

    @T.prim_func
    def opened(a: T.handle, b: T.handle):
        k = T.int64()
        x, y = T.match_buffer(a, (8, k)), T.match_buffer(b, (8, k))
        for i, j in T.grid(8, k):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = T.exp(x[vi, vj])
"""


def test_prim_funcs_alone_are_tuned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: Path
) -> None:
    fixed_times(monkeypatch, 3, 2, 4)
    module, path = from_source(_PRIM_FUNCS), tmp_path / "db.json"

    found = relax_mlir.tune(
        module, database=path, trials=3, sizes={"k": 9}, cache=objects
    )

    assert [r.name for r in found.found] == ["rows", "opened"]
    kernels = relax_mlir.explain(module, tuning=path).kernels
    assert [k.choice.configuration for k in kernels] == [
        r.configuration for r in found.found
    ]
    made = relax_mlir.compile(module, tuning=path, cache=objects)
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    made["rows"](x, y := np.empty_like(x))
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    alone = relax_mlir.tune(module["rows"], database=tmp_path / "one", cache=objects)
    assert [r.kernel for r in alone.found] == [found.found[0].kernel]


def test_trials_of_all_are_no_less_than_none(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="total_trials: expected 0 or more, got -1"):
        relax_mlir.tune(softmax(), database=tmp_path / "db.json", total_trials=-1)


def test_kernels_get_the_sizes_that_main_computes() -> None:
    lowered = relax_mlir.lower(opened(), to="planned")

    tasks = tuning_tasks([lowered], {"n": 3})
    default = tuning_tasks([lowered], {})[-1]

    task = next(t for t in tasks if "softmax" in t.name)
    f32 = np.dtype(np.float32)
    assert task.sizes == (6,)
    assert task.buffers[-1] == ((6, 20), f32)
    assert default.sizes == (128,)
    *inputs, output = task.arrays()
    assert all(array.min() >= 0.5 for array in inputs)
    assert not output.any()
    assert all(a.ctypes.data % 64 == 0 for a in (*inputs, output))


def test_equal_kernels_are_one_task() -> None:
    module = IRModule.parse("""
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = "relax.matmul"(%x, %x) {out_dtype} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = "relax.matmul"(%y, %y) {out_dtype} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %z : tensor<4x4xf32>
    }""")

    (task,) = tuning_tasks([relax_mlir.lower(module, to="planned")], {})

    assert task.outputs == 1
    assert not task.has_indices


def test_arrays_agree_within_rounding() -> None:
    x = np.array([1, 2, np.nan, np.inf], np.float32)

    assert results_agree(x * np.float32(1 + 1e-6), x)
    assert not results_agree(x * np.float32(1.01), x)
    assert not results_agree(np.array([1, 2, 3, np.inf], np.float32), x)
    assert not results_agree(np.array([1, np.nan, np.nan, np.inf], np.float32), x)
    assert results_agree(np.array([1, 2]), np.array([1, 2]))
    assert not results_agree(np.array([1, 3]), np.array([1, 2]))


def test_calls_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SAMPLE_NS", 1)
    order: list[str] = []

    times_us = measure_interleaved(
        [lambda: order.append("a"), lambda: order.append("b")], 3
    )

    assert times_us.shape == (3, 2)
    assert (times_us > 0).all()
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"


def test_a_folder_of_metaschedule(tmp_path: Path, objects: Path) -> None:
    written(tmp_path / "tuning.json", record())

    module = relax.transform.MetaScheduleApplyDatabase(tmp_path)(softmax())

    (kernel,) = relax_mlir.explain(module).kernels
    assert kernel.choice.configuration == "RowWise{vectors=2, chunk=0}"
    (y,) = relax_mlir.compile(module, cache=objects)(X)
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(FileNotFoundError):
        relax.transform.MetaScheduleApplyDatabase(tmp_path / "none")(softmax())


def test_metaschedule_tunes_within_its_trials(tmp_path: Path) -> None:
    module = softmax()
    before = str(module)

    tune = relax.transform.MetaScheduleTuneTIR(work_dir=tmp_path, max_trials_global=2)
    assert str(tune(module)) == before

    (kept,) = TuningDatabase.read(tmp_path / "tuning.json").records.values()
    assert kept.trials == 2


def test_kernels_are_those_of_the_profile(tmp_path: Path, objects: Path) -> None:
    database = written(tmp_path / "db.json", record())

    kernels = driver.compile(softmax(), tuning=database, cache=objects).kernels

    assert kernels == (KernelCall("softmax", "RowWise", moved_bytes=480),)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_names_that_no_file_has_are_refused_by_name(name: str) -> None:
    with pytest.raises(OSError, match="Invalid argument") as caught:
        TuningDatabase.read(name)
    assert caught.value.filename == name
    with pytest.raises(OSError, match="Invalid argument"):
        TuningDatabase(Path(name)).write()

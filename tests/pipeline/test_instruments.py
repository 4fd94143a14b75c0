"""Pipeline instruments: dumps, timing and reproducers."""

import re
from pathlib import Path
from typing import Any

import pytest

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import (
    PrintIR,
    Reproducer,
    Timing,
    opt,
)


@pytest.mark.parametrize(
    ("when", "titles"),
    [
        ("before-all", ["Before symbol-dce", "Before cse", "Before symbol-dce"]),
        ("after-all", ["After symbol-dce", "After cse", "After symbol-dce"]),
        ("after-change", ["After symbol-dce", "After cse"]),
    ],
)
def test_the_module_is_printed_around_passes(
    module: IRModule, when: Any, titles: list[str]
) -> None:
    printed: list[str] = []

    opt(
        module, "symbol-dce,cse,symbol-dce", instruments=[PrintIR(printed.append, when)]
    )

    found = re.findall(r"// -----// IR Dump (.*) //----- //\nmodule", "".join(printed))
    assert found == titles


def test_ir_is_dumped_after_a_failure(module: IRModule) -> None:
    printed: list[str] = []

    with pytest.raises(PassError):
        opt(module, "relax-zz-break", instruments=[PrintIR(printed.append)])

    assert "IR Dump After relax-zz-break Failed" in printed[0]


def test_times_add_up(module: IRModule) -> None:
    timing = Timing()

    opt(module, "cse,relax-zz-options,func.func(canonicalize)", instruments=[timing])

    head, *rows = [line.split(None, 2) for line in timing.report().splitlines()]
    assert head == ["time_ms", "share", "pass"]
    assert [row[2] for row in rows] == [
        "cse",
        "relax-zz-options",
        "func.func(canonicalize)",
        "(verification, dumps)",
        "total",
    ]
    *parts, total = (float(row[0]) for row in rows)
    assert sum(parts) == pytest.approx(total, abs=0.01)  # each is rounded to 1 us


def test_reproducer_fails_the_same_way(module: IRModule, tmp_path: Path) -> None:
    pipeline = "symbol-dce,relax-zz-options{count=-1 some-text='a b'}"

    with pytest.raises(KeyError) as caught:
        opt(module, pipeline, instruments=[Reproducer(tmp_path / "new")])

    (path,) = (tmp_path / "new").iterdir()
    command = f"relax-opt {path} -p 'relax-zz-options{{count=-1 some-text=\"a b\"}}'"
    assert vars(caught.value)["__notes__"][1] == f"reproduce with: {command}"
    text = path.read_text()
    assert text.startswith(f"// RUN: {command.replace(str(path), '%s')}\n")
    assert str(IRModule.parse(text)) == str(opt(module, "symbol-dce"))
    with pytest.raises(KeyError):
        opt(IRModule.parse(text), command.split("'")[1])


def test_reproducer_of_an_mlir_failure_is_in_the_message(
    module: IRModule, tmp_path: Path
) -> None:
    with pytest.raises(
        PassError, match=f"\nreproduce with: relax-opt {tmp_path}/repro"
    ):
        opt(module, "relax-zz-break", instruments=[Reproducer(tmp_path)])


def test_unwritable_reproducer_does_not_hide_the_error(
    module: IRModule, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PassError, match=r"left an invalid .*\na reproducer cannot be"):
        opt(module, "relax-zz-break", instruments=[Reproducer(tmp_path / "file")])

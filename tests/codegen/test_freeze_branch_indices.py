"""Freezing of phis before loop vectorization."""

from ctypes import byref, c_void_p
from pathlib import Path

import pytest

from relax_mlir.codegen import llvm_c, object_code
from relax_mlir.codegen.freeze_branch_indices import freeze_branch_phis

_FREEZE = 68  # LLVMOpcode

# Shifts rows of 7 to the left by one element. `%chosen` is 2 or `%column + 2`.
_ROWS = """
define void @rows(ptr %x, ptr %y) {
entry:
  br label %point
point:
  %i = phi i64 [ 0, %entry ], [ %following, %store ]
  %count = phi i64 [ 0, %entry ], [ %counted, %store ]
  %column = urem i64 %i, 7
  %row = sub i64 %i, %column
  %first = icmp eq i64 %column, 0
  br i1 %first, label %inside, label %other
other:
  %behind = add i64 %column, 2
  %last = icmp eq i64 %behind, 8
  br i1 %last, label %store, label %inside
inside:
  %chosen = phi i64 [ 2, %point ], [ %behind, %other ]
  %next = add i64 %row, %chosen
  %place = getelementptr i32, ptr %x, i64 %next
  %loaded = load i32, ptr %place
  br label %store
store:
  %value = phi i32 [ 0, %other ], [ %loaded, %inside ]
  %more = phi i64 [ 0, %other ], [ 1, %inside ]
  %counted = add i64 %count, %more
  %target = getelementptr i32, ptr %y, i64 %i
  store i32 %value, ptr %target
  %following = add i64 %i, 1
  %done = icmp eq i64 %following, 56
  br i1 %done, label %exit, label %point
exit:
  store i64 %counted, ptr %y
  ret void
}
"""


def _phis(code: object) -> dict[str, list[int]]:
    """The opcodes of the users of each phi, by name."""
    llvm = llvm_c.llvm()
    found: dict[str, list[int]] = {}
    for function in llvm_c.functions(code):
        block = llvm.LLVMGetFirstBasicBlock(function)
        while block:
            op = c_void_p(llvm.LLVMGetFirstInstruction(c_void_p(block)))
            while llvm.LLVMGetInstructionOpcode(op) == 44:
                users, use = [], llvm.LLVMGetFirstUse(op)
                while use:
                    user = c_void_p(llvm.LLVMGetUser(c_void_p(use)))
                    users.append(llvm.LLVMGetInstructionOpcode(user))
                    use = llvm.LLVMGetNextUse(c_void_p(use))
                found[llvm_c.name_of(op)] = users
                op = c_void_p(llvm.LLVMGetNextInstruction(op))
            block = llvm.LLVMGetNextBasicBlock(c_void_p(block))
    return found


def test_only_branch_phis_in_addresses_are_frozen() -> None:
    with llvm_c.parsed(_ROWS) as code:
        freeze_branch_phis(code)

        assert not llvm_c.llvm().LLVMVerifyModule(code, 2, byref(c_void_p()))
        found = _phis(code)
        frozen = [name for name, users in found.items() if users == [_FREEZE]]
        assert list(found) == ["i", "count", "chosen", "value", "more"]
        assert frozen == ["chosen"]


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-linux-gnu"])
@pytest.mark.parametrize("level", [2, 3])
def test_default_pipelines_are_split_before_the_vectorizer(
    triple: str, level: int
) -> None:
    before, behind = object_code._split_pipeline(f"default<O{level}>", triple)

    assert before.endswith("inject-tli-mappings)")
    assert "loop-vectorize" not in before
    assert "function<eager-inv>(loop-vectorize<" in behind
    assert behind.endswith("function(annotation-remarks)")


def test_other_pipelines_are_not_split() -> None:
    assert object_code._split_pipeline("function(sroa)", "x86_64-linux-gnu") == (
        "function(sroa)",
    )
    assert object_code._split_pipeline("default<O2>", "nvptx64-nvidia-cuda") == (
        "default<O2>",
    )


_OPT = llvm_c.directory() / "bin" / "opt"
_TARGET = ("x86_64-unknown-linux-gnu", "x86-64-v3", "", 2)
_MASKED = """
define void @positive(ptr noalias %x, ptr noalias %y) {
entry:
  br label %point
point:
  %i = phi i64 [ 0, %entry ], [ %next, %behind ]
  %from = getelementptr i32, ptr %x, i64 %i
  %value = load i32, ptr %from
  %positive = icmp sgt i32 %value, 0
  br i1 %positive, label %store, label %behind
store:
  %to = getelementptr i32, ptr %y, i64 %i
  store i32 %value, ptr %to
  br label %behind
behind:
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 1024
  br i1 %done, label %exit, label %point
exit:
  ret void
}
"""


def _is_vectorized() -> bool:
    """Whether `default<O2>` vectorizes a loop with masked stores."""
    with llvm_c.parsed(_MASKED) as code:
        text = object_code._emit(code, object_code._ASSEMBLY, _TARGET, "default<O2>")
    return b"vpmaskmov" in text


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder instead of LLVM's tools."""
    llvm_c.llvm()
    monkeypatch.setattr(llvm_c, "directory", lambda: tmp_path)
    monkeypatch.setattr(object_code, "_split_pipelines", {})
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, 0),
        ("#!/bin/sh\necho 'function(sroa,loop-vectorize<>)'\n", 0o600),
        ("#!/bin/sh\necho 'function(sroa,loop-vectorize<>)'\nexit 1\n", 0o700),
        ("#!/bin/sh\necho usage\n", 0o700),
    ],
    ids=["missing", "no program", "fails", "says something else"],
)
def test_loops_are_not_vectorized_without_the_tool_that_lists_passes(
    tools: Path, text: str | None, mode: int
) -> None:
    """Failures are not cached: the tool is called again."""
    if text is not None:
        (tools / "opt").write_text(text)
        (tools / "opt").chmod(mode)

    assert object_code._split_pipeline("default<O2>", _TARGET[0]) == ("default<O1>",)
    assert not _is_vectorized()
    (tools / "opt").unlink(missing_ok=True)
    (tools / "opt").symlink_to(_OPT)
    assert _is_vectorized()

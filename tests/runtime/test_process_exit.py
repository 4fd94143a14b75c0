"""Process exit with daemon threads inside calls: waits for them, and no longer."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

_SETUP = """
import sys, threading, time
import numpy as np
import relax_mlir
from onnx import parser

def model(text):
    return parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text)

WEIGHT = ",".join(str(i % 7) for i in range(1024))
DENSE = model('''g (float[n, 32] x) => (float[n, 32] y)
    <float[32, 32] w = {%s}> { h = MatMul(x, w) y = Softmax <axis = -1> (h) }''' % WEIGHT)
FOUND = model('''g (float[n] x) => (float[m] y)
    { z = NonZero(x) s = Squeeze(z) a = Gather(x, s) y = Relu(a) }''')
X = np.ones((400, 32), np.float32)
"""

# What threads do again and again, by kind of executable.
_CALLS = {
    "one thread": "made = relax_mlir.compile(DENSE); call = lambda: made(X)",
    "the function itself": """
        import tvm_ffi
        function = relax_mlir.compile(DENSE, threads=2)["main"]
        x = tvm_ffi.from_dlpack(X)
        call = lambda: function(x)
    """,
    "a native function": """
        import tvm_ffi
        from relax_mlir.runtime import cpu
        cpu.load_library()
        x = tvm_ffi.from_dlpack(X)
        nonzero = tvm_ffi.get_global_func("relax_mlir.nonzero")
        call = lambda: nonzero(x)
    """,
    "two threads": "made = relax_mlir.compile(DENSE, threads=2); call = lambda: made(X)",
    "written to": """
        made = relax_mlir.compile(DENSE)
        outs = threading.local()
        def call():
            outs.y = getattr(outs, "y", np.empty_like(X))
            made(X, out=[outs.y])
    """,
    "staged": "made = relax_mlir.compile(FOUND); call = lambda: made(X[:, 0])",
    "host program": """
        from relax_mlir.tvm.relax.vm import build
        from relax_mlir.tvm.script import from_source
        made = build(from_source('''
        @R.function
        def main(x: R.Tensor(("n", 32), "float32")):
            a = R.add(x, x)
            b = R.call_pure_packed("relax_mlir.nonzero", a, sinfo_args=R.Object)
            return b
        '''))
        call = lambda: made(X)
    """,
    "loading": """
        import tempfile, os
        path = os.path.join(tempfile.mkdtemp(), "m.rxm")
        relax_mlir.compile(DENSE).save(path)
        call = lambda: relax_mlir.load(path)(X)
    """,
    "compiling": "call = lambda: relax_mlir.compile(FOUND, cache=False)(X[:, 0])",
}

_END = """
def work():
    while True:
        call()

call()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


def _run(source: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", source, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def _program(kind: str) -> str:
    return _SETUP + textwrap.dedent(_CALLS[kind]) + _END


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("kind", _CALLS)
def test_daemon_threads_inside_calls_end_no_process_by_a_signal(kind: str) -> None:
    source = _program(kind)

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda delay: _run(source, delay), ("0.02", "0.03")))

    assert [(e.returncode, e.stderr) for e in ended] == [(0, "")] * len(ended)


_ENDING = """
from relax_mlir.runtime import process_exit as end
import atexit, sys, threading, time

{body}
"""


def test_a_running_call_is_waited_for_and_a_new_one_is_refused() -> None:
    body = """
@end.awaited_at_exit
def inner():
    return "inner"

@end.awaited_at_exit
def outer():
    entered.set()
    while not end._ending_thread:
        time.sleep(0.001)
    print(inner(), "ran")

def work():
    outer()
    try:
        outer()
    except SystemExit as error:
        print(error)

entered = threading.Event()
atexit.register(lambda: print("handlers of the program come first"))
thread = threading.Thread(target=work, daemon=True)
thread.start()
entered.wait()
end_wait = atexit.unregister(end._drain)
def drain():
    end._drain()
    thread.join(5)
    print(outer.__wrapped__ is not None and inner(), "of the ending thread")
atexit.register(drain)
"""
    ended = _run(_ENDING.format(body=body))

    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "inner ran",
        "the process is ending: expected no new call, got one",
        "inner of the ending thread",
        "handlers of the program come first",
    ]


def test_no_call_is_waited_for_for_ever() -> None:
    body = """
end._WAIT_SECONDS = 0.05
entered = threading.Event()

@end.awaited_at_exit
def stuck():
    entered.set()
    threading.Event().wait()

threading.Thread(target=stuck, daemon=True).start()
entered.wait()
"""
    ended = _run(_ENDING.format(body=body))

    assert (ended.returncode, ended.stderr) == (0, "")


def test_threads_that_are_no_daemons_call_until_they_end() -> None:
    body = """
@end.awaited_at_exit
def call():
    print("called")

def work():
    threading.main_thread().join()
    call()

threading.Thread(target=work).start()
"""
    ended = _run(_ENDING.format(body=body))

    assert (ended.stdout, ended.stderr) == ("called\n", "")


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    body = """
import os
entered = threading.Event()

@end.awaited_at_exit
def stuck():
    entered.set()
    threading.Event().wait()

threading.Thread(target=stuck, daemon=True).start()
entered.wait()
child = os.fork()
if child == 0:
    assert not end._inside
else:
    end._WAIT_SECONDS = 0
    print(os.waitpid(child, 0)[1])
"""
    ended = _run(_ENDING.format(body=body))

    assert ended.stdout == "0\n"


_NATIVE_GATE = """
import ctypes
from relax_mlir.runtime import cpu
import relax_mlir, numpy as np, tvm_ffi
from onnx import parser

library = cpu.load_library()
made = relax_mlir.compile(parser.parse_model('''
    <ir_version: 8, opset_import: ["" : 17]> g (float[n, 1] x, float[1, m] w) => (float[n, 1] y)
    <int64[1] axes = {{1}}> {{ p = Add(x, w) y = ReduceSum(p, axes) }}'''))["main"]
small = [tvm_ffi.from_dlpack(np.ones(s, np.float32)) for s in ((3, 1), (1, 3))]
huge = [tvm_ffi.from_dlpack(np.ones(s, np.float32)) for s in ((4_000_000, 1), (1, 4_000_000))]
{body}
"""


def test_native_calls_of_other_threads_do_not_return_once_they_are_closed() -> None:
    body = """
returned = []
def work():
    while True:
        made(*small)
        returned.append(1)

threading.Thread(target=work, daemon=True).start()
while not returned:
    time.sleep(0.001)

def look():  # runs after the calls are closed
    before = len(returned)
    made(*small)
    time.sleep(0.05)
    print(len(returned) - before, library.relax_rt2_other_calls())

end_wait = atexit.unregister(end._drain)
atexit.register(look)
atexit.register(end._drain)
"""
    ended = _run(_ENDING.format(body=_NATIVE_GATE.format(body=body)))

    assert (ended.stdout, ended.stderr) == ("0 0\n", "")


@pytest.mark.slow
def test_a_native_call_that_runs_long_keeps_no_process() -> None:
    body = """
end._WAIT_SECONDS = 0.05
threading.Thread(target=lambda: made(*huge), daemon=True).start()
while library.relax_rt2_other_calls() == 0:
    time.sleep(0.001)
"""
    ended = _run(_ENDING.format(body=_NATIVE_GATE.format(body=body)))

    assert (ended.returncode, ended.stderr) == (0, "")

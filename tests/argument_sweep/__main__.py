"""Calls every way in with random arguments: ``python -m tests.argument_sweep 0 10``.

Prints the calls that end by accident, each with its place; fails if there are some.

Args: the first seed, how many, and a pattern of the names of ways in.
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import resource
import sys
import tempfile
import warnings

from tests.argument_sweep.calls import Sweep
from tests.argument_sweep.compiling import sweep_compilers
from tests.argument_sweep.texts import sweep_databases, sweep_pipelines
from tests.argument_sweep.ways_in import ways_in

_BYTES = 8 << 30  # of memory, for arguments that ask for too much
_CALLS = 3  # of every way in, per seed
_TEXTS = 40  # of every kind, per seed

_ADDRESS = "the address of memory is the caller's to get right"
_COMPILES = "compiles: `compiling` calls it, one option after another"

# Ways in that are left out, each with the reason.
LEFT_OUT = {
    "relax_mlir.compile": _COMPILES,
    "relax_mlir.tune": _COMPILES,
    "relax_mlir.explain": _COMPILES,
    "relax_mlir.export": _COMPILES,
    "relax_mlir.set_max_threads": "changes this process",
    "onnxruntime.IOBinding.bind_input": _ADDRESS,
    "onnxruntime.IOBinding.bind_output": _ADDRESS,
    "script.tir.PrimExpr": "is abstract: its instances have no parts",
    "relax.vm.build": _COMPILES,
    "relax.vm.build_any": _COMPILES,
}


def main(first: int, count: int, pattern: str = "") -> int:
    """Sweep with some seeds; returns the exit status."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    ways = [
        w for w in ways_in() if w.name not in LEFT_OUT and re.match(pattern, w.name)
    ]
    accidents: dict[str, str] = {}
    calls = good = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = folder
        for seed in range(first, first + count):
            sweep = Sweep(seed)
            for way in ways:
                for _ in range(_CALLS):
                    sweep.call(way)
            if not pattern:
                rng = random.Random(seed)
                sweep_databases(sweep, rng, _TEXTS)
                sweep_pipelines(sweep, rng, _TEXTS)
                sweep_compilers(sweep, rng)
            accidents |= sweep.accidents
            calls, good = calls + sweep.calls, good + sweep.good
        os.chdir("/")
    for where, call in sorted(accidents.items()):
        print(f"{where}\n    {call}".encode("ascii", "backslashreplace").decode())
    methods = sum(way.owner is not None for way in ways)
    print(
        f"{len(ways) - methods} functions and classes, {methods} methods, {calls} calls, "
        f"{good} returned, {len(accidents)} accidents"
    )
    return bool(accidents)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4]))

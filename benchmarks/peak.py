"""Peak FMA throughput of the processor: a loop of independent multiply-adds.

The achievable peak depends on the current clock and on other load, so it is measured along
with every benchmark; shares of peak are comparable between machines.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir.codegen import object_code
from relax_mlir.compiler.driver import target_of
from relax_mlir.runtime.machine_code import load_code
from relax_mlir.targets import Target

__all__ = ["FmaPeak"]

_ITERATIONS = 2_000_000  # per call: some milliseconds

_SYMBOL = "fma_peak"


@dataclass
class FmaPeak:
    """The FMA loop on a number of threads.

    Attributes:
        threads: the number of threads.
        flops: floating-point operations per call, over all threads.
    """

    threads: int = 1
    flops: int = field(init=False)

    def __post_init__(self) -> None:
        target = target_of("cpu")
        lanes, chains = target.unit.vector_bits // 32, _chains(target)
        self.flops = 2 * lanes * chains * _ITERATIONS * self.threads
        objects = [_compiled(lanes, chains, target)]
        code = object_code.machine_code(objects, [_SYMBOL])
        self._library, address = load_code(code, [_SYMBOL])
        function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)
        self._function = function(address[_SYMBOL])
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def __call__(self) -> None:
        """Run the loop once on every thread; it releases the GIL."""
        if self._pool is None:
            self.run(_ITERATIONS)
            return
        list(self._pool.map(self.run, [_ITERATIONS] * self.threads))

    def run(self, count: int) -> float:
        """Run ``count`` iterations on this thread; the result depends on all of them."""
        return self._function(count)

    def rates(self, times_s: np.ndarray) -> np.ndarray:
        """FLOP/s from seconds per call."""
        return self.flops / times_s


def _chains(target: Target) -> int:
    """Independent accumulators: more than FMA latency times units, fewer than registers."""
    has_32_registers = target.unit.vector_bits == 512 or not target.triple.startswith(
        "x86"
    )
    return 24 if has_32_registers else 12


def _compiled(lanes: int, chains: int, target: Target) -> bytes:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_text(f"vector<{lanes}xf32>", chains))
        return object_code.compile_object(
            module, triple=target.triple, cpu=target.cpu, features=target.features
        )


def _text(vector: str, chains: int) -> str:
    """The loop in the llvm dialect, with one accumulator per chain; returns their total."""
    sums = range(chains)
    types = ", ".join(["i64", *[vector] * chains])
    arguments = ", ".join(["%i : i64", *(f"%s{n} : {vector}" for n in sums)])
    starts = "\n".join(
        f"%z{n} = llvm.mlir.constant(dense<{n}.0> : {vector}) : {vector}" for n in sums
    )
    steps = "\n".join(
        f"%t{n} = llvm.intr.fma(%s{n}, %a, %b) : ({vector}, {vector}, {vector}) -> {vector}"
        for n in sums
    )
    total = "\n".join(
        f"%u{n + 1} = llvm.fadd %{f'u{n}' if n else 't0'}, %t{n + 1} : {vector}"
        for n in range(chains - 1)
    )
    return f"""
llvm.func @{_SYMBOL}(%count : i64) -> f32 {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %first = llvm.mlir.constant(0 : i32) : i32
  %a = llvm.mlir.constant(dense<1.0001> : {vector}) : {vector}
  %b = llvm.mlir.constant(dense<0.001> : {vector}) : {vector}
{starts}
  llvm.br ^loop(%zero, {", ".join(f"%z{n}" for n in sums)} : {types})
^loop({arguments}):
{steps}
  %next = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %next, %count : i64
  llvm.cond_br %more, ^loop(%next, {", ".join(f"%t{n}" for n in sums)} : {types}), ^exit
^exit:
{total}
  %sum = llvm.extractelement %u{chains - 1}[%first : i32] : {vector}
  llvm.return %sum : f32
}}
"""

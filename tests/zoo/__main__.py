"""Run trained networks against onnxruntime and known answers: ``make zoo``.

``python -m tests.zoo [NAME ...]`` takes the networks whose names begin so. A row says how
far each of three sizes, all from one compilation, is from onnxruntime, in per cent of what
:class:`tests.zoo.agreement.Bounds` allows; how long it took to compile the network, with
an empty cache, and to call it for the first time; and a later call, next to onnxruntime's,
both on one thread. Then come the questions whose answers are known. The exit status is 1
if anything is different.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.zoo.agreement import Run, compare_runtimes
from tests.zoo.answers import ANSWERS, Answer
from tests.zoo.network import Network
from tests.zoo.networks import NETWORKS
from tests.zoo.others import OTHERS

_HEAD = (
    f"{'network':27}{'% of what is allowed':>22}{'compile s':>11}{'first ms':>10}"
    f"{'ms':>9}{'onnxruntime ms':>16}"
)


def main() -> int:
    """Run all, or those that the command line names; 1 if anything is different."""
    wanted = tuple(sys.argv[1:]) or ("",)
    runs: dict[str, Run] = {}
    print(_HEAD)
    chosen = [n for n in (*NETWORKS, *OTHERS) if n.name.startswith(wanted)]
    good = [_compare(network, runs) for network in chosen]
    print()
    good += [
        _ask(answer, runs)
        for answer in ANSWERS
        if any(name.startswith(wanted) for name in answer.networks)
    ]
    print(f"\n{good.count(True)} of {len(good)} good")
    return int(not all(good))


def _compare(network: Network, runs: dict[str, Run]) -> bool:
    """Print a row; keep the compiled network."""
    try:
        with tempfile.TemporaryDirectory() as cache:
            found, runs[network.name] = compare_runtimes(network, Path(cache))
    except Exception as error:  # the other rows shall be seen
        print(f"{network.name:27}  FAIL {_in_a_line(error)}")
        return False
    shares = " ".join(f"{100 * share:6.0f}" for share in found.shares)
    print(
        f"{network.name:27}{shares:>22}{found.compile_s:11.1f}{1e3 * found.first_s:10.1f}"
        f"{found.ours_ms:9.2f}{found.theirs_ms:16.2f}",
        end="",
    )
    is_good = max(found.shares) <= 1
    print("" if is_good else "  FAIL", flush=True)
    return is_good


def _ask(answer: Answer, runs: Mapping[str, Run]) -> bool:
    """Ask, and print what comes back."""
    where = f"{answer.networks[0]:27}{answer.question}: "
    if not set(answer.networks) <= set(runs):
        print(f"{where}FAIL there is no network to ask")
        return False
    try:
        found = answer.find(*_of(answer.networks, runs))
    except Exception as error:  # the other answers shall be seen
        print(f"{where}FAIL {_in_a_line(error)}")
        return False
    is_good = found == answer.expected
    print(f"{where}{found}", end="")
    print("" if is_good else f"  FAIL expected {answer.expected}", flush=True)
    return is_good


def _of(names: Sequence[str], runs: Mapping[str, Run]) -> list[Run]:
    return [runs[name] for name in names]


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    sys.exit(main())

"""Invocations of the command line that must fail cleanly."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 20] x, int64[n] i) => (float[n, 20] y, int64[n] j)
<float[20] shift = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}>
{
   [first] s = Add (x, shift)
   [second] y = Relu (s)
   [third] j = Neg (i)
}
"""


COMMANDS = {
    "check": ["check"],
    "import": ["import", "-o", "{out}"],
    "compile": ["compile", "-o", "{out}"],
    "run": ["run", "--random-inputs", "--output", "y={out}"],
    "bench": ["bench"],
    "profile": ["profile"],
}


X = np.ones((2, 20), np.float32)


@dataclass(frozen=True)
class Run:
    """What a call did.

    Attributes:
        status: its exit status.
        error: what it wrote to stderr.
        out: where `{out}` was.
    """

    status: int
    error: str
    out: Path

    def failed(self, pattern: str, status: int = 1) -> None:
        """Check for one clear message and no leftover files."""
        assert self.status == status
        assert self.error.startswith("relax-mlir: error: ")
        assert self.error.count("relax-mlir: error: ") == 1
        assert re.search(pattern, self.error), self.error
        assert "Traceback" not in self.error
        assert "--debug" not in self.error  # said of what nobody thought of
        assert list(self.out.parent.iterdir()) == []


Call = Callable[..., Run]

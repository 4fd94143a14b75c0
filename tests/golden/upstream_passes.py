"""The table of upstream's passes, their options and the choices of these, for messages.

``make golden`` writes it to ``relax_mlir/pipeline/upstream_passes.json``, from the help of
``mlir-opt``, whose order differs from run to run.
"""

import json
import re
import subprocess
from pathlib import Path

import mlir

TABLE = Path(__file__).parents[2] / "relax_mlir" / "pipeline" / "upstream_passes.json"
HOW_TO_WRITE = "run `make golden`, and look at what it changed"

_LINE = re.compile(
    r"^( {2}| {4}(?= *=)| {6}| {8})(-{0,2})(=?[A-Za-z0-9-]+)", re.MULTILINE
)


def text() -> str:
    """The table as a file."""
    return json.dumps(_passes(), indent=0, sort_keys=True) + "\n"


def _passes() -> dict[str, dict[str, list[str]]]:
    tool = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
    run = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, list[str]]] = {}
    options: dict[str, list[str]] = {}
    choices: list[str] = []
    for indent, dashes, word in _LINE.findall(run.stdout):
        if len(indent) == 2:  # an option of the tool
            choices = []
        elif not dashes:
            choices.append(word.removeprefix("="))
        elif len(indent) > 6:
            choices = options[word] = []
        else:
            options = found[word] = {}
    return found


if __name__ == "__main__":
    TABLE.write_text(text())

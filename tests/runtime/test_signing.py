"""Signed model files, and the trust policy that rejects others."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import ModelError, SignatureError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime import signing
from relax_mlir.runtime.archive import read_archive
from relax_mlir.runtime.cuda import loading
from relax_mlir.runtime.model_file import sign, trusted_key
from relax_mlir.tools.cli import main
from tests.frontends.onnx.differential import parse

X = np.arange(-3, 3, dtype=np.float32)
_STAGED = """g (float[n] x) => (float[k] y) {
    z = Relu (x)  found = NonZero (z)  places = Squeeze (found)  y = Gather (z, places) }"""
_GPU = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "relax.nn_relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each kind: machine code, with a host program, for GPUs."""
    folder = tmp_path_factory.mktemp("models")
    whole = parse("g (float[n] x) => (float[n] y) { y = Relu (x) }", opset=17)
    relax_mlir.compile(whole.SerializeToString(), cache=False).save(folder / "cpu.rxm")
    staged = parse(_STAGED, opset=17)
    relax_mlir.compile(staged.SerializeToString(), cache=False).save(folder / "vm.rxm")
    gpu = relax_mlir.compile(IRModule.parse(_GPU), target="cuda:sm_90", cache=False)
    gpu.save(folder / "cuda.rxm")
    return folder


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two pairs of keys: key.pem and key.pub.pem, other.pem ..."""
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("key", "other"):
        assert main(["keygen", str(folder / f"{name}.pem")]) == 0
    return folder


@pytest.fixture
def signed(models: Path, keys: Path, tmp_path: Path) -> Path:
    """A signed model of machine code."""
    sign(models / "cpu.rxm", keys / "key.pem", tmp_path / "signed.rxm")
    return tmp_path / "signed.rxm"


KINDS = ["cpu", "vm", "cuda"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_file_is_loaded_with_its_key_or_without(
    kind: str, models: Path, keys: Path, tmp_path: Path
) -> None:
    path = tmp_path / "signed.rxm"
    shutil.copy(models / f"{kind}.rxm", path)
    assert main(["sign", str(path), "--key", str(keys / "key.pem")]) == 0

    pem = (keys / "key.pub.pem").read_bytes()
    loaded = [
        relax_mlir.load(path),
        relax_mlir.load(path, public_key=keys / "key.pub.pem"),
        relax_mlir.load(path, public_key=pem, trust="signed"),
    ]

    assert len({str(model.signature) for model in loaded}) == 1
    if kind == "cpu":
        for model in loaded:
            np.testing.assert_array_equal(model(X)[0], np.maximum(X, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_an_unsigned_file_is_refused(kind: str, models: Path, keys: Path) -> None:
    with pytest.raises(SignatureError, match=rf"{kind}\.rxm: not signed: expected"):
        relax_mlir.load(models / f"{kind}.rxm", public_key=keys / "key.pub.pem")


def test_a_file_signed_with_another_key_is_refused(signed: Path, keys: Path) -> None:
    with pytest.raises(SignatureError, match="the signature is invalid"):
        relax_mlir.load(signed, public_key=keys / "other.pub.pem")


def test_a_key_given_is_checked_whatever_is_trusted(models: Path, keys: Path) -> None:
    with pytest.raises(SignatureError, match="not signed"):
        relax_mlir.load(
            models / "cpu.rxm", trust="any", public_key=keys / "key.pub.pem"
        )


def test_every_byte_counts(signed: Path, keys: Path, tmp_path: Path) -> None:
    """Also dates, and other fields that no loader reads."""
    whole, path = signed.read_bytes(), tmp_path / "changed.rxm"
    rng = np.random.default_rng(0)
    places = {*rng.integers(0, len(whole), 40).tolist(), 10, len(whole) - 1}
    places |= {*range(len(whole) - 217 - 22, len(whole), 7)}
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(SignatureError):
            relax_mlir.load(path, public_key=keys / "key.pub.pem")


def add_member(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra", b"data")


def add_member_keeping_the_signature(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        comment = archive.comment
        archive.writestr("extra", b"data")
        archive.comment = comment


def repeat_member(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("manifest.json", b"{}")


def remove_member(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()[:-1]}
        comment = archive.comment
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def append_a_comment(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = archive.comment + b"x"


def prepend(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes())


def append_an_archive(path: Path) -> None:
    """What other readers would take for the archive."""
    with zipfile.ZipFile(path.with_name("evil.zip"), "w") as archive:
        archive.writestr("manifest.json", b"{}")
    path.write_bytes(path.read_bytes() + path.with_name("evil.zip").read_bytes())


CHANGES = [
    add_member,
    add_member_keeping_the_signature,
    repeat_member,
    remove_member,
    append,
    append_a_comment,
    prepend,
    append_an_archive,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_archive_is_refused(
    signed: Path, keys: Path, change: Callable[[Path], None]
) -> None:
    change(signed)

    with pytest.raises(SignatureError):
        relax_mlir.load(signed, public_key=keys / "key.pub.pem")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (repeat_member, "2 members have the name `manifest.json`"),
        (append, "other data follow it"),
        (append_a_comment, "other data follow it"),
        (prepend, "data before `manifest.json` belong to no member"),
        (append_an_archive, "belong to no member"),
    ],
)
def test_archives_that_can_be_read_in_two_ways_are_refused(
    models: Path, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    """Signed or not: what `inspect` shows is what is loaded."""
    path = tmp_path / "m.rxm"
    shutil.copy(models / "cpu.rxm", path)
    change(path)

    with pytest.raises(ModelError, match=message):
        relax_mlir.load(path)


def test_members_that_the_directory_does_not_tell_are_refused(
    models: Path, tmp_path: Path
) -> None:
    whole = (models / "cpu.rxm").read_bytes()
    end = len(whole) - 22
    (directory,) = struct.unpack_from("<L", whole, end + 16)
    hidden = bytearray(whole[:directory] + b"hidden" + whole[directory:])
    struct.pack_into("<L", hidden, end + 6 + 16, directory + 6)
    (tmp_path / "m.rxm").write_bytes(hidden)

    with pytest.raises(ModelError, match="before the central directory"):
        relax_mlir.load(tmp_path / "m.rxm")


def test_what_went_through_a_pipe_is_loaded_and_signed(
    models: Path, keys: Path, tmp_path: Path
) -> None:
    """Sizes follow the data there."""
    path, pipe = tmp_path / "m.rxm", tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=relax_mlir.load(models / "cpu.rxm").save, args=[pipe]
    )
    writer.start()
    path.write_bytes(pipe.read_bytes())
    writer.join()
    sign(path, keys / "key.pem")

    found = relax_mlir.load(path, public_key=keys / "key.pub.pem")

    np.testing.assert_array_equal(found(X)[0], np.maximum(X, 0))


def test_signing_again_replaces_the_signature(signed: Path, keys: Path) -> None:
    once = signed.read_bytes()
    sign(signed, keys / "other.pem")
    relax_mlir.load(signed, public_key=keys / "other.pub.pem")
    with pytest.raises(SignatureError, match="invalid"):
        relax_mlir.load(signed, public_key=keys / "key.pub.pem")

    sign(signed, keys / "key.pem")

    assert signed.read_bytes() == once


def test_a_file_that_is_changed_after_the_check_is_not_loaded_changed(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = signing.verify

    def verify_and_change(*arguments: Any) -> None:
        real(*arguments)
        signed.write_bytes(b"not what was signed")

    monkeypatch.setattr("relax_mlir.runtime.model_file.verify", verify_and_change)
    model = relax_mlir.load(signed, public_key=keys / "key.pub.pem")

    np.testing.assert_array_equal(model(X)[0], np.maximum(X, 0))


# keys


@pytest.mark.parametrize("name", ["none.pem", "text.pem", "key.pem", "rsa.pub.pem"])
def test_what_is_no_public_key_is_refused(
    name: str, signed: Path, keys: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.pem").write_text("no key")
    shutil.copy(keys / "key.pem", tmp_path / "key.pem")  # the private one
    (tmp_path / "rsa.pub.pem").write_bytes(rsa_public_key())

    with pytest.raises(SignatureError, match=rf"{name}: .*public key"):
        relax_mlir.load(signed, public_key=tmp_path / name)


def rsa_public_key() -> bytes:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    forms = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.RSAPublicNumbers(65537, (1 << 2047) + 1).public_key()
    return key.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)


def test_keys_are_not_overwritten(
    keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (keys / "key.pem").read_bytes()

    assert main(["keygen", str(keys / "key.pem")]) == 1

    assert "key.pem: File exists" in capsys.readouterr().err
    assert (keys / "key.pem").read_bytes() == before
    assert (keys / "key.pem").stat().st_mode & 0o777 == 0o600


def test_keys_of_openssl_sign(signed: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    private, public = tmp_path / "o.pem", tmp_path / "o.pub.pem"
    for command in (
        ["genpkey", "-algorithm", "ed25519", "-out", private],
        ["pkey", "-in", private, "-pubout", "-out", public],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)

    sign(signed, private)

    assert relax_mlir.load(signed, public_key=public).signature is not None


# without cryptography


@pytest.fixture
def no_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)


@pytest.mark.usefixtures("no_cryptography")
@pytest.mark.parametrize("kind", KINDS)
def test_without_cryptography_keys_refuse_and_never_skip(
    kind: str, models: Path
) -> None:
    path = models / f"{kind}.rxm"
    with pytest.raises(SignatureError, match=r"pip install relax-mlir-runtime\[sign\]"):
        relax_mlir.load(path, public_key=b"key")
    with pytest.raises(SignatureError, match=r"pip install relax-mlir-runtime\[sign\]"):
        sign(path, b"key")

    assert relax_mlir.load(path).signature is not None


# what a process trusts


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_trusts_signed_files_alone_refuses_others(
    kind: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = models / f"{kind}.rxm"
    monkeypatch.setenv("RELAX_MLIR_TRUST", "signed")
    loaders: list[Callable[[Path], object]] = [relax_mlir.load, read_archive]
    loaders += [loading.load] if kind == "cuda" else []
    for load in loaders:
        with pytest.raises(SignatureError, match="only signed models are trusted"):
            load(path)
    with pytest.raises(SignatureError, match="only signed models are trusted"):
        relax_mlir.load(path, trust="signed")

    assert relax_mlir.load(path, trust="any").signature is not None


def test_a_process_may_name_the_key_it_trusts(
    signed: Path, models: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAX_MLIR_TRUST", "signed")
    monkeypatch.setenv("RELAX_MLIR_PUBLIC_KEY", str(keys / "key.pub.pem"))

    assert relax_mlir.load(signed).signature is not None
    with pytest.raises(SignatureError, match="not signed"):
        relax_mlir.load(models / "cpu.rxm")


def test_other_words_are_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="expected `any` or `signed`, got 'all'"):
        trusted_key("all")
    monkeypatch.setenv("RELAX_MLIR_TRUST", "Signed")
    with pytest.raises(
        SignatureError, match="expected `any` or `signed`, got `Signed`"
    ):
        relax_mlir.load(models / "cpu.rxm")


def test_the_cache_is_trusted_by_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds what this process or others of the user have compiled."""
    data = parse("g (float[n] x) => (float[n] y) { y = Neg (x) }").SerializeToString()
    monkeypatch.setenv("RELAX_MLIR_TRUST", "signed")
    relax_mlir.compile(data, cache=tmp_path)
    monkeypatch.setattr("relax_mlir.compiler.dispatch.compile_module", None)

    np.testing.assert_array_equal(relax_mlir.compile(data, cache=tmp_path)(X)[0], -X)


@pytest.mark.slow
@pytest.mark.parametrize("is_signed", [False, True])
def test_a_file_that_runs_by_itself_follows_the_same_rule(
    is_signed: bool, models: Path, keys: Path, tmp_path: Path
) -> None:
    """Though its code runs already: a mistake is told, a forger is not stopped."""
    path = tmp_path / "m.rxm"
    shutil.copy(models / "cuda.rxm", path)
    if is_signed:
        sign(path, keys / "key.pem")
    variables = {
        "RELAX_MLIR_TRUST": "signed",
        "RELAX_MLIR_PUBLIC_KEY": str(keys / "key.pub.pem"),
        "LD_LIBRARY_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )

    assert done.returncode == (2 if "libcuda" in done.stderr or not is_signed else 0)
    assert ("not signed: expected a signature" in done.stderr) == (not is_signed)


# the command


def test_a_key_is_for_compiled_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(
        parse("g (float[n] x) => (float[n] y) { y = Neg (x) }").SerializeToString()
    )

    assert main(["run", str(path), "--random-inputs", "--public-key", "k.pem"]) == 1

    assert "m.onnx: not compiled yet" in capsys.readouterr().err


def test_run_takes_a_key(
    signed: Path, models: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = ["--public-key", str(keys / "key.pub.pem"), "--random-inputs"]

    assert main(["run", str(signed), *key]) == 0
    assert main(["run", str(models / "cpu.rxm"), *key]) == 1

    assert "cpu.rxm: not signed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_shows_what_is_in_a_file(
    kind: str,
    models: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = models / f"{kind}.rxm"
    for name in (
        "runtime.machine_code.load_code",
        "runtime.executable.Executable.of_contents",
    ):
        monkeypatch.setattr(f"relax_mlir.{name}", None)  # nothing is loaded

    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert "signature: none" in printed
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert found["parts"][0]["members"] == sizes
    assert all(f"{size:12,} {name}" in printed for name, size in sizes.items())
    assert "relu (" in printed


def test_inspect_shows_the_host_program(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(models / "vm.rxm"), "--host"]) == 0

    with zipfile.ZipFile(models / "vm.rxm") as archive:
        manifest = json.loads(archive.read("vm.json"))
    printed = capsys.readouterr().out
    assert all(f"  {field}: " in printed for field in manifest if field != "kernels")


def test_inspect_runs_no_host_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "evil.rxm", "w") as archive:
        text = f"open({str(tmp_path / 'ran')!r}, 'w')\n\x1b[31mred"
        archive.writestr("vm.json", json.dumps({"format": 99, "text": text}))

    assert main(["inspect", str(tmp_path / "evil.rxm"), "--host"]) == 0

    printed = capsys.readouterr().out
    assert "open(" in printed
    assert "\x1b" not in printed
    assert not (tmp_path / "ran").exists()


def test_inspect_tells_the_state_of_the_signature(
    signed: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(signed)]) == 0
    assert "signature: matches the content and the key " in capsys.readouterr().out

    assert (
        main(["inspect", str(signed), "--public-key", str(keys / "key.pub.pem")]) == 0
    )
    assert "signature: valid, by the given key " in capsys.readouterr().out

    wrong = str(keys / "other.pub.pem")
    assert main(["inspect", str(signed), "--public-key", wrong]) == 1
    assert "the signature is invalid" in capsys.readouterr().err

    data = bytearray(signed.read_bytes())
    data[10] ^= 1  # a time
    signed.write_bytes(data)
    assert main(["inspect", str(signed)]) == 0
    assert "signature: INVALID" in capsys.readouterr().out

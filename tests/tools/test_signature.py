"""A release's signature, with the real ssh-keygen and the scripts that operators run: what is refused, and how."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not shutil.which("ssh-keygen"), reason="ssh-keygen: found none; apt-get install openssh-client"
)
IMAGE = "dsv4-pd:97.1.0"
FILES = {
    "image-name": f"{IMAGE}\n",
    "image-id": "sha256:c0f1\nsha256:3a4f\n",
    "image-digests": f"registry.example/dsv4-pd@sha256:{'d' * 64}\n",
    "image.tar": "layers",
    "compose.yaml": "services: {}\n",
    "compose.gpus.yaml": "services: {}\n",
    ".env.example": "#DSV4_IMAGE=\nCOMPOSE_PROFILES=gpu\n",
    "sbom.cdx.json": "{}",
    "provenance.json": "{}",
    "config/monitoring/rules.yml": "groups: []\n",
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`release` and `other`, and what a host trusts: the first."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("release", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    (folder / "signers").write_text(f"# ours\n{trusted(folder / 'release.pub')}\n")
    return folder


def trusted(public: Path, options: str = 'namespaces="dsv4-pd-release"') -> str:
    return f"dsv4-pd {options} {public.read_text().strip()}"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """As docker/bundle.sh leaves it."""
    folder = tmp_path / "dist/dsv4-pd-97.1.0"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("install.sh", "verify.sh"):
        shutil.copy(ROOT / "docker" / name, folder / name)
    listed(folder)
    return folder


def listed(folder: Path) -> None:
    others = "-type f ! -path ./SHA256SUMS ! -path ./SHA256SUMS.sig"
    script = f"find . {others} -print0 | sort -z | xargs -0 sha256sum > SHA256SUMS"
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)


@pytest.fixture
def signed(bundle: Path, keys: Path) -> Path:
    done = sign(bundle, keys / "release", keys / "signers")
    assert done.returncode == 0, done.stderr
    return bundle


def call(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def sign(bundle: Path, key: Path | str, signers: Path) -> subprocess.CompletedProcess[str]:
    return call("make", "-s", "sign", f"BUNDLE={bundle}", f"KEY={key}", f"SIGNERS={signers}")


def verify(bundle: Path, signers: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return call(ROOT / "docker/verify.sh", "--signers", signers, *more, bundle)


def test_what_was_signed_is_accepted_with_the_key_that_signed_it(signed: Path, keys: Path) -> None:
    done = verify(signed, keys / "signers")
    assert done.returncode == 0, done.stderr
    shown = call("ssh-keygen", "-lf", keys / "release.pub").stdout.split()[1]
    assert f"signed with ED25519 key {shown}" in done.stdout and "every file is as listed" in done.stdout


def test_the_two_commands_of_the_page_say_the_same(signed: Path, keys: Path) -> None:
    """Whoever trusts no script of the folder types these; docs/releasing.md has them word for word."""
    commands = [
        "ssh-keygen -Y verify -f release-signers -I dsv4-pd -n dsv4-pd-release -s SHA256SUMS.sig < SHA256SUMS",
        "sha256sum --quiet -c SHA256SUMS",
    ]
    page = (ROOT / "docs/releasing.md").read_text()
    assert all(command in page for command in commands)
    shutil.copy(keys / "signers", signed / "release-signers")
    done = subprocess.run([" && ".join(commands)], shell=True, cwd=signed, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and 'Good "dsv4-pd-release" signature for dsv4-pd' in done.stdout, done.stderr


def flip(path: Path) -> None:
    """One bit of one byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def rewrite(path: Path, folder: Path) -> None:
    """As someone would who can also make the list again."""
    path.write_text("services: {evil: {}}\n")
    listed(folder)


def link(path: Path, elsewhere: Path) -> None:
    """The same content, which can still change after it was checked."""
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "a byte of the image": (lambda f: flip(f / "image.tar"), ("./image.tar: FAILED", "copy the release again")),
    "a byte of a nested file": (
        lambda f: flip(f / "config/monitoring/rules.yml"), ("./config/monitoring/rules.yml: FAILED",)
    ),
    "a byte of the list": (lambda f: flip(f / "SHA256SUMS"), ("it is not what was signed",)),
    "file and list together": (
        lambda f: rewrite(f / "compose.yaml", f), ("it is not what was signed",)
    ),
    "no signature": (lambda f: (f / "SHA256SUMS.sig").unlink(), ("SHA256SUMS.sig: found none", "--unsigned")),
    "a signature that is none": (lambda f: (f / "SHA256SUMS.sig").write_text("x"), ("it is not what was signed",)),
    "no list": (lambda f: (f / "SHA256SUMS").unlink(), ("SHA256SUMS: found none",)),
    "a file less": (lambda f: (f / ".env.example").unlink(), ("./.env.example",)),
    "a file more": (
        lambda f: (f / "compose.override.yaml").write_text("services: {}\n"),
        ("./compose.override.yaml: found beside the release", "remove it"),
    ),
    "a list of its own further down": (
        lambda f: (f / "config/SHA256SUMS").write_text("x"), ("./config/SHA256SUMS: found beside the release",)
    ),
    "a link in place of a file": (
        lambda f: link(f / "compose.yaml", f.parent / "elsewhere"),
        ("./compose.yaml: found no plain file",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused_by_name_and_nothing_is_loaded(signed: Path, keys: Path, tmp_path: Path, name: str) -> None:
    change, words = CHANGES[name]
    change(signed)
    done = verify(signed, keys / "signers")
    assert done.returncode == 1 and done.stderr.startswith("verify: "), done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    asked = engine(tmp_path)
    again = call(signed / "install.sh", "--signers", keys / "signers", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert again.returncode == 1 and not asked.exists() and not (signed / ".env").exists()


def test_another_key_is_refused_with_its_name(bundle: Path, keys: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.write_text(trusted(keys / "other.pub"))
    assert sign(bundle, keys / "other", both).returncode == 0
    done = verify(bundle, keys / "signers")
    other = call("ssh-keygen", "-lf", keys / "other.pub").stdout.split()[1]
    assert done.returncode == 1 and other in done.stderr and "don't install this" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "options", ['namespaces="git"', 'namespaces="dsv4-pd-release",valid-before="20200101"'], ids=["use", "time"]
)
def test_a_key_for_another_use_or_time_is_refused(signed: Path, keys: Path, tmp_path: Path, options: str) -> None:
    (tmp_path / "signers").write_text(trusted(keys / "release.pub", options))
    done = verify(signed, tmp_path / "signers")
    assert done.returncode == 1 and "still valid" in done.stderr, done.stderr


def test_a_signature_for_another_use_is_refused(bundle: Path, keys: Path) -> None:
    """The same key signs commits and tags: such a signature must not pass for a release's."""
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", keys / "release", "-n", "git", bundle / "SHA256SUMS"], check=True
    )
    done = verify(bundle, keys / "signers")
    assert done.returncode == 1 and "it is not what was signed" in done.stderr


def test_a_host_that_trusts_nobody_is_told_what_to_do(signed: Path, tmp_path: Path) -> None:
    done = verify(signed, tmp_path / "away")
    assert done.returncode == 1 and f"{tmp_path}/away: found none" in done.stderr and "another way" in done.stderr
    done = verify(signed, ROOT / "docker/release-signers")
    if not [line for line in (ROOT / "docker/release-signers").read_text().splitlines() if line[:1] not in ("", "#")]:
        assert done.returncode == 1 and "found no key in it" in done.stderr


def test_without_the_tool_it_says_what_to_install(signed: Path, keys: Path, tmp_path: Path) -> None:
    few = tmp_path / "bin"
    few.mkdir()
    for name in ("sh", "dirname", "grep", "find", "awk", "head", "sha256sum", "cat"):
        (few / name).symlink_to(str(shutil.which(name)))
    done = call(ROOT / "docker/verify.sh", "--signers", keys / "signers", signed, PATH=str(few))
    assert done.returncode == 1 and "apt-get install openssh-client" in done.stderr, done.stderr


@pytest.mark.parametrize("missing", ["sbom.cdx.json", "provenance.json", "image-id"])
def test_a_release_that_lacks_a_part_is_not_signed(bundle: Path, keys: Path, missing: str) -> None:
    (bundle / missing).unlink()
    listed(bundle)
    done = sign(bundle, keys / "release", keys / "signers")
    assert done.returncode == 2 and f"sign: {missing}: found none in" in done.stderr
    assert not (bundle / "SHA256SUMS.sig").exists()


def test_what_no_host_would_accept_is_not_signed(bundle: Path, keys: Path, tmp_path: Path) -> None:
    done = sign(bundle, keys / "other", keys / "signers")
    assert done.returncode == 2 and "does not trust" in done.stderr and not (bundle / "SHA256SUMS.sig").exists()
    flip(bundle / "image.tar")
    done = sign(bundle, keys / "release", keys / "signers")
    assert done.returncode == 2 and "sign: a file differs" in done.stderr and not (bundle / "SHA256SUMS.sig").exists()


def test_signing_says_what_it_lacks(bundle: Path, keys: Path, tmp_path: Path) -> None:
    assert "sign: KEY: found nothing" in sign(bundle, "", keys / "signers").stderr
    assert f"sign: KEY: found no file {tmp_path}/no" in sign(bundle, tmp_path / "no", keys / "signers").stderr
    assert "run that first" in sign(tmp_path / "no", keys / "release", keys / "signers").stderr


def test_signing_again_replaces_the_signature(signed: Path, keys: Path) -> None:
    assert sign(signed, keys / "release", keys / "signers").returncode == 0
    assert verify(signed, keys / "signers").returncode == 0


# --- install.sh ---------------------------------------------------------------------------------------------------


def engine(folder: Path, found: str = "sha256:c0f1") -> Path:
    """A stand-in for `docker` that writes down what is asked. It hides what a real engine does with a tar:
    tests/image/test_new_host.py installs a bundle on one."""
    asked = folder / "asked"
    (folder / "bin").mkdir(exist_ok=True)
    script = f"""#!/bin/sh
case "$1" in load|pull) echo "$@" >> {asked} ;; image) echo {found} ;; esac
"""
    (folder / "bin/docker").write_text(script)
    (folder / "bin/docker").chmod(0o755)
    return asked


def install(bundle: Path, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return call(bundle / "install.sh", *words, PATH=f"{folder}/bin:{os.environ['PATH']}")


def test_a_signed_release_is_loaded_and_named_in_env(signed: Path, keys: Path, tmp_path: Path) -> None:
    asked = engine(tmp_path)
    done = install(signed, tmp_path, "--signers", keys / "signers")
    assert done.returncode == 0, done.stderr
    assert asked.read_text().split() == ["load", "-q", "-i", "image.tar"]
    assert (signed / ".env").read_text() == f"DSV4_IMAGE={IMAGE}\nCOMPOSE_PROFILES=gpu\n"
    again = install(signed, tmp_path, "--signers", keys / "signers")
    assert again.returncode == 0 and "kept the .env that is here, which no signature covers" in again.stdout


def test_without_its_tar_the_signed_digest_is_pulled(signed: Path, keys: Path, tmp_path: Path) -> None:
    (signed / "image.tar").unlink()
    asked = engine(tmp_path, "sha256:3a4f")
    done = install(signed, tmp_path, "--signers", keys / "signers")
    assert done.returncode == 0, done.stderr
    assert asked.read_text().split() == ["pull", "-q", FILES["image-digests"].strip()]
    assert f"DSV4_IMAGE={FILES['image-digests'].strip()}" in (signed / ".env").read_text()


def test_an_image_with_another_id_is_refused(signed: Path, keys: Path, tmp_path: Path) -> None:
    engine(tmp_path, "sha256:e711")
    done = install(signed, tmp_path, "--signers", keys / "signers")
    assert done.returncode == 1 and "has id sha256:e711, expected one of: sha256:c0f1 sha256:3a4f" in done.stderr
    assert not (signed / ".env").exists()


def test_one_s_own_build_installs_unsigned_with_a_word(bundle: Path, tmp_path: Path) -> None:
    engine(tmp_path)
    assert install(bundle, tmp_path).returncode == 1
    done = install(bundle, tmp_path, "--unsigned")
    assert done.returncode == 0 and "the signature is not looked at" in done.stderr


def test_a_word_that_is_none_is_refused(signed: Path) -> None:
    assert "verify: found --signer, expected --signers FILE" in call(signed / "verify.sh", "--signer").stderr
    assert "--signers: found nothing behind it" in call(signed / "verify.sh", "--signers").stderr

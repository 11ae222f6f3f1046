"""What git knows of the tree that is released."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Git:
    """One work tree."""

    root: Path

    def __call__(self, *arguments: str) -> str:
        """Output of a git command, without its last line break.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.rstrip("\n")

    def unclean(self) -> list[str]:
        """What is changed or untracked, as `git status --short` says it."""
        return self("status", "--porcelain").splitlines()

    def head(self) -> str:
        """The present commit."""
        return self("rev-parse", "HEAD")

    def tagged(self, tag: str) -> bool:
        """Whether there is such a tag."""
        return bool(self("tag", "--list", tag))

    def cut(self, version: str) -> str | None:
        """The commit that cut a release: by its subject, on the way to the present one."""
        wanted = subject(version)
        lines = self("log", "--format=%H %s", "--fixed-strings", f"--grep={wanted}").splitlines()
        return next((line[:40] for line in lines if line[41:] == wanted), None)

    def date(self, commit: str) -> str:
        """When it was committed, ISO 8601."""
        return self("log", "-1", "--format=%cI", commit)

    def text(self, commit: str, name: str) -> str:
        """A file as it was in a commit."""
        done = subprocess.run(
            ["git", "show", f"{commit}:{name}"], cwd=self.root, capture_output=True, text=True, check=True
        )
        return done.stdout

    def files(self, commit: str = "HEAD") -> list[str]:
        """Every file of a commit."""
        return self("ls-tree", "-r", "--name-only", commit).splitlines()

    def commit(self, names: list[str], message: str) -> str:
        """Commit these files, and nothing else; the new commit."""
        self("add", "--", *names)
        self("commit", "--quiet", "--only", "-m", message, "--", *names)
        return self.head()


def subject(version: str) -> str:
    """The subject of the commit that cuts a release."""
    return f"Release {version}"

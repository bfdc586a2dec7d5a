"""The Makefile explains itself."""

import re
import subprocess

from tests.support.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def targets() -> set[str]:
    """Return what can be asked for: every rule but the files and the special ones."""
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.M))


def test_every_target_is_phony() -> None:
    declared = re.findall(r"^\.PHONY:(.*)$", MAKEFILE, re.M)

    assert set(" ".join(declared).split()) == targets()


def test_make_alone_lists_every_target() -> None:
    help_text = subprocess.run(["make"], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    listed = re.findall(r"^  make ([a-z-]+) +\S", help_text, re.M)
    assert set(listed) == targets()

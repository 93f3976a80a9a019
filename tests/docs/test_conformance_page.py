"""The conformance page is what its tests come to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.console import ROOT


def test_the_conformance_page_is_what_a_run_of_its_tests_comes_to(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.claim", str(tmp_path / "conformance.md")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    committed = (ROOT / "docs" / "conformance.md").read_text()
    assert (tmp_path / "conformance.md").read_text() == committed, "run `python -m tests.conformance.claim`"

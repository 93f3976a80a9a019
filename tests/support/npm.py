"""Programs from npm that tests drive: pinned, installed once for all tests of a run, by the tests themselves."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

__all__ = ["CLAUDE_CODE", "CODEX", "INSPECTOR", "installed"]

CLAUDE_CODE = "@anthropic-ai/claude-code@2.1.197"
CODEX = "@openai/codex@0.171.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"

_SECONDS = 600


def installed(package: str) -> Path:
    """Install a package, unless an earlier run did, and return the folder of its programs.

    Where npm or its registry is missing, the test is skipped with the reason; in CI it fails instead.
    """
    npm = shutil.which("npm")
    if npm is None:
        _give_up("npm is not installed")
    folder = Path(tempfile.gettempdir()) / f"awr-npm-{os.getuid()}" / package.replace("/", "-").replace("@", "-")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    programs = folder / "node_modules" / ".bin"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "done").exists() and programs.is_dir():
            return programs
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--loglevel=error")
        done = subprocess.run(
            [str(npm), "install", *quiet, "--prefix", str(folder), package],
            env={**os.environ, "HOME": str(folder), "npm_config_cache": str(folder / "cache")},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode:
            _give_up(f"npm could not install {package}: {done.stderr[-400:]}")
        (folder / "done").touch()
    return programs


def _give_up(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(f"NOT TESTED: {reason}")

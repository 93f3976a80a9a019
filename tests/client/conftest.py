"""A project whose context is complete, and the loop of a host over each transport."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from awr.client import Workflow
from awr.project import Project
from tests.support.contexts import make_context_project
from tests.support.team import LEDGER

Open = Callable[..., Workflow]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "project", ledger=LEDGER)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """A program that is this very build, as one file that can be pinned."""
    path = tmp_path / "awr"
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom awr.surfaces.entry import main\nmain()\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def open_workflow(project: Project, tmp_path: Path) -> Open:
    """Open the loop on the test's project; with `binary`, over that program."""

    def opened(*, binary: Path | None = None, state: str = "loop/state.json", **changed: Any) -> Workflow:
        with project.journal.read() as reader:
            project_id = reader.project_id
        wanted: dict[str, Any] = {
            "project": project.root,
            "project_id": project_id,
            "state_path": tmp_path / state,
        }
        if binary is not None:
            digest = hashlib.sha256(binary.read_bytes()).hexdigest()
            wanted |= {"binary": binary, "sha256": digest, "version": version("awr")}
        return Workflow(**{**wanted, **changed})

    return opened

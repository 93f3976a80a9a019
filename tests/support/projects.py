"""Real projects in a temporary folder, with a clock that the test turns."""

from __future__ import annotations

from pathlib import Path

from awr.operations.session import StartRequest, start
from awr.project import Project
from awr.sources.index import refresh

__all__ = ["LEDGER", "Clock", "begin_session", "make_project", "revision"]

LEDGER = """\
goals:
  - id: goal-1
    title: Ship the parser
    status: active
work_items:
  - id: parse
    title: Parse input
    status: planned
    goal: goal-1
    next_action: Write the grammar
    acceptance:
      - Every sample parses
  - id: report
    title: Report errors
    status: planned
    depends_on: [parse]
  - id: release
    title: Release
    status: completed
"""

MANIFEST = """\
[project]
name = "demo"

[[sources]]
domain = "ledger"
role = "primary"
path = "work-ledger.yaml"
adapter = "yaml-ledger-v1"
"""


class Clock:
    """Unix milliseconds that move only when told to."""

    def __init__(self, now: int = 1_789_600_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def make_project(root: Path, *, ledger: str = LEDGER, clock: Clock | None = None) -> Project:
    """Initialize a project with one ledger and index it: revision 2."""
    root.mkdir(parents=True, exist_ok=True)
    (root / ".awr").mkdir()
    (root / ".awr" / "project.toml").write_text(MANIFEST)
    (root / "work-ledger.yaml").write_text(ledger)
    project = Project(root.resolve(), clock=clock or Clock())
    project.journal.create(name="demo", external_key=None)
    report = refresh(project)
    assert report.ok, report
    return project


def begin_session(project: Project, *, work: str | None = "parse", claim: bool = False) -> str:
    """Start a session and return its id."""
    request = StartRequest(
        agent="tester",
        provider="provider",
        model="model",
        work=work,
        claim=claim,
        expected_revision=revision(project),
    )
    return start(project, request).session.id


def revision(project: Project) -> int:
    """Return the project's revision."""
    with project.journal.read() as reader:
        return reader.project_revision

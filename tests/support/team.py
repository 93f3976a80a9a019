"""A team's service: two projects, and three clients with different grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from awr.project import Project
from tests.support.contexts import make_context_project
from tests.support.service import Agent, Running, registry_text, serving

__all__ = ["GRANTS", "WORK", "Serve", "Team", "served_team"]

GRANTS = {
    "ada": {"write": ["alpha", "beta"]},
    "bob": {"write": ["alpha"], "read": ["beta"]},
    "cyd": {"read": ["alpha"]},
}

#: The work item that each client works on.
WORK = {"ada": "parse", "bob": "report", "cyd": "audit"}

LEDGER = (
    """\
goals:
  - id: goal-1
    title: Ship the parser
    status: active
    success_criteria:
      - Every sample parses
work_items:
"""
    + "".join(
        f"""\
  - id: {work}
    title: Do the {work}
    status: planned
    goal: goal-1
    milestone: m-1
    next_action: Begin with the {work}
    paths: [src/{work}.py]
    tags: [core]
    acceptance:
      - It is done
"""
        for work in WORK.values()
    )
    + """\
milestones:
  - id: m-1
    title: First
    status: active
"""
)


class Team(msgspec.Struct, frozen=True):
    """Everything that a test of the service needs."""

    running: Running
    projects: dict[str, Project]
    registry: Path

    def agent(self, client: str, *, timeout: float = 30.0) -> Agent:
        """Return one client. Close it."""
        return Agent(self.running, client, timeout=timeout)


Serve = Callable[..., AbstractContextManager[Team]]


@contextmanager
def served_team(folder: Path, *, head: str = "", script: str | None = None) -> Iterator[Team]:
    """Make the projects and serve them until the block ends."""
    projects = {key: make_context_project(folder / key, ledger=LEDGER) for key in ("alpha", "beta")}
    registry = folder / "service.toml"
    registry.write_text(registry_text(projects, GRANTS, head=head))
    with serving(registry, clients=tuple(GRANTS), script=script) as running:
        yield Team(running, projects, registry)

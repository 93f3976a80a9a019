"""A project with rules, goals and dependencies, and the calls that tests of its context make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from awr.context.compile import WorkContext
from awr.operations.checkpoint import CheckpointRequest, checkpoint
from awr.operations.context import CompileRequest, CompileResult, compile
from awr.operations.event import AppendRequest, append
from awr.project import Project
from awr.sources.index import refresh
from tests.support.projects import Clock, revision

__all__ = ["LEDGER", "RULES", "compiled", "make_context_project", "note", "save", "shown", "write_source"]

LEDGER = """\
goals:
  - id: goal-1
    title: Ship the parser
    status: active
    summary: A parser that people trust.
    success_criteria:
      - Every sample parses
  - id: goal-2
    title: An old aim
    status: done
work_items:
  - id: lexer
    title: Lex input
    status: completed
    next_action: None
    acceptance: [Tokens come out]
  - id: grammar
    title: Agree on the grammar
    status: in_progress
    next_action: Ask
    acceptance: [Agreed]
  - id: parse
    title: Parse input
    status: planned
    goal: goal-1
    milestone: m-1
    summary: The grammar is small.
    next_action: Write the grammar
    paths: [src/grammar/rules.py]
    tags: [core]
    depends_on: [lexer, grammar]
    acceptance:
      - Every sample parses
      - Errors name their place
  - id: other
    title: Something else
    status: planned
    next_action: Begin
    acceptance: [Done]
milestones:
  - id: m-1
    title: First
    status: active
"""
RULES = """\
## Keep the tests green {#green severity=hard scope=project value=*}

Run the tests before every commit.

## Ask before the grammar changes {#grammar severity=hard scope=path value=src/grammar/}

## Short functions {#short severity=soft scope=project value=*}

About twenty lines.

## Where the samples are {#samples severity=info scope=tag value=core}

In the samples folder.

## Never touch the billing {#billing severity=hard scope=path value=src/billing/}
"""
_MANIFEST = """\
[project]
name = "demo"
context_profile = "{profile}"

[[sources]]
domain = "ledger"
role = "primary"
path = "work-ledger.yaml"
adapter = "yaml-ledger-v1"
"""
_RULES_SOURCE = """
[[sources]]
domain = "rules"
path = "RULES.md"
adapter = "markdown-rules-v1"
"""


def make_context_project(
    root: Path,
    *,
    ledger: str = LEDGER,
    rules: str | None = RULES,
    profile: str = "standard",
    clock: Clock | None = None,
) -> Project:
    """Initialize and index a project; `rules` of None leaves their source out."""
    (root / ".awr").mkdir(parents=True)
    manifest = _MANIFEST.format(profile=profile) + (_RULES_SOURCE if rules is not None else "")
    (root / ".awr" / "project.toml").write_text(manifest)
    (root / "work-ledger.yaml").write_text(ledger)
    if rules is not None:
        (root / "RULES.md").write_text(rules)
    project = Project(root.resolve(), clock=clock or Clock())
    project.journal.create(name="demo", external_key=None)
    refresh(project)
    return project


def compiled(project: Project, work: str | None = "parse", **fields: Any) -> CompileResult:
    """Compile a context."""
    return compile(project, CompileRequest(work=work, **fields))


def shown(project: Project, work: str | None = "parse", **fields: Any) -> WorkContext:
    """Compile a context that must be there."""
    context = compiled(project, work, **fields).work_context
    assert context is not None
    return context


def write_source(project: Project, name: str, old: str, new: str) -> None:
    """Replace a part of a source file that is there exactly once."""
    path = project.root / name
    text = path.read_text()
    assert text.count(old) == 1, f"{text.count(old)} times"
    path.write_text(text.replace(old, new))


def save(project: Project, session: str, **fields: Any) -> str:
    """Save a checkpoint and return its id."""
    given: dict[str, Any] = {
        "context_hash": "ab" * 32,
        "digest": "Grammar half written",
        "next_action": "Cover escapes",
        "open_loops": ("Ask about tabs",),
        **fields,
    }
    request = CheckpointRequest(session=session, expected_revision=revision(project), **given)
    return checkpoint(project, request).checkpoint.id


def note(project: Project, *, importance: str = "normal", summary: str = "A note", **fields: Any) -> int:
    """Append a caller's own event and return the project's revision."""
    request = AppendRequest(
        event_type="note.added",
        importance=importance,  # type: ignore[arg-type]
        summary=summary,
        expected_revision=revision(project),
        **fields,
    )
    return append(project, request).project_revision

"""Projects with ledgers of any size, the same for the same number: for measuring how a cost grows."""

from __future__ import annotations

import random
from pathlib import Path

from awr.project import Project
from awr.sources.index import refresh

__all__ = ["HARD_RULES", "SIZES", "ledger_texts", "make_ledger_project", "measured_task", "rules_text"]

SIZES = (150, 1_500, 15_000)
GOALS = 6
MILESTONES = 6
TASKS_PER_FILE = 5_000
#: Tasks need earlier ones of their group only, so that what must be walked does not grow with the ledger.
TASKS_PER_GROUP = 30

_MANIFEST = """\
[project]
name = "bench"
context_profile = "minimal"
"""
_SOURCE = """
[[sources]]
domain = "ledger"
role = "primary"
path = "ledger-{number}.yaml"
adapter = "yaml-ledger-v1"
"""
_RULES_SOURCE = """
[[sources]]
domain = "rules"
role = "primary"
path = "RULES.md"
adapter = "markdown-rules-v1"
"""
#: Rules that every task has to keep, word for word.
HARD_RULES = (
    "Run the whole suite before every commit. A red test is repaired, never skipped.",
    "Never write a secret, a machine's path or a person's words into the repository.",
)
_VERBS = ("Parse", "Measure", "Replace", "Describe", "Verify", "Record", "Split", "Restore", "Bound", "Explain")
_NOUNS = ("the grammar", "every limit", "the old index", "a broken source", "the write path", "stale claims")
_REASONS = ("so that a restart keeps it", "because two readers disagree", "before the next release", "for one host")


def measured_task(tasks: int) -> str:
    """Return the key of a task that is under way and depends on finished and unfinished work."""
    return f"task-{tasks - 5}"


def ledger_texts(tasks: int) -> list[str]:
    """Return the ledger files: about a quarter of all tasks open, each with acceptance and earlier work it needs.

    A file holds up to 5,000 tasks, because a source may have 4 MiB. The first one has the goals and milestones.
    """
    chance = random.Random(tasks)  # the same ledger for the same number
    files = []
    for first in range(1, tasks + 1, TASKS_PER_FILE):
        lines = _head(chance) if first == 1 else []
        lines.append("work_items:")
        for number in range(first, min(first + TASKS_PER_FILE, tasks + 1)):
            lines += _task(number, tasks, chance)
        files.append("\n".join(lines) + "\n")
    return files


def rules_text() -> str:
    """Return the file of rules: two hard ones for the whole project, and a soft one."""
    rules = [
        f"## Hard rule {number} {{#hard-{number} severity=hard scope=project value=*}}\n\n{text}\n"
        for number, text in enumerate(HARD_RULES, start=1)
    ]
    soft = "## Short functions {#short severity=soft scope=project value=*}\n\nAbout twenty lines.\n"
    return "\n".join([*rules, soft])


def make_ledger_project(root: Path, *, tasks: int) -> Project:
    """Make a project with such ledgers, indexed."""
    (root / ".awr").mkdir(parents=True)
    manifest = _MANIFEST
    for number, text in enumerate(ledger_texts(tasks), start=1):
        (root / f"ledger-{number}.yaml").write_text(text)
        manifest += _SOURCE.format(number=number)
    (root / "RULES.md").write_text(rules_text())
    manifest += _RULES_SOURCE
    (root / ".awr" / "project.toml").write_text(manifest)
    project = Project(root.resolve())
    project.journal.create(name="bench", external_key=None)
    report = refresh(project)
    assert report.ok, "a generated ledger is valid"
    return project


def _head(chance: random.Random) -> list[str]:
    lines = ["goals:"]
    for number in range(1, GOALS + 1):
        status = "active" if number <= 2 else "completed"
        lines += [
            f"  - id: goal-{number}",
            f"    title: {_sentence(chance)}",
            f"    status: {status}",
            f"    summary: {_sentence(chance)}. {_sentence(chance)}.",
            "    success_criteria:",
            f"      - {_sentence(chance)}",
        ]
    lines.append("milestones:")
    for number in range(1, MILESTONES + 1):
        lines += [f"  - id: m-{number}", f"    title: {_sentence(chance)}", "    status: active"]
    return lines


def _task(number: int, tasks: int, chance: random.Random) -> list[str]:
    open_from = tasks * 3 // 4
    status = "completed" if number <= open_from else "planned"
    if measured_task(tasks) == f"task-{number}":
        status = "in_progress"
    lines = [
        f"  - id: task-{number}",
        f"    title: {_sentence(chance)}",
        f"    status: {status}",
        f"    milestone: m-{number % MILESTONES + 1}",
        f"    goal: goal-{number % GOALS + 1}",
        f"    priority: P{number % 3}",
        f"    summary: {_sentence(chance)}. {_sentence(chance)}. {_sentence(chance)}.",
        f"    next_action: {_sentence(chance)}",
        "    acceptance:",
        *(f"      - {_sentence(chance)}" for _ in range(3)),
        f"    paths: [src/part_{number % 40}.py]",
    ]
    before = range(number - (number - 1) % TASKS_PER_GROUP, number)
    if before:
        needed = sorted({chance.choice(before), before[-1]})
        lines.append(f"    depends_on: [{', '.join(f'task-{one}' for one in needed)}]")
    return lines


def _sentence(chance: random.Random) -> str:
    return f"{chance.choice(_VERBS)} {chance.choice(_NOUNS)} {chance.choice(_REASONS)}"

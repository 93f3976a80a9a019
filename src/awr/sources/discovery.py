"""What `awr init` finds in a folder that has no manifest, and the ledger it writes for a goal in plain words."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError, InvalidInput, NotFound, SourceConflict
from awr.sources.document import top_level_collections
from awr.sources.files import YAML_LIMIT, Location, decode_utf8, read_location
from awr.sources.ledger import LEDGER_KEYS
from awr.sources.manifest import LEDGER_ADAPTER, Manifest, SourceMapping

__all__ = ["find_ledger", "find_ledgers", "ledger_manifest", "minimal_ledger"]

MAX_DEPTH = 12
MAX_FILES = 20_000
MAX_GOAL = 500

_SKIPPED_FOLDERS = frozenset({"node_modules", "target", "dist", "build", "venv"})
_SECRET_NAMES = ("credentials", "secrets")
_NAMED = 5


def find_ledger(root: Path) -> str:
    """Return the path of the only ledger under `root`, relative to it.

    Raise NotFound if there is none, SourceConflict if there are several, InvalidInput for a folder with more than
    20,000 files.
    """
    found = find_ledgers(root)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            "no ledger was found in this folder",
            got="no YAML file with goals, work_items or milestones",
            expected="one ledger",
            next_step="run awr init --goal TEXT to start with one goal, or --manifest FILE to name your sources",
        )
    named = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
    raise SourceConflict(
        f"several files look like the ledger: {named}",
        got=f"{len(found)} candidates",
        expected="one ledger",
        next_step="give --manifest FILE with the file that counts",
        candidates=list(found),
    )


def find_ledgers(root: Path) -> tuple[str, ...]:
    """Return the paths of all YAML files whose top level looks like a ledger, sorted, relative to `root`.

    Looks 12 folders deep and leaves out dot files, links, build and dependency folders and names that promise
    secrets. Whether the file is a valid ledger is not asked.
    """
    found: list[str] = []
    pending: list[tuple[str, ...]] = [()]
    files = 0
    while pending:
        folder = pending.pop()
        for entry in _entries(root.joinpath(*folder)):
            if _is_skipped(entry.name):
                continue
            parts = (*folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if len(parts) <= MAX_DEPTH and entry.name not in _SKIPPED_FOLDERS:
                    pending.append(parts)
                continue
            if not entry.is_file(follow_symlinks=False):
                continue
            files += 1
            if files > MAX_FILES:
                raise _too_many()
            if entry.name.lower().endswith((".yaml", ".yml")) and _looks_like_ledger(root, parts):
                found.append("/".join(parts))
    return tuple(sorted(found))


def ledger_manifest(name: str, *, path: str) -> Manifest:
    """Return the manifest of a project whose only source is one ledger."""
    return Manifest(
        name=name,
        # A ledger alone has no rules file; the standard profile would call its context incomplete.
        context_profile="minimal",
        sources=(SourceMapping(domain="ledger", role="primary", path=path, adapter=LEDGER_ADAPTER),),
    )


def minimal_ledger(goal: str) -> str:
    """Return the text of a ledger with one goal and one work item, from a person's sentence.

    Raise InvalidInput for blank text, control characters or more than 500 characters, RuleViolation for a secret.
    """
    sentence = goal.strip()
    problem = None
    if not sentence:
        problem = "blank text"
    elif len(sentence) > MAX_GOAL:
        problem = f"{len(sentence)} characters"
    elif not _is_one_line(sentence):
        problem = "text with a line break or a control character"
    if problem is not None:
        raise InvalidInput(
            "the goal must be one sentence",
            got=problem,
            expected=f"1 to {MAX_GOAL} characters on one line",
            next_step='say it in one sentence, as in --goal "Ship the parser"',
        )
    refuse_secrets(sentence, what="the goal")
    quoted = _quoted(sentence)
    return _TEMPLATE.format(goal=quoted)


_TEMPLATE = """\
# The ledger of this project. AWR reads it; you and your agents edit it.
#
# - Add work under work_items: each entry needs an id and a title.
# - status: draft, planned, ready, claimed, in_progress, blocked, completed or cancelled.
# - next_action is what an agent is told to do next. Keep it short and true.
# - depends_on: [task-1] makes an entry wait for another one.
#
# After an edit run: awr status

goals:
  - id: goal-1
    title: {goal}
    status: active

work_items:
  - id: task-1
    title: {goal}
    status: planned
    goal: goal-1
    next_action: Take the first step towards this goal, then write the next one here.
    acceptance:
      - The goal is reached and somebody has checked it.
"""


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        # A folder that cannot be listed holds no candidate that could be read.
        return []


def _is_skipped(name: str) -> bool:
    lower = name.lower()
    return (
        name.startswith(".")
        or lower.endswith((".pem", ".key"))
        or any(word in lower for word in _SECRET_NAMES)
        or not name.isprintable()
    )


def _looks_like_ledger(root: Path, parts: tuple[str, ...]) -> bool:
    locator = "/".join(parts)
    try:
        data = read_location(Location(root, parts, locator), limit=YAML_LIMIT).data
        # Most YAML files mention none of the keys; only the others are parsed.
        if not any(key.encode() in data for key in LEDGER_KEYS):
            return False
        text = decode_utf8(data, locator=locator)
    except AwrError:
        return False
    return next(top_level_collections(text, wanted=LEDGER_KEYS), None) is not None


def _too_many() -> InvalidInput:
    return InvalidInput(
        "this folder has too many files to search",
        got=f"more than {MAX_FILES} files",
        expected=f"at most {MAX_FILES} files",
        next_step="give --manifest FILE, or --goal TEXT to start with one goal",
    )


def _is_one_line(text: str) -> bool:
    return not any(unicodedata.category(character) in {"Cc", "Cs"} for character in text)


def _quoted(text: str) -> str:
    """Return a YAML double-quoted scalar; what YAML would fold or refuse is escaped."""
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in json.dumps(text, ensure_ascii=False)
    )

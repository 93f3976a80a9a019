"""Rules that a project writes down, and which of them hold for a piece of work.

What cannot be told from the facts is None and never a guess: a reader of a hard rule must be able to ask.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from awr.domain.work import WorkItem

__all__ = ["SCOPE_TYPES", "SEVERITIES", "Rule", "ScopeType", "Severity", "applies", "is_unresolved", "path_matches"]

Severity = Literal["hard", "soft", "info"]
ScopeType = Literal["project", "path", "tag", "work_item", "agent"]

SEVERITIES: tuple[Severity, ...] = ("hard", "soft", "info")
SCOPE_TYPES: tuple[ScopeType, ...] = ("project", "path", "tag", "work_item", "agent")

_ALL = "*"
_GLOB = re.compile(r"[*?\[\]{}\\]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MAX_SPELLINGS = 256


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule as its source states it. `text` is verbatim; `line` is 1-based. What is not stated is None."""

    external_key: str
    title: str
    line: int
    text: str = ""
    severity: Severity | None = None
    scope_type: ScopeType | None = None
    scope_value: str | None = None


def is_unresolved(rule: Rule) -> bool:
    """Tell whether the source leaves open how hard the rule is, or what it is about."""
    return rule.severity is None or rule.scope_type is None or rule.scope_value is None


def applies(
    rule: Rule, *, work: WorkItem, paths: Iterable[str] | None, tags: Iterable[str] | None, agent: str | None
) -> bool | None:
    """Tell whether a rule holds for this work, or None where that cannot be told from what is known.

    `paths` are the files the work touches: None means unknown, and then those of the work item count; an empty list
    is known to be empty. A path that is a pattern or a folder counts as unknown. Paths, tags and the agent that the
    caller names add to what the ledger states and never hide it.
    """
    value = rule.scope_value
    if value is None:
        return None
    if rule.scope_type == "project":
        # Another value than `*` names a project, and nothing here says which project this is.
        return True if value == _ALL else None
    if rule.scope_type == "path":
        return _touches(value, stated=None if paths is None else tuple(paths), known=work.paths)
    if rule.scope_type == "tag":
        return value in {*work.tags, *(tags or ())}
    if rule.scope_type == "work_item":
        return value == work.external_key
    if rule.scope_type == "agent":
        return None if agent is None else value == agent
    return None


def path_matches(pattern: str, path: str) -> bool | None:
    """Match a project-relative file against a glob: case-sensitive, `*` and `?` within one step, `**` across steps.

    A pattern that ends in `/` matches everything below that folder. `{a,b}` stands for either. None means that the
    pattern or the path cannot be decided: an escape, an open brace or too many of them, a path that is itself a
    pattern, a folder, or a place outside the project.
    """
    steps = _steps(path)
    spellings = _spellings(pattern)
    if steps is None or spellings is None:
        return None
    return any(_match(each, steps) for each in spellings)


def _touches(pattern: str, *, stated: tuple[str, ...] | None, known: tuple[str, ...]) -> bool | None:
    matches = {path: path_matches(pattern, path) for path in (*(stated or ()), *known)}
    if True in matches.values():
        return True
    decisive = known if stated is None else stated
    if (stated is None and not known) or any(matches[path] is None for path in decisive):
        return None
    return False


def _steps(path: str) -> tuple[str, ...] | None:
    if not path.strip() or path.startswith("/") or path.endswith("/") or _GLOB.search(path):
        return None
    steps = tuple(posixpath.normpath(path).split("/"))
    return None if steps[0] in {"..", "."} else steps


def _spellings(pattern: str) -> list[tuple[str, ...]] | None:
    """Return the pattern without braces, each spelling as its steps."""
    if "\\" in pattern or not pattern.strip():
        return None
    pending, found = [pattern], []
    while pending:
        text = pending.pop()
        braces = _BRACES.search(text)
        if braces is None:
            if "{" in text or "}" in text:
                return None
            found.append(text)
            continue
        pending += [text[: braces.start()] + each + text[braces.end() :] for each in braces[1].split(",")]
        if len(pending) + len(found) > _MAX_SPELLINGS:
            return None
    return [_pattern_steps(each) for each in found]


def _pattern_steps(pattern: str) -> tuple[str, ...]:
    inner = tuple(step for step in pattern.split("/") if step not in {"", "."})
    return (*inner, "**", "*") if pattern.endswith("/") else inner


def _match(pattern: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Match step by step. `open_at` holds how many steps of the path the pattern so far may have used."""
    open_at = {0}
    for position, step in enumerate(pattern):
        if step == "**":
            # At the end it stands for what lies below a folder, so for one step at least.
            least = 1 if position == len(pattern) - 1 and position > 0 else 0
            open_at = set(range(min(open_at) + least, len(steps) + 1)) if open_at else set()
        else:
            open_at = {used + 1 for used in open_at if used < len(steps) and fnmatchcase(steps[used], step)}
        if not open_at:
            return False
    return len(steps) in open_at

"""Chunks that are never cut, the sections they stand in, and the choice of those that fit a budget.

A chunk begins on a line of its own with "[" and every heading with "#", and no o200k_base token reaches across such a
line's beginning. So the parts' counts add up to exactly the count of the whole text, and each is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import msgspec

from awr.errors import BudgetExceeded, InvalidInput

__all__ = [
    "POLICY",
    "Chunk",
    "EntityRef",
    "OmittedChunk",
    "Pack",
    "Section",
    "SelectedChunk",
    "entities_of",
    "omitted",
    "pack",
    "quoted",
    "selected",
]

POLICY = "awr.whole_chunks.v1"
Section = Literal[
    "goal",
    "work",
    "acceptance",
    "rules",
    "dependencies",
    "decisions",
    "delta",
    "executions",
    "evidence",
    "metadata",
]
_ORDER: dict[Section, int] = {section: place for place, section in enumerate(get_args(Section))}
_TITLES: dict[Section, str] = {
    "goal": "Goal",
    "work": "Current Work",
    "acceptance": "Acceptance",
    "rules": "Rules",
    "dependencies": "Dependencies",
    "decisions": "Decisions",
    "delta": "Recent Delta",
    "executions": "Executions",
    "evidence": "Evidence",
    "metadata": "Metadata",
}


class EntityRef(msgspec.Struct, frozen=True, order=True):
    """Something a chunk speaks of, in the version it speaks of."""

    kind: str
    id: str
    revision: int


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One text that is shown whole or not at all.

    Optional chunks are tried by `priority` (lower first), then by `recency` (higher first). `passing` marks what
    tells of the time between two revisions rather than of the work: it is no part of a content hash.
    """

    key: str
    section: Section
    text: str
    required: bool = True
    priority: int = 0
    recency: int = 0
    entities: tuple[EntityRef, ...] = ()
    passing: bool = False


class SelectedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that is in the text."""

    key: str
    section: Section
    required: bool
    entities: tuple[EntityRef, ...]


class OmittedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that did not fit."""

    key: str
    section: Section
    entities: tuple[EntityRef, ...]
    reason: Literal["insufficient_budget_for_whole_chunk"] = "insufficient_budget_for_whole_chunk"


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """The text, what it costs, and which chunks are in it and which are not."""

    rendered_context: str
    token_estimate: int
    required_tokens: int
    selected: tuple[Chunk, ...]
    omitted: tuple[Chunk, ...]


def pack(header: str, chunks: Sequence[Chunk], *, budget: int, count: Callable[[str], int]) -> Pack:
    """Choose whole chunks for a budget of tokens and render them. `header` ends with a line break.

    Every required chunk is in. Raise BudgetExceeded when these alone do not fit, and InvalidInput for a key that
    stands twice in a section or an entity in two versions.
    """
    _require_consistent(chunks)
    headings: dict[Section, int] = {}
    chosen = [chunk.required for chunk in chunks]
    body = count(header)
    for chunk in chunks:
        if chunk.required:
            body += _cost(chunk, headings, count)
    left = len(chunks) - sum(chosen)
    required_tokens = body + count(_footer(left))
    if required_tokens > budget:
        raise BudgetExceeded(required=required_tokens, budget=budget)
    optional = [place for place, chunk in enumerate(chunks) if not chunk.required]
    for place in sorted(optional, key=lambda place: _preference(chunks[place])):
        cost = _cost(chunks[place], trial := dict(headings), count)
        if body + cost + count(_footer(left - 1)) <= budget:
            body += cost
            left -= 1
            headings = trial
            chosen[place] = True
    inside = sorted((c for c, taken in zip(chunks, chosen, strict=True) if taken), key=lambda c: _ORDER[c.section])
    return Pack(
        rendered_context=_rendered(header, inside, left),
        token_estimate=body + count(_footer(left)),
        required_tokens=required_tokens,
        selected=tuple(inside),
        omitted=tuple(chunk for chunk, taken in zip(chunks, chosen, strict=True) if not taken),
    )


def selected(chunks: Iterable[Chunk]) -> tuple[SelectedChunk, ...]:
    """Return what a report says of chunks that are in the text."""
    return tuple(
        SelectedChunk(key=chunk.key, section=chunk.section, required=chunk.required, entities=chunk.entities)
        for chunk in chunks
    )


def omitted(chunks: Iterable[Chunk]) -> tuple[OmittedChunk, ...]:
    """Return what a report says of chunks that did not fit."""
    return tuple(OmittedChunk(key=chunk.key, section=chunk.section, entities=chunk.entities) for chunk in chunks)


def entities_of(chunks: Iterable[Chunk]) -> tuple[EntityRef, ...]:
    """Return every entity that the chunks speak of, once, in order."""
    return tuple(sorted({entity for chunk in chunks for entity in chunk.entities}))


def quoted(text: str) -> str:
    """Mark the further lines of a text that an agent wrote, so that none of them can pass for a heading."""
    return "\n> ".join(text.splitlines())


def _cost(chunk: Chunk, headings: dict[Section, int], count: Callable[[str], int]) -> int:
    """Count a chunk, with its section's heading where it is the first. `headings` learns the section."""
    cost = count(_shown(chunk))
    if chunk.section not in headings:
        headings[chunk.section] = count(_heading(chunk.section))
        cost += headings[chunk.section]
    return cost


def _preference(chunk: Chunk) -> tuple[int, int, int, str]:
    return (chunk.priority, -chunk.recency, _ORDER[chunk.section], chunk.key)


def _rendered(header: str, chunks: Sequence[Chunk], left: int) -> str:
    parts = [header]
    section = None
    for chunk in chunks:
        if chunk.section != section:
            section = chunk.section
            parts.append(_heading(section))
        parts.append(_shown(chunk))
    return "".join([*parts, _footer(left)])


def _heading(section: Section) -> str:
    return f"## {_TITLES[section]}\n"


def _shown(chunk: Chunk) -> str:
    lines = [f"[{chunk.key}]", *(f"{each.kind}:{each.id}@r{each.revision}" for each in chunk.entities), chunk.text]
    return "\n".join(lines) + "\n"


def _footer(left: int) -> str:
    return f"Optional chunks omitted: x{left}\n"


def _require_consistent(chunks: Sequence[Chunk]) -> None:
    keys: set[tuple[str, str]] = set()
    versions: dict[tuple[str, str], int] = {}
    for chunk in chunks:
        place = (chunk.section, chunk.key)
        clash = any(versions.setdefault((e.kind, e.id), e.revision) != e.revision for e in chunk.entities)
        if place in keys or clash:
            raise InvalidInput(
                "a context cannot be built from these chunks",
                got="an entity in two versions" if clash else "one key twice in a section",
                expected="each key once in a section, each entity in one version",
                next_step="run awr source reindex, then compile again",
            )
        keys.add(place)

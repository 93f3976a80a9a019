"""The Markdown adapters: one goal, plan or rule per heading, `markdown-heading-v1` and `markdown-rules-v1`.

A heading may carry attributes: `## Keep the tests green {#green severity=hard scope=project value=*}`. The text
below it, up to the next heading, belongs to it word for word. Code blocks and comments hold no headings. A heading
without attributes and without text of its own that only opens a section with deeper headings is a title, no entity.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import cast

import msgspec

from awr.domain.rules import SCOPE_TYPES, SEVERITIES, Rule, ScopeType, Severity
from awr.domain.work import Goal, Plan
from awr.errors import InvalidInput, SourceConflict
from awr.sources.document import Place
from awr.sources.files import decode_utf8
from awr.sources.ledger import Ledger, refuse_secret_text
from awr.sources.manifest import HEADING_ATTRIBUTES, MarkdownOptions

__all__ = ["parse_headings"]

_MAX_KEY_BYTES = 512
_CHOICES: dict[str, tuple[str, ...]] = {"severity": SEVERITIES, "scope": SCOPE_TYPES}
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")
_FENCE = re.compile(r"( {0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})(.*)\Z")
_OTHER_BLOCK = re.compile(r" {0,3}(?:[>|]|[-*+](?:[ \t]|\Z)|\d{1,9}[.)](?:[ \t]|\Z))")
_INDENTED = re.compile(r" {0,3}\t| {4}")
_RAW_HTML = re.compile(r" {0,3}<(!--|pre\b|script\b|style\b|textarea\b)", re.IGNORECASE)
_BLOCK_START = re.compile(r"[ \t]*(?:#|[\w-]+[ \t]*=)")
_ATTRIBUTE = re.compile(
    r"[ \t]*(?:#(?P<anchor>[^\s{}\"'#=]+)|(?P<name>[\w-]+)=(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^\s\"]+)))(?=[ \t]|\Z)"
)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]")


class _Heading(msgspec.Struct, frozen=True):
    """One heading with its attributes and the text that belongs to it."""

    title: str
    level: int
    line: int
    anchor: str | None
    attributes: dict[str, str]
    text: str


def parse_headings(data: bytes, *, locator: str, domain: str, options: MarkdownOptions) -> Ledger:
    """Return what the headings state: goals, plans or rules, by `domain`, in file order.

    Raise InvalidInput with the place for anything malformed and for text without any heading, SourceConflict for an
    anchor that stands twice, and RuleViolation if the text holds a secret. No error repeats a value.
    """
    text = decode_utf8(data, locator=locator).replace("\r\n", "\n").replace("\r", "\n")
    refuse_secret_text(text, locator=locator)
    _refuse_control(text, locator=locator)
    reader = _Reader(locator=locator, known=HEADING_ATTRIBUTES[domain])
    headings = reader.headings(text)
    anchors = reader.anchors(headings)
    prefix = options.key_prefix if options.key_prefix is not None else locator
    found = [
        (reader.key(prefix, anchor, heading), heading)
        for anchor, heading, following in zip(anchors, headings, [*headings, None][1:], strict=True)
        if not _is_title(heading, following)
    ]
    return Ledger(
        goals=tuple(_goal(key, heading, options) for key, heading in found) if domain == "goal" else (),
        milestones=tuple(_plan(key, heading, options) for key, heading in found) if domain == "plan" else (),
        rules=tuple(_rule(key, heading, options) for key, heading in found) if domain == "rules" else (),
        work_items=(),
        edges=(),
        warnings=(),
    )


def _is_title(heading: _Heading, following: _Heading | None) -> bool:
    bare = heading.anchor is None and not heading.attributes and not heading.text
    return bare and following is not None and following.level > heading.level


def _goal(key: str, heading: _Heading, options: MarkdownOptions) -> Goal:
    return Goal(
        external_key=key,
        title=heading.title,
        line=heading.line,
        status=heading.attributes.get("status") or options.status or "unknown",
        priority=heading.attributes.get("priority") or options.priority,
        summary=heading.text or None,
    )


def _plan(key: str, heading: _Heading, options: MarkdownOptions) -> Plan:
    return Plan(
        external_key=key,
        title=heading.title,
        line=heading.line,
        kind="plan",
        status=heading.attributes.get("status") or options.status or "unknown",
        summary=heading.text or None,
    )


def _rule(key: str, heading: _Heading, options: MarkdownOptions) -> Rule:
    stated = heading.attributes
    # A scope and its value are one statement: a heading with a scope of its own does not borrow another's value.
    borrowed = None if "scope" in stated else options.value
    return Rule(
        external_key=key,
        title=heading.title,
        line=heading.line,
        text=heading.text,
        severity=cast("Severity | None", stated.get("severity", options.severity)),
        scope_type=cast("ScopeType | None", stated.get("scope", options.scope)),
        scope_value=stated.get("value", borrowed),
    )


class _Reader:
    """Reads one file; its errors know where they are."""

    def __init__(self, *, locator: str, known: tuple[str, ...]) -> None:
        self._locator = locator
        self._known = known

    def headings(self, text: str) -> list[_Heading]:
        lines = text.split("\n")
        marks = list(_marks(lines))
        if not marks and text.strip():
            raise self._at(1).error(
                InvalidInput,
                "the source has text and no heading",
                rule="markdown.no_heading",
                got="text that belongs to no heading",
                expected="a heading for each goal, plan or rule",
                repair="put a heading such as '## Title' above the text",
            )
        ends = [*(start for start, *_ in marks), len(lines)][1:]
        return [
            self._heading(title, level=level, line=start + 1, text="\n".join(lines[body:end]))
            for (start, body, level, title), end in zip(marks, ends, strict=True)
        ]

    def anchors(self, headings: list[_Heading]) -> list[str]:
        """Return every heading's anchor: its own, or one made from its title that no other heading has."""
        taken: dict[str, int] = {}
        for heading in headings:
            if heading.anchor is None:
                continue
            if (first := taken.setdefault(heading.anchor, heading.line)) != heading.line:
                raise self._at(heading.line).error(
                    SourceConflict,
                    "two headings have the same anchor",
                    rule="markdown.duplicate_anchor",
                    got=f"the anchor of the heading in line {first}",
                    expected="each anchor once",
                    repair="give one of the two another anchor",
                )
        following: dict[str, int] = {}
        found = []
        for heading in headings:
            anchor = heading.anchor
            if anchor is None:
                anchor = slug = _slug(heading.title)
                while anchor in taken:
                    following[slug] = following.get(slug, 1) + 1
                    anchor = f"{slug}-{following[slug]}"
                taken[anchor] = heading.line
            found.append(anchor)
        return found

    def key(self, prefix: str, anchor: str, heading: _Heading) -> str:
        key = f"{prefix}#{anchor}"
        if (size := len(key.encode())) <= _MAX_KEY_BYTES:
            return key
        raise self._at(heading.line).error(
            InvalidInput,
            "the key of a heading is too long",
            rule="markdown.key",
            got=f"{size} bytes",
            expected=f"at most {_MAX_KEY_BYTES} bytes",
            repair="give the heading a short anchor, such as {#short-name}",
        )

    def _heading(self, title: str, *, level: int, line: int, text: str) -> _Heading:
        shown, block = _divided(title)
        anchor, attributes = (None, {}) if block is None else self._attributes(block, line=line)
        if not shown:
            raise self._at(line).error(
                InvalidInput,
                "a heading has no title",
                rule="markdown.empty_heading",
                got="a heading without text",
                expected="a title",
                repair="write a title, or remove the heading",
            )
        return _Heading(shown, level, line, anchor, attributes, text.strip("\n").rstrip())

    def _attributes(self, block: str, *, line: int) -> tuple[str | None, dict[str, str]]:
        anchor: str | None = None
        found: dict[str, str] = {}
        position = 0
        while position < len(block):
            match = _ATTRIBUTE.match(block, position)
            if match is None:
                raise self._malformed(line, got="a part that is neither #anchor nor name=value")
            position = match.end()
            if match["anchor"] is not None:
                if anchor is not None:
                    raise self._malformed(line, got="two anchors")
                anchor = match["anchor"]
                continue
            name = match["name"]
            if name not in self._known or name in found:
                raise self._malformed(line, got="a name twice" if name in found else "a name that is not known")
            found[name] = self._value(name, match["quoted"] if match["bare"] is None else match["bare"], line=line)
        return anchor, found

    def _value(self, name: str, value: str, *, line: int) -> str:
        choices = _CHOICES.get(name)
        if value.strip() and (choices is None or value in choices) and len(value.encode()) <= _MAX_KEY_BYTES:
            return value
        raise self._at(line).error(
            InvalidInput,
            f"the attribute {name} of a heading has a value that is not allowed",
            rule="markdown.attribute_value",
            got=f"a text of {len(value.encode())} bytes",
            expected=", ".join(choices) if choices else f"1 to {_MAX_KEY_BYTES} bytes, not blank",
            repair=f"correct the value of {name}",
        )

    def _malformed(self, line: int, *, got: str) -> InvalidInput:
        return self._at(line).error(
            InvalidInput,
            "the attributes of a heading are malformed",
            rule="markdown.attributes",
            got=got,
            expected="{#anchor name=value ...} with " + ", ".join(self._known),
            repair="correct the attributes in braces at the end of the heading",
        )

    def _at(self, line: int) -> Place:
        return Place(self._locator, "", line, 1)


def _refuse_control(text: str, *, locator: str) -> None:
    found = _CONTROL.search(text)
    if found is not None:
        line_start = text.rfind("\n", 0, found.start()) + 1
        place = Place(locator, "", text.count("\n", 0, found.start()) + 1, found.start() - line_start + 1)
        raise place.error(
            InvalidInput,
            "the source holds a control character",
            rule="markdown.text",
            got="a control character",
            expected="text with line breaks and tabs at most",
            repair="remove the character",
        )


def _marks(lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Yield every heading: its first line, the first line below it (both from 0), its level and its words."""
    # The lines of an open paragraph, which an underline makes a heading of; None within a list, a quote or a table.
    paragraph: list[str] | None = []
    position = _after_front_matter(lines)
    while position < len(lines):
        line = lines[position]
        behind = _after_block(lines, position)
        if behind is not None:
            paragraph, position = [], behind
            continue
        heading, underline = _HEADING.match(line), _UNDERLINE.match(line)
        position += 1
        if heading is not None:
            yield position - 1, position, len(heading[1]), _without_closing(line[heading.end() :])
            paragraph = []
        elif underline is not None and paragraph:
            yield position - 1 - len(paragraph), position, 1 if underline[1][0] == "=" else 2, " ".join(paragraph)
            paragraph = []
        elif not line.strip() or underline is not None:
            paragraph = []
        elif paragraph is not None:
            starts = _OTHER_BLOCK.match(line) or (not paragraph and _INDENTED.match(line))
            paragraph = None if starts else [*paragraph, line.strip()]


def _without_closing(words: str) -> str:
    """Return the words of a heading without the hashes that may close it."""
    words = words.strip(" \t")
    open_end = words.rstrip("#")
    return open_end.rstrip(" \t") if not open_end or open_end[-1] in " \t" else words


def _divided(title: str) -> tuple[str, str | None]:
    """Return a heading's title, and what stands in the braces at its end if that is meant as attributes."""
    depth = 0
    for position in range(len(title) - 1, -1, -1) if title.endswith("}") else ():
        depth += {"}": 1, "{": -1}.get(title[position], 0)
        if depth == 0:
            inner = title[position + 1 : -1].strip(" \t")
            if (position == 0 or title[position - 1] in " \t") and _BLOCK_START.match(inner):
                return _without_closing(title[:position]), inner
            break
    return title, None


def _after_front_matter(lines: list[str]) -> int:
    if lines[0].rstrip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines[1:], start=1) if line.rstrip() in {"---", "..."}), 0)


def _after_block(lines: list[str], start: int) -> int | None:
    """Return the line behind a code block or raw HTML that begins here, or None."""
    fence = _FENCE.match(lines[start])
    if fence is not None and not (fence[2][0] == "`" and "`" in fence[3]):
        return _after_fence(lines, start, fence[2], indent=len(fence[1].expandtabs(4)))
    raw = _RAW_HTML.match(lines[start])
    if raw is None:
        return None
    end = "-->" if raw[1] == "!--" else f"</{raw[1].lower()}>"
    for number in range(start, len(lines)):
        if end in lines[number].lower():
            return number + 1
    return len(lines)


def _after_fence(lines: list[str], start: int, mark: str, *, indent: int) -> int:
    closing = re.compile(rf"[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\Z")
    in_list = lines[start].lstrip(" ")[0] != mark[0]
    for number in range(start + 1, len(lines)):
        line = lines[number].expandtabs(4)
        if in_list and line.strip() and len(line) - len(line.lstrip()) < indent:
            # The list ended, and the code block in it with it.
            return number
        if closing.match(line):
            return number + 1
    return len(lines)


def _slug(title: str) -> str:
    lower = unicodedata.normalize("NFC", title).lower()
    return _NOT_IN_SLUG.sub("", lower).strip().replace(" ", "-") or "section"

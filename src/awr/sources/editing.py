"""Lossless edits of a YAML ledger: one entry changes or one is added, and every other byte stays.

An edit replaces the characters of a value or adds lines beside it; comments, quotes, order and indentation of the
rest are never written again. The result is read back and compared with the intended change before anybody may use
it. What cannot be edited so, is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from awr.domain.work import WorkItem
from awr.errors import MutationUnsupported
from awr.sources.files import YAML_LIMIT, decode_utf8
from awr.sources.ledger import Ledger, parse_ledger
from awr.sources.manifest import LedgerOptions
from awr.sources.scalars import NULLS, double_quoted, flow_listing, scalar
from awr.sources.spans import Span, spans_of

__all__ = ["EntryEdit", "edited_ledger", "extended_ledger"]

_MARK = b"\xef\xbb\xbf"
_ID_NAMES = ("id", "external_key")


class EntryEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What to change in one work item, by canonical field names.

    In `fields` a text is written and None clears: a field that stands there becomes null, a missing one stays so.
    `add_evidence` has locators; those that stand there already are not repeated.
    """

    fields: dict[str, str | None] = {}
    add_evidence: tuple[str, ...] = ()
    evidence_level: str | None = None


def edited_ledger(data: bytes, *, locator: str, options: LedgerOptions, key: str, edit: EntryEdit) -> bytes:
    """Return the ledger with one work item edited.

    Raise MutationUnsupported when that cannot be done without touching anything else, and what parse_ledger raises
    for a result that is no good ledger.
    """
    page = _Page(data, locator=locator, options=options)
    entry = page.entry(key)
    expected = _plain(page.root)
    item = _plain_entry(expected, page, key)
    for field, value in edit.fields.items():
        name = options.field_map.get(field, field)
        written = page.spelling(value) if field == "status" and value is not None else value
        if written is None and entry.value(name) is None:
            continue
        page.set_text(entry, name, written)
        item[name] = written
    if edit.add_evidence:
        page.add_evidence(entry, item, edit.add_evidence)
    if edit.evidence_level is not None:
        page.set_level(entry, item, edit.evidence_level)
    return _verified(page, expected, key=key, fields=edit.fields, within=page.lines_of(entry))


def extended_ledger(
    data: bytes,
    *,
    locator: str,
    options: LedgerOptions,
    key: str,
    fields: Mapping[str, str | tuple[str, ...]],
) -> bytes:
    """Return the ledger with one more work item behind the others. `fields` has canonical names in order."""
    page = _Page(data, locator=locator, options=options)
    expected = _plain(page.root)
    named = {
        options.field_map.get(field, field): page.spelling(value) if field == "status" else value
        for field, value in fields.items()
    }
    page.add_entry(expected, key, named)
    texts = {field: value for field, value in fields.items() if isinstance(value, str)}
    return _verified(page, expected, key=key, fields=texts, within=None)


class _Page:
    """The text of one ledger, its spans, and the replacements planned in it."""

    def __init__(self, data: bytes, *, locator: str, options: LedgerOptions) -> None:
        self.data = data
        self.locator = locator
        self.options = options
        self.text = decode_utf8(data, locator=locator)
        self.newline = "\r\n" if "\r\n" in self.text else "\n"
        self._ledger: Ledger | None = None
        root = spans_of(self.text)
        if root is None or root.kind != "table":
            raise self.unsupported("a ledger without a map at its top")
        self.root = root
        self.plans: list[tuple[int, int, str]] = []

    def unsupported(self, got: str) -> MutationUnsupported:
        return MutationUnsupported(
            "this ledger cannot be edited without touching what stands around the edit",
            got=got,
            expected="the work item as a plain map of fields, without anchors",
            next_step="edit the file by hand, then run awr source reindex",
            location={"locator": self.locator},
        )

    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self.parse(self.data)
        return self._ledger

    def parse(self, data: bytes) -> Ledger:
        options = self.options
        return parse_ledger(data, locator=self.locator, field_map=options.field_map, status_map=options.status_map)

    def entry(self, key: str) -> Span:
        """Return the fields of a work item."""
        section = self.root.value("work_items")
        found = None
        if section is not None and section[1].kind == "table":
            found = section[1].value(key)
        elif section is not None:
            found = next(((each, each) for each in section[1].items if self._id_of(each) == key), None)
        if section is None or found is None or found[1].kind != "table":
            raise self.unsupported("an entry that is not written out where the work items stand")
        self.refuse_anchors(self.root, section[1], found[1])
        return found[1]

    def refuse_anchors(self, *spans: Span) -> None:
        if any(span.anchored for span in spans):
            raise self.unsupported("an anchor, whose aliases would change too")

    def spelling(self, status: Any) -> str:
        """Return how this ledger writes a canonical status: its own spelling where the map gives it one."""
        own = [spelling for spelling, canonical in self.options.status_map.items() if canonical == status]
        if not own:
            return str(status)
        used = Counter(
            item.raw_status.strip()
            for item in self.ledger().work_items
            if item.status == status and item.raw_status is not None
        )
        return used.most_common(1)[0][0] if used else own[0]

    def lines_of(self, entry: Span) -> tuple[int, int]:
        """Return where the lines of an entry begin and end."""
        return self.text.rfind("\n", 0, entry.start) + 1, self.line_end(entry.end)

    def set_text(self, table: Span, name: str, value: str | None) -> None:
        found = table.value(name)
        if found is None:
            self.add_field(table, name, value)
            return
        key, old = found
        self.refuse_anchors(old)
        if value is not None and old.kind in {"table", "listing"}:
            raise self.unsupported("a map or list where a text belongs")
        style = old.style if old.kind == "scalar" else ""
        # A comment behind the value would become part of a block.
        one_line = table.flow or bool(self.text[old.end : self.line_end(old.end)].strip())
        written = scalar(value, like=style, flow=one_line, indent=self.column(table) + 2, newline=self.newline)
        self.replace_value(key, old, written)

    def replace_value(self, key: Span, old: Span, written: str) -> None:
        colon = self.text.index(":", key.end) + 1
        if written.startswith(self.newline):
            # A comment behind the value stays on the line of the key.
            self.plans.append((colon, old.end, ""))
            end = self.line_end(old.end)
            self.plans.append((end, end, written))
        elif old.kind == "scalar" and old.start < old.end and "\n" not in self.text[colon : old.start]:
            self.plans.append((old.start, old.end, written))
        else:
            # What stands between the colon and a block value is part of the value: line breaks, a comment.
            self.plans.append((colon, old.end, " " + written))

    def add_field(self, table: Span, name: str, value: str | None) -> None:
        written = scalar(value, flow=table.flow, indent=self.column(table) + 2, newline=self.newline)
        self.add_written(table, name, written)

    def add_written(self, table: Span, name: str, written: str) -> None:
        """Add a field behind the status, or behind the last one where there is no status."""
        label = scalar(name, flow=table.flow)
        if table.flow:
            place = table.entries[-1][1].end if table.entries else table.start + 1
            self.plans.append((place, place, f"{', ' if table.entries else ''}{label}: {written}"))
            return
        status = table.value(self.options.field_map.get("status", "status"))
        _, before = status if status is not None else table.entries[-1]
        place = self.line_end(max(before.end, table.entries[0][0].end))
        gap = "" if written.startswith(self.newline) else " "
        self.plans.append((place, place, f"{self.newline}{' ' * self.column(table)}{label}:{gap}{written}"))

    def add_evidence(self, entry: Span, item: dict[str, Any], locators: tuple[str, ...]) -> None:
        found = entry.value("evidence")
        stated = item.get("evidence")
        known = stated if isinstance(stated, list) else [] if stated is None else [stated]
        if any(isinstance(each, tuple) for each in known) or isinstance(stated, dict):
            raise self.unsupported("evidence that is not written out as a list")
        here = {each.get("locator", each.get("path")) if isinstance(each, dict) else each for each in known}
        new = tuple(locator for locator in dict.fromkeys(locators) if locator not in here)
        if not new:
            return
        item["evidence"] = [*known, *new]
        if found is None:
            self.add_list(entry, "evidence", new)
            return
        key, old = found
        self.refuse_anchors(old)
        if old.kind == "listing" and old.flow:
            place = old.items[-1].end if old.items else old.start + 1
            joined = flow_listing(new)[1:-1]
            self.plans.append((place, place, f"{', ' if old.items else ''}{joined}"))
        elif old.kind == "listing":
            place = self.line_end(old.end)
            dash = " " * self.column(old)
            lines = "".join(f"{self.newline}{dash}- {scalar(each, indent=len(dash) + 2)}" for each in new)
            self.plans.append((place, place, lines))
        else:
            self.replace_value(key, old, flow_listing((*known, *new)))

    def add_list(self, table: Span, name: str, texts: tuple[str, ...]) -> None:
        if table.flow:
            self.add_written(table, name, flow_listing(texts))
            return
        dash = self.newline + " " * (self.column(table) + 2) + "- "
        lines = "".join(dash + scalar(each, indent=self.column(table) + 4, newline=self.newline) for each in texts)
        self.add_written(table, name, lines)

    def set_level(self, entry: Span, item: dict[str, Any], level: str) -> None:
        if "evidence_level" in item:
            # The two must agree, or the ledger is refused.
            self.set_text(entry, "evidence_level", level)
            item["evidence_level"] = level
        found = entry.value("verification")
        if found is not None and found[1].kind == "table":
            self.refuse_anchors(found[1])
            self.set_text(found[1], "evidence_level", level)
            item["verification"]["evidence_level"] = level
            return
        if item.get("verification") is not None:
            raise self.unsupported("verification that is not a map")
        item["verification"] = {"evidence_level": level}
        if found is not None:
            self.replace_value(*found, f"{{evidence_level: {level}}}")
        elif entry.flow:
            self.add_written(entry, "verification", f"{{evidence_level: {level}}}")
        else:
            inner = f"{self.newline}{' ' * (self.column(entry) + 2)}evidence_level: {level}"
            self.add_written(entry, "verification", inner)

    def add_entry(self, expected: Any, key: str, named: dict[str, Any]) -> None:
        section = self.root.value("work_items")
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}
        if self.root.flow:
            raise self.unsupported("a ledger in brackets")
        if section is None or (section[1].kind == "scalar" and section[1].text in NULLS):
            self._begin_section(section, key, named)
            expected["work_items"] = [{self._id_name([]): key, **fields}]
            return
        label, holder = section
        self.refuse_anchors(self.root, holder)
        if holder.kind == "listing":
            named = {self._id_name(holder.items): key, **named}
            expected["work_items"].append({self._id_name(holder.items): key, **fields})
        elif holder.kind == "table":
            expected["work_items"][key] = fields
        else:
            raise self.unsupported("work items behind an alias")
        children = holder.items or [value for _, value in holder.entries]
        if not children:
            column = self.column(self.root) + 2
            self.replace_value(label, holder, self._block_entry(holder.kind, column, key, named))
        elif holder.flow:
            pairs = (f"{scalar(name, flow=True)}: {_flow(value)}" for name, value in named.items())
            body = "{" + ", ".join(pairs) + "}"
            written = body if holder.kind == "listing" else f"{double_quoted(key)}: {body}"
            self.plans.append((children[-1].end, children[-1].end, ", " + written))
        else:
            place = self.line_end(children[-1].end)
            self.plans.append((place, place, self._block_entry(holder.kind, self.column(holder), key, named)))

    def _begin_section(self, section: tuple[Span, Span] | None, key: str, named: dict[str, Any]) -> None:
        column = self.column(self.root)
        body = self._block_entry("listing", column + 2, key, {self._id_name([]): key, **named})
        if section is not None:
            self.replace_value(*section, body)
            return
        place = self.line_end(self.root.end)
        self.plans.append((place, place, f"{self.newline}{' ' * column}work_items:{body}"))

    def _block_entry(self, kind: str, column: int, key: str, named: dict[str, Any]) -> str:
        """Return the lines of a new entry, each with its line break before it."""
        inner = column + 2
        lines = [] if kind == "listing" else [" " * column + scalar(key) + ":"]
        for name, value in named.items():
            lead = " " * column + "- " if kind == "listing" and not lines else " " * inner
            if isinstance(value, tuple):
                lines.append(f"{lead}{scalar(name)}:")
                dash = " " * (inner + 2) + "- "
                lines += [dash + scalar(each, indent=inner + 4, newline=self.newline) for each in value]
            else:
                lines.append(f"{lead}{scalar(name)}: {scalar(value, indent=inner + 2, newline=self.newline)}")
        return "".join(self.newline + line for line in lines)

    def _id_of(self, entry: Span) -> str | None:
        found = next((pair for name in self._id_names() if (pair := entry.value(name)) is not None), None)
        return None if found is None else found[1].text

    def _id_names(self) -> tuple[str, ...]:
        mapped = self.options.field_map.get("id")
        return _ID_NAMES if mapped is None else (mapped,)

    def _id_name(self, siblings: list[Span]) -> str:
        used = {name for each in siblings[:1] for name in self._id_names() if each.value(name) is not None}
        return next((name for name in self._id_names() if name in used), self._id_names()[0])

    def column(self, span: Span) -> int:
        """Return how far a block collection is indented: where its first key or its dashes stand."""
        start = span.entries[0][0].start if span.entries else span.start
        return start - (self.text.rfind("\n", 0, start) + 1)

    def line_end(self, offset: int) -> int:
        """Return where the line of a character ends, before its line break."""
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def written(self) -> str:
        """Return the text with every planned replacement in its place."""
        parts: list[str] = []
        at = 0
        for start, end, new in sorted(self.plans, key=lambda plan: plan[0]):
            if start < at:
                raise self.unsupported("two changes in the same place")
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])


def _verified(
    page: _Page,
    expected: Any,
    *,
    key: str,
    fields: Mapping[str, str | None],
    within: tuple[int, int] | None,
) -> bytes:
    """Return the bytes of the edited page, if they say exactly what was intended and nothing else moved."""
    if within is not None and any(not within[0] <= start <= end <= within[1] for start, end, _ in page.plans):
        raise page.unsupported("a change outside the entry")
    text = page.written()
    data = (_MARK if page.data.startswith(_MARK) else b"") + text.encode()
    if len(data) > YAML_LIMIT:
        raise page.unsupported(f"a result of {len(data)} bytes, more than the {YAML_LIMIT} that a ledger may have")
    ledger = page.parse(data)
    if _plain(spans_of(text)) != expected:
        raise page.unsupported("an edit that would say something else as well")
    item = next((item for item in ledger.work_items if item.external_key == key), None)
    told = {field: value for field, value in fields.items() if field in WorkItem.__struct_fields__}
    if item is None or any(getattr(item, field) != value for field, value in told.items()):
        raise page.unsupported("an edit that would not be read back as it was meant")
    return data


def _plain_entry(expected: Any, page: _Page, key: str) -> dict[str, Any]:
    holder = expected["work_items"]
    if isinstance(holder, dict):
        found: dict[str, Any] = holder[key]
        return found
    section = page.root.value("work_items")
    assert section is not None
    entry = page.entry(key)
    index = next(number for number, each in enumerate(section[1].items) if each is entry)
    listed: dict[str, Any] = holder[index]
    return listed


def _plain(span: Span | None) -> Any:
    """Return what a span says, without how it says it. The reader's depth bounds the recursion."""
    if span is None:
        return None
    if span.kind == "table":
        return {key.text: _plain(value) for key, value in span.entries}
    if span.kind == "listing":
        return [_plain(each) for each in span.items]
    if span.kind == "alias":
        return ("alias", span.text)
    return None if not span.style and span.text in NULLS else span.text


def _flow(value: Any) -> str:
    return flow_listing(value) if isinstance(value, tuple) else scalar(value, flow=True)

"""The adapter `yaml-ledger-v1`: what one YAML ledger says about goals, milestones and work.

Values are taken as they are written: a bare `1.0` or `yes` in a title is that text. Fields that are not listed here
belong to somebody else and are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

import msgspec

from awr.domain.rules import Rule
from awr.domain.secrets import find_secret, is_secret_key, refuse_secrets
from awr.domain.work import STATUSES, Dependency, Edge, EvidenceReference, Goal, Plan, Status, WorkItem
from awr.errors import InvalidInput, SourceConflict
from awr.sources.document import Listing, Node, Place, Scalar, Table, compose
from awr.sources.files import decode_utf8

__all__ = ["LEDGER_KEYS", "MAPPABLE_FIELDS", "Ledger", "LedgerWarning", "parse_ledger", "refuse_secret_text"]

LEDGER_KEYS: frozenset[str] = frozenset({"goals", "work_items", "milestones"})

#: Fields of a work item that `field_map` may rename, each with the spellings a ledger may use without a map.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "id": ("id", "external_key"),
    "title": ("title",),
    "status": ("status",),
    "kind": ("kind",),
    "owner": ("owner",),
    "priority": ("priority",),
    "required": ("required", "required_for_v1"),
    "summary": ("summary",),
    "next_action": ("next_action",),
    "blocker": ("blocker",),
    "acceptance": ("acceptance",),
    "depends_on": ("depends_on", "dependencies"),
    "goal": ("goal", "goals"),
    "milestone": ("milestone",),
    "tags": ("tags",),
    "paths": ("paths", "deliverables"),
}
MAPPABLE_FIELDS: frozenset[str] = frozenset(_SPELLINGS)

_MAX_KEY_BYTES = 512
_MAX_INTEGER = 2**63 - 1
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}\Z", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]")

Entity = TypeVar("Entity", Goal, Plan, WorkItem)


class LedgerWarning(msgspec.Struct, frozen=True):
    """Something that does not stop indexing but that its author should know. Places are 1-based."""

    rule: str
    message: str
    work_item_key: str
    pointer: str
    line: int
    column: int


class Ledger(msgspec.Struct, frozen=True):
    """Everything one source states, in file order. `milestones` are also the plans of a written plan."""

    goals: tuple[Goal, ...]
    milestones: tuple[Plan, ...]
    work_items: tuple[WorkItem, ...]
    edges: tuple[Edge, ...]
    warnings: tuple[LedgerWarning, ...]
    rules: tuple[Rule, ...] = ()


def parse_ledger(
    data: bytes,
    *,
    locator: str,
    field_map: Mapping[str, str] | None = None,
    status_map: Mapping[str, str] | None = None,
) -> Ledger:
    """Return what the ledger says.

    `field_map` names the source key of a canonical field; `status_map` names the canonical state of a source
    spelling, already trimmed and lower case. Raise InvalidInput with the place for anything malformed,
    SourceConflict for an id that stands twice, Unsupported for merge keys, and RuleViolation if the text holds a
    secret. No error repeats a value.
    """
    text = decode_utf8(data, locator=locator)
    root = compose(text, locator=locator)
    _refuse_secrets(text, root, locator=locator)
    return _Reader(locator=locator, field_map=field_map or {}, status_map=status_map or {}).read(root)


def refuse_secret_text(text: str, *, locator: str) -> None:
    """Raise RuleViolation, with the line where one line tells, if the text of a source holds a secret."""
    if find_secret(text) is None:
        return
    place: dict[str, object] = {"locator": locator}
    for number, line in enumerate(text.split("\n"), start=1):
        if find_secret(line) is not None:
            place["line"] = number
            break
    _refuse(text, place)


def _refuse_secrets(text: str, root: Node | None, *, locator: str) -> None:
    """Look at the raw text, at the decoded one, which escapes and folding may hide, and at keys that tell."""
    place: dict[str, object] = {"locator": locator}
    refuse_secret_text(text, locator=locator)
    decoded: list[str] = []
    telling: dict[str, bool] = {}
    for key, scalar in _scalars(root):
        decoded.append(scalar.text)
        if key not in telling:
            decoded.append(key)
            telling[key] = is_secret_key(key)
        if telling[key] and not _is_plain_data(scalar):
            _refuse({key: scalar.text}, {**place, "line": scalar.line, "column": scalar.column})
    _refuse("\n".join(decoded), place)


def _is_plain_data(scalar: Scalar) -> bool:
    return scalar.plain and (scalar.absent or scalar.truth is not None or _INTEGER.match(scalar.text) is not None)


def _refuse(value: object, place: Mapping[str, object]) -> None:
    refuse_secrets(
        value,
        what="the source",
        location=place,
        rule="source.public_content",
        repair="remove the secret from the file, then index it again",
    )


def _scalars(root: Node | None) -> Iterator[tuple[str, Scalar]]:
    """Yield every scalar once with the key it stands under, however often an alias uses it."""
    pending: list[tuple[str, Node]] = [] if root is None else [("", root)]
    seen: set[int] = set()
    while pending:
        key, node = pending.pop()
        if type(node) is Scalar:
            yield key, node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        if type(node) is Listing:
            pending.extend((key, each) for each in node.items)
        elif type(node) is Table:
            pending.extend((name, each) for name, (_, each) in node.entries.items())


class _Item:
    """One entry of a section: its fields, and where each of them stands."""

    __slots__ = ("_reader", "key_place", "pointer", "table")

    def __init__(self, table: Table, *, reader: _Reader, pointer: str, key_place: Scalar | None) -> None:
        self.table = table
        self.pointer = pointer
        self.key_place = key_place
        self._reader = reader

    @property
    def line(self) -> int:
        return self.table.line if self.key_place is None else self.key_place.line

    def place(self) -> Place:
        spot = self.table if self.key_place is None else self.key_place
        return Place(self._reader.locator, self.pointer, spot.line, spot.column)

    def node(self, name: str) -> Node | None:
        entry = self.table.entries.get(name)
        if entry is None or (type(entry[1]) is Scalar and entry[1].absent):
            return None
        return entry[1]

    def first(self, *names: str) -> tuple[Node, str] | None:
        for name in names:
            if (node := self.node(name)) is not None:
                return node, f"{self.pointer}/{name}"
        return None

    def text(self, *names: str) -> str | None:
        found = self.first(*names)
        return None if found is None else self._reader.text(*found)

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the texts of all these fields together, each once, in order."""
        return tuple(
            dict.fromkeys(text for node, pointer in self._each(*names) for text in self._list(node, pointer))
        )

    def first_texts(self, *names: str) -> tuple[str, ...]:
        found = self.first(*names)
        return () if found is None else tuple(self._list(*found))

    def elements(self, *names: str) -> Iterator[tuple[Node, str]]:
        """Yield the elements of all these fields; a single value counts as a list of one."""
        for node, pointer in self._each(*names):
            if type(node) is Listing:
                yield from ((each, f"{pointer}/{index}") for index, each in enumerate(node.items))
            else:
                yield node, pointer

    def boolean(self, *names: str) -> bool:
        found = self.first(*names)
        return False if found is None else self._reader.boolean(*found)

    def integer(self, name: str) -> int | None:
        found = self.first(name)
        return None if found is None else self._reader.integer(*found)

    def _each(self, *names: str) -> Iterator[tuple[Node, str]]:
        for name in names:
            if (node := self.node(name)) is not None:
                yield node, f"{self.pointer}/{name}"

    def _list(self, node: Node, pointer: str) -> Iterator[str]:
        if type(node) is not Listing:
            yield self._reader.text(node, pointer)
            return
        for index, each in enumerate(node.items):
            yield self._reader.text(each, f"{pointer}/{index}")


class _Reader:
    """Reads one tree. Keeps the warnings it meets."""

    def __init__(self, *, locator: str, field_map: Mapping[str, str], status_map: Mapping[str, str]) -> None:
        self.locator = locator
        self._names = {
            field: (field_map[field],) if field in field_map else spellings for field, spellings in _SPELLINGS.items()
        }
        self._statuses = {**{status: status for status in STATUSES}, **status_map}
        self._warnings: list[LedgerWarning] = []

    def read(self, root: Node | None) -> Ledger:
        if type(root) is not Table or not LEDGER_KEYS & root.entries.keys():
            raise self._at(root, "").error(
                InvalidInput,
                "the source is not a ledger",
                rule="ledger.top_level",
                got=_kind(root),
                expected="a map with goals, work_items or milestones",
                repair="give the file at least one of these keys",
            )
        goals = self._section(root, "goals", self._goal)
        milestones = self._section(root, "milestones", self._milestone)
        work_items = self._section(root, "work_items", self._work_item, key_names=self._names["id"])
        return Ledger(goals, milestones, work_items, tuple(_edges(work_items)), tuple(self._warnings))

    def text(self, node: Node, pointer: str) -> str:
        if type(node) is not Scalar:
            raise self._wrong(node, pointer, expected="a text")
        if not node.text.isprintable() and _CONTROL.search(node.text):
            raise self._at(node, pointer).error(
                InvalidInput,
                "a text in the ledger holds a control character",
                rule="ledger.text",
                got="a control character",
                expected="text with line breaks and tabs at most",
                repair="remove the character",
            )
        return node.text

    def boolean(self, node: Node, pointer: str) -> bool:
        truth = node.truth if type(node) is Scalar else None
        if truth is None:
            raise self._wrong(node, pointer, expected="true or false")
        return truth

    def integer(self, node: Node, pointer: str) -> int:
        if type(node) is Scalar and node.plain and _INTEGER.match(node.text):
            number = int(node.text)
            if -_MAX_INTEGER - 1 <= number <= _MAX_INTEGER:
                return number
        raise self._wrong(node, pointer, expected="a whole number of at most 63 bits")

    def _section(
        self,
        root: Table,
        name: str,
        build: Callable[[_Item, str], Entity],
        *,
        key_names: tuple[str, ...] = ("id", "external_key"),
    ) -> tuple[Entity, ...]:
        found: dict[str, Entity] = {}
        for item in self._items(root, name):
            key = self._key(item, key_names)
            if (first := found.get(key)) is not None:
                raise item.place().error(
                    SourceConflict,
                    "two entries of the ledger have the same id",
                    rule="ledger.duplicate_id",
                    got=f"the id of the entry in line {first.line}",
                    expected="each id once",
                    repair="give one of the two another id",
                )
            found[key] = build(item, key)
        return tuple(found.values())

    def _items(self, root: Table, name: str) -> Iterator[_Item]:
        if name not in root.entries:
            return
        node = root.entries[name][1]
        pairs: list[tuple[Scalar | None, Node]]
        if type(node) is Listing:
            pairs = [(None, each) for each in node.items]
        elif type(node) is Table:
            pairs = [(key, each) for key, each in node.entries.values()]
        elif type(node) is Scalar and node.absent:
            return
        else:
            raise self._wrong(node, f"/{name}", expected="a list or a keyed map of entries")
        for index, (key, each) in enumerate(pairs):
            pointer = f"/{name}/{index}"
            if type(each) is not Table:
                raise self._wrong(each, pointer, expected="a map of fields")
            yield _Item(each, reader=self, pointer=pointer, key_place=key)

    def _key(self, item: _Item, names: tuple[str, ...]) -> str:
        stated = [
            self.text(node, f"{item.pointer}/{name}") for name in names if (node := item.node(name)) is not None
        ]
        if item.key_place is not None:
            stated.append(self.text(item.key_place, item.pointer))
        if len(set(stated)) > 1:
            raise item.place().error(
                InvalidInput,
                "an entry of the ledger has two different ids",
                rule="ledger.id_conflict",
                got="ids that differ",
                expected="the same text as map key, id and external_key",
                repair="keep one id",
            )
        return self._checked_key(stated[0] if stated else "", item.place())

    def _reference(self, node: Node, pointer: str) -> str:
        return self._checked_key(self.text(node, pointer), self._at(node, pointer))

    def _checked_key(self, key: str, place: Place) -> str:
        size = len(key.encode("utf-8"))
        if key.strip() and size <= _MAX_KEY_BYTES and key.isprintable():
            return key
        raise place.error(
            InvalidInput,
            "an id in the ledger must be nonempty bounded text",
            rule="ledger.id",
            got=f"{size} bytes" if key.strip() else "a missing or blank id",
            expected=f"1 to {_MAX_KEY_BYTES} bytes on one line",
            repair="give the entry a short id",
        )

    def _goal(self, item: _Item, key: str) -> Goal:
        return Goal(
            external_key=key,
            title=item.text("title") or key,
            line=item.line,
            status=item.text("status") or "unknown",
            priority=item.text("priority"),
            summary=item.text("summary"),
            success_criteria=item.first_texts("success_criteria", "acceptance"),
        )

    def _milestone(self, item: _Item, key: str) -> Plan:
        return Plan(
            external_key=key,
            title=item.text("title", "name") or key,
            line=item.line,
            status=item.text("status") or "unknown",
            summary=item.text("summary"),
            scope=self._scope(item),
            acceptance=item.first_texts("acceptance", "success_criteria"),
        )

    def _scope(self, item: _Item) -> str | None:
        lines = item.first_texts("scope")
        return "\n".join(lines) if lines else None

    def _work_item(self, item: _Item, key: str) -> WorkItem:
        names = self._names
        raw_status = item.text(*names["status"])
        return WorkItem(
            external_key=key,
            title=item.text(*names["title"]) or key,
            status=self._status(item, key, raw_status),
            line=item.line,
            raw_status=raw_status,
            kind=item.text(*names["kind"]),
            owner=item.text(*names["owner"]),
            required=item.boolean(*names["required"]),
            priority=item.text(*names["priority"]),
            milestone=self._milestone_of(item),
            score=item.integer("score"),
            evidence_level=self._evidence_level(item),
            summary=item.text(*names["summary"]),
            next_action=item.text(*names["next_action"]),
            blocker=item.text(*names["blocker"]),
            acceptance=item.first_texts(*names["acceptance"]),
            tags=item.texts(*names["tags"]),
            paths=item.texts(*names["paths"]),
            depends_on=self._dependencies(item),
            goals=tuple(
                dict.fromkeys(self._reference(node, pointer) for node, pointer in item.elements(*names["goal"]))
            ),
            evidence=self._evidence(item),
            ordinary_completion=self._plain(item.node("ordinary_completion"), f"{item.pointer}/ordinary_completion"),
            archived=item.boolean("archived"),
        )

    def _status(self, item: _Item, key: str, raw: str | None) -> Status:
        canonical = None if raw is None else self._statuses.get(raw.strip().lower())
        if canonical is not None:
            return cast(Status, canonical)
        found = item.first(*self._names["status"])
        place = item.place() if found is None else self._at(*found)
        message = (
            "the work item has no status; it counts as unknown"
            if raw is None
            else "the status has no known meaning; it counts as unknown, and status_map can give it one"
        )
        self._warnings.append(
            LedgerWarning("ledger.unknown_status", message, key, place.pointer, place.line, place.column)
        )
        return "unknown"

    def _milestone_of(self, item: _Item) -> str | None:
        found = item.first(*self._names["milestone"])
        return None if found is None else self._reference(*found)

    def _evidence_level(self, item: _Item) -> str | None:
        stated = [item.text("evidence_level")]
        verification = item.node("verification")
        if type(verification) is Table:
            inner = _Item(verification, reader=self, pointer=f"{item.pointer}/verification", key_place=None)
            stated.append(inner.text("evidence_level"))
        levels = {
            level.strip() for level in stated if level is not None and level.strip().lower() not in {"", "none"}
        }
        if len(levels) > 1:
            raise item.place().error(
                InvalidInput,
                "a work item has two different evidence levels",
                rule="ledger.evidence_level_conflict",
                got="levels that differ",
                expected="the same level in evidence_level and verification.evidence_level",
                repair="keep one of the two",
            )
        return next(iter(levels), None)

    def _dependencies(self, item: _Item) -> tuple[Dependency, ...]:
        required: dict[str, bool] = {}
        for node, pointer in item.elements(*self._names["depends_on"]):
            if type(node) is Table:
                entry = _Item(node, reader=self, pointer=pointer, key_place=None)
                key = self._key(entry, ("id", "key"))
                needed = entry.node("required") is None or entry.boolean("required")
            else:
                key, needed = self._reference(node, pointer), True
            required[key] = required.get(key, False) or needed
        return tuple(Dependency(key, needed) for key, needed in required.items())

    def _evidence(self, item: _Item) -> tuple[EvidenceReference, ...]:
        found: dict[str, EvidenceReference] = {}
        for node, pointer in item.elements("evidence"):
            summary = None
            if type(node) is Table:
                entry = _Item(node, reader=self, pointer=pointer, key_place=None)
                locator, summary = entry.text("locator", "path") or "", entry.text("summary")
            else:
                locator = self.text(node, pointer)
            if not locator.strip():
                raise self._at(node, pointer).error(
                    InvalidInput,
                    "an evidence entry names no report",
                    rule="ledger.evidence",
                    got="a missing or blank locator",
                    expected="a locator or a path",
                    repair="name the report",
                )
            found.setdefault(locator, EvidenceReference(locator, summary))
        return tuple(found.values())

    def _plain(self, node: Node | None, pointer: str) -> object:
        """Return a node as plain data. The tree's own depth bounds the recursion."""
        if node is None:
            return None
        if type(node) is Listing:
            return [self._plain(each, f"{pointer}/{index}") for index, each in enumerate(node.items)]
        if type(node) is Table:
            return {
                self.text(key, pointer): self._plain(each, f"{pointer}/{index}")
                for index, (key, each) in enumerate(node.entries.values())
            }
        assert type(node) is Scalar
        if node.absent:
            return None
        return self.text(node, pointer) if node.truth is None else node.truth

    def _at(self, node: Node | None, pointer: str) -> Place:
        if node is None:
            return Place(self.locator, pointer, 1, 1)
        return Place(self.locator, pointer, node.line, node.column)

    def _wrong(self, node: Node, pointer: str, *, expected: str) -> InvalidInput:
        return self._at(node, pointer).error(
            InvalidInput,
            "a value in the ledger has the wrong kind",
            rule="ledger.kind",
            got=_kind(node),
            expected=expected,
            repair=f"write {expected} here",
        )


def _edges(work_items: tuple[WorkItem, ...]) -> Iterator[Edge]:
    for item in work_items:
        key = item.external_key
        for dependency in item.depends_on:
            yield Edge("depends_on", key, dependency.key, dependency.required)
        if item.milestone is not None:
            yield Edge("part_of", key, item.milestone)
        for goal in item.goals:
            yield Edge("supports", key, goal)


def _kind(node: Node | None) -> str:
    if node is None:
        return "an empty document"
    if type(node) is Listing:
        return f"a list of {len(node.items)}"
    if type(node) is Table:
        return f"a map of {len(node.entries)}"
    assert type(node) is Scalar
    return "nothing" if node.absent else f"a text of {len(node.text)} characters"

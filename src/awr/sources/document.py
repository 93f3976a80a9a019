"""A YAML document as a bounded tree that knows its places.

The tree is built from the parser's events on an own stack. The library's composer recurses in C, so that a file of
brackets ends the process, and it resolves types that nobody here asks for; this is also seven times faster.
The library is imported when a document is read: most commands find every source unchanged and read none.
Nothing in a diagnostic comes from the file: a wrong value may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from awr.errors import AwrError, InvalidInput, Unsupported

__all__ = ["Listing", "Node", "Place", "Scalar", "Table", "compose", "top_level_collections"]

MAX_DEPTH = 64
#: Nodes plus an eighth of their characters, every use of an alias counted in full.
MAX_WEIGHT = 2_000_000

_CORE = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({"!", _CORE + "str"})
_SCALAR_TAGS = _TEXT_TAGS | {_CORE + kind for kind in ("int", "float", "bool", "null")}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

Failure = TypeVar("Failure", bound=AwrError)


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """One value as it is written. `plain` is true when it stands without quotes. Places are 1-based."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def absent(self) -> bool:
        return self.plain and self.text in _NULLS

    @property
    def truth(self) -> bool | None:
        return _TRUTHS.get(self.text) if self.plain else None


class Listing(msgspec.Struct, frozen=True):
    items: list[Node]
    line: int
    column: int


class Table(msgspec.Struct, frozen=True):
    """A mapping with text keys, each with the place of the key."""

    entries: dict[str, tuple[Scalar, Node]]
    line: int
    column: int


Node: TypeAlias = Scalar | Listing | Table


class Place(msgspec.Struct, frozen=True):
    """Where in a source: its locator, a JSON pointer, line and column (1-based).

    In the pointer a field keeps its name; an entry of a keyed map appears by its position, because keys are content.
    """

    locator: str
    pointer: str
    line: int
    column: int

    def error(
        self,
        kind: type[Failure],
        what: str,
        *,
        rule: str,
        repair: str,
        got: str | None = None,
        expected: str | None = None,
    ) -> Failure:
        """Return an error of this kind that names the place, the broken rule and the repair."""
        return kind(
            what,
            got=got,
            expected=expected,
            next_step=repair,
            location=msgspec.to_builtins(self),
            rule=rule,
            repair=repair,
        )


class _Open:
    """A collection that is still being filled."""

    __slots__ = ("anchor", "key", "node", "weight_before")

    def __init__(self, node: Listing | Table, *, anchor: str | None, weight_before: int) -> None:
        self.node = node
        self.anchor = anchor
        self.weight_before = weight_before
        self.key: Scalar | None = None


def compose(text: str, *, locator: str) -> Node | None:
    """Return the tree of the only document in `text`, or None when there is none.

    Aliases share their node. Raise InvalidInput for syntax errors, several documents, repeated or non-text keys,
    tags outside the YAML core, an alias inside its own anchor, and for more than 64 levels or 2,000,000 of weight;
    raise Unsupported for a merge key.
    """
    return _Composer(locator=locator).compose(text)


def top_level_collections(text: str, *, wanted: frozenset[str]) -> Iterator[str]:
    """Yield each wanted key of the first document's top level whose value is a list or a map.

    Stops quietly at the first syntax error, because it serves a search through files that are nobody's promise.
    """
    from ruamel.yaml import YAML, events
    from ruamel.yaml.error import YAMLError

    opens = (events.MappingStartEvent, events.SequenceStartEvent)
    closes = (events.MappingEndEvent, events.SequenceEndEvent)
    depth = 0
    key: str | None = None
    at_key = True
    try:
        for event in YAML(typ="safe", pure=False).parse(text):
            if depth == 1 and isinstance(event, events.NodeEvent):
                if at_key:
                    key = event.value if isinstance(event, events.ScalarEvent) else None
                elif key in wanted and isinstance(event, opens):
                    yield key
                at_key = not at_key
            if isinstance(event, opens):
                if depth >= MAX_DEPTH or (depth == 0 and isinstance(event, events.SequenceStartEvent)):
                    return
                depth += 1
            elif isinstance(event, closes):
                depth -= 1
                if depth == 0:
                    return
    except YAMLError:
        return


class _Composer:
    def __init__(self, *, locator: str) -> None:
        self._locator = locator
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._weight = 0
        self._root: Node | None = None
        self._documents = 0

    def compose(self, text: str) -> Node | None:
        from ruamel.yaml import YAML, events
        from ruamel.yaml.error import YAMLError

        take: dict[type, Callable[[Any], None]] = {
            events.ScalarEvent: self._place_scalar,
            events.MappingStartEvent: self._open_table,
            events.MappingEndEvent: self._close,
            events.SequenceStartEvent: self._open_listing,
            events.SequenceEndEvent: self._close,
            events.AliasEvent: self._place_alias,
            events.DocumentStartEvent: self._start_document,
        }
        try:
            for event in YAML(typ="safe", pure=False).parse(text):
                if (step := take.get(type(event))) is not None:
                    step(event)
        except YAMLError as error:
            raise self._syntax_error(error, text) from None
        return self._root

    def _start_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._at(event).error(
                InvalidInput,
                "a source holds exactly one YAML document",
                rule="yaml.one_document",
                got="a second document",
                expected="one document",
                repair="keep one document per file",
            )

    def _place_scalar(self, event: Any) -> None:
        self._weigh(1 + len(event.value) // 8, event)
        tag = event.tag
        if tag is not None and tag not in _SCALAR_TAGS:
            raise self._custom_tag(event)
        mark = event.start_mark
        plain = not event.style and tag not in _TEXT_TAGS
        node = Scalar(event.value, plain, mark.line + 1, mark.column + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1 + len(node.text) // 8)
        self._attach(node, event)

    def _open_table(self, event: Any) -> None:
        mark = event.start_mark
        self._open(event, Table({}, mark.line + 1, mark.column + 1), core_tag=_CORE + "map")

    def _open_listing(self, event: Any) -> None:
        mark = event.start_mark
        self._open(event, Listing([], mark.line + 1, mark.column + 1), core_tag=_CORE + "seq")

    def _open(self, event: Any, node: Listing | Table, *, core_tag: str) -> None:
        if event.tag is not None and event.tag not in {"!", core_tag}:
            raise self._custom_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            raise self._at(event).error(
                InvalidInput,
                "the YAML is nested too deeply",
                rule="yaml.depth",
                got=f"more than {MAX_DEPTH} levels",
                expected=f"at most {MAX_DEPTH} levels",
                repair="write the ledger with fewer levels",
            )
        before = self._weight
        self._weigh(1, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._attach(node, event)
        self._stack.append(_Open(node, anchor=event.anchor, weight_before=before))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        if done.anchor is not None and self._anchors.get(done.anchor) is None:
            self._anchors[done.anchor] = (done.node, self._weight - done.weight_before)

    def _place_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._at(event).error(
                InvalidInput,
                "an alias has no anchor before it",
                rule="yaml.alias",
                got="an undefined alias",
                expected="an anchor defined earlier",
                repair="write the value out",
            )
        known = self._anchors[event.anchor]
        if known is None:
            raise self._at(event).error(
                InvalidInput,
                "an alias stands inside its own anchor",
                rule="yaml.recursion",
                got="a value that holds itself",
                expected="a finite value",
                repair="write the value out",
            )
        node, weight = known
        self._weigh(weight, event)
        self._attach(node, event)

    def _attach(self, node: Node, event: Any) -> None:
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        holder = parent.node
        if type(holder) is Listing:
            holder.items.append(node)
            return
        assert type(holder) is Table
        if parent.key is not None:
            holder.entries[parent.key.text] = (parent.key, node)
            parent.key = None
            return
        if type(node) is not Scalar:
            raise self._at(event).error(
                InvalidInput,
                "a YAML key must be text",
                rule="yaml.key",
                got="a list or a map as a key",
                expected="a text",
                repair="use a simple key",
            )
        self._check_key(node, holder, event)
        parent.key = node

    def _check_key(self, key: Scalar, holder: Table, event: Any) -> None:
        if key.text == "<<" and key.plain:
            raise self._at(event).error(
                Unsupported,
                "YAML merge keys are not offered",
                rule="yaml.merge_key",
                got="a merge key",
                expected="fields written out",
                repair="write the merged fields out",
            )
        if (first := holder.entries.get(key.text)) is not None:
            raise self._at(event).error(
                InvalidInput,
                "a YAML key stands twice in one map",
                rule="yaml.duplicate_key",
                got=f"the same key as in line {first[0].line}",
                expected="each key once",
                repair="remove or rename one of the two",
            )

    def _weigh(self, weight: int, event: Any) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            raise self._at(event).error(
                InvalidInput,
                "the YAML unfolds to too many values",
                rule="yaml.size",
                got="more values than the limit, aliases counted in full",
                expected=f"at most {MAX_WEIGHT} values",
                repair="use fewer values or write fewer aliases",
            )

    def _custom_tag(self, event: Any) -> InvalidInput:
        return self._at(event).error(
            InvalidInput,
            "YAML tags outside the core are not accepted",
            rule="yaml.tag",
            got="a tag",
            expected="plain values",
            repair="remove the tag",
        )

    def _at(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self._locator, "", mark.line + 1, mark.column + 1)

    def _syntax_error(self, error: Exception, text: str) -> InvalidInput:
        line, column, tab = 1, 1, False
        if (mark := getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)) is not None:
            line, column = mark.line + 1, mark.column + 1
            lines = text.split("\n", line)
            tab = len(lines) >= line and "\t" in lines[line - 1][: column + 1]
        elif isinstance(position := getattr(error, "position", None), int):
            line = text.count("\n", 0, position) + 1
            column = position - text.rfind("\n", 0, position)
        repair = "indent with spaces instead of tabs" if tab else "correct the YAML near this place"
        return Place(self._locator, "", line, column).error(
            InvalidInput,
            "the source is not valid YAML",
            rule="yaml.tab" if tab else "yaml.syntax",
            got="a tab where spaces are needed" if tab else "text that does not parse",
            expected="valid YAML",
            repair=repair,
        )

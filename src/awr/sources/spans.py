"""A YAML document as a tree that knows the first and last character of every value.

`document.compose` checks a document and keeps lines for people. An edit needs exact offsets as well, how a value is
styled and where an alias stands, so this reads the same events again. Offsets count characters of the decoded text.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Span", "spans_of"]


class Span(msgspec.Struct, gc=False):
    """One value with its place: `text[start:end]` is all of it, without comments and blank lines behind.

    `kind` is "scalar", "alias", "table" or "listing". `style` is the quote or block mark of a scalar. `flow` is true
    for a collection in brackets, `anchored` for what an alias may repeat; an alias has the anchor's name as `text`.
    A table's `entries` pair each key with its value; a listing has `items`.
    """

    kind: str
    start: int
    end: int
    text: str = ""
    style: str = ""
    flow: bool = False
    anchored: bool = False
    entries: list[tuple[Span, Span]] = []
    items: list[Span] = []

    def value(self, name: str) -> tuple[Span, Span] | None:
        """Return a table's key and value by the key's text, or None."""
        return next((pair for pair in self.entries if pair[0].text == name), None)


def spans_of(text: str) -> Span | None:
    """Return the root of a document that `document.compose` has accepted, or None for an empty one."""
    from ruamel.yaml import YAML, events

    root: Span | None = None
    # Each open collection with the key that waits for its value.
    stack: list[tuple[Span, list[Span]]] = []
    for event in YAML(typ="safe", pure=False).parse(text):
        if isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
            done, _ = stack.pop()
            done.end = event.end_mark.index if done.flow else _last_end(done)
        elif isinstance(event, events.NodeEvent):
            span = _span(event, text, events)
            if not stack:
                root = span
            else:
                _attach(span, *stack[-1])
            if span.kind in {"table", "listing"}:
                stack.append((span, []))
    return root


def _span(event: Any, text: str, events: Any) -> Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, events.ScalarEvent):
        style = event.style or ""
        if style in {"|", ">"}:
            # The parser counts the blank lines behind a block as part of it.
            end = start + len(text[start:end].rstrip())
        return Span("scalar", start, end, text=event.value, style=style, anchored=event.anchor is not None)
    if isinstance(event, events.AliasEvent):
        return Span("alias", start, end, text=event.anchor)
    kind = "table" if isinstance(event, events.MappingStartEvent) else "listing"
    return Span(kind, start, end, flow=bool(event.flow_style), anchored=event.anchor is not None)


def _attach(span: Span, holder: Span, waiting: list[Span]) -> None:
    if holder.kind == "listing":
        holder.items.append(span)
    elif waiting:
        holder.entries.append((waiting.pop(), span))
    else:
        waiting.append(span)


def _last_end(done: Span) -> int:
    if done.entries:
        return max(done.entries[-1][1].end, done.entries[-1][0].end + 1)
    if done.items:
        return done.items[-1].end
    return done.end

"""Edits of a ledger change what was meant and not one byte more."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.errors import AwrError, MutationUnsupported, RuleViolation
from awr.sources.editing import EntryEdit, edited_ledger, extended_ledger
from awr.sources.files import YAML_LIMIT
from awr.sources.ledger import parse_ledger
from awr.sources.manifest import LedgerOptions

PAGE = """\
# The plan.   Trailing blanks stay.  \n\

goals: [ {id: g,   title: 'Goal'} ]
work_items:
    # about parse
    - id: parse   # the first
      title: "Pärse: \\u00e9"
      owner: ~
      status: 'planned'   # state
      blocker:

      next_action: |
          Write it
          down

      # between
      evidence:
      - old.json
      - {locator: two.json, summary: x}
      ordinary_completion:
          by: me   # inside
          at: now
      acceptance: ["a", b]

    - {id: flow, status: planned, tags: [x,   y], n: 1.0}   # flow

    - id: "last"
      status: in_progress
      summary: >-
          folded
          text
# the end
"""
PLAIN = LedgerOptions()


def edit(page: str, key: str = "parse", *, options: LedgerOptions = PLAIN, **changes: Any) -> str:
    data = edited_ledger(page.encode(), locator="l", options=options, key=key, edit=EntryEdit(**changes))
    return data.decode()


def changed(before: str, after: str) -> list[str]:
    """Return the lines that differ, with their sign."""
    found = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=0)
    return [f"{line[0]} {line[1:]}".rstrip("\r\n") for line in list(found)[2:] if line[0] in "+-"]


def test_values_are_replaced_in_their_own_style_and_nothing_else_moves() -> None:
    after = edit(PAGE, fields={"status": "in_progress", "blocker": "the: host", "next_action": "Go"})
    assert changed(PAGE, after) == [
        "-       status: 'planned'   # state",
        "-       blocker:",
        "+       status: 'in_progress'   # state",
        '+       blocker: "the: host"',
        "-       next_action: |",
        "-           Write it",
        "-           down",
        "+       next_action: Go",
    ]


def test_a_text_of_several_lines_becomes_a_block_and_one_with_a_comment_behind_it_stays_on_its_line() -> None:
    after = edit(PAGE, fields={"next_action": "one\n\ntwo"})
    assert changed(PAGE, after) == [
        "-       next_action: |",
        "-           Write it",
        "-           down",
        "+       next_action: |-",
        "+         one",
        "+ ",
        "+         two",
    ]
    page = "work_items:\n- id: a\n  next_action: b # why\n"
    assert edit(page, "a", fields={"next_action": "x\ny"}) == ('work_items:\n- id: a\n  next_action: "x\\ny" # why\n')


def test_cleared_fields_become_null_and_missing_ones_stay_missing() -> None:
    after = edit(PAGE, fields={"ordinary_completion": None, "next_action": None, "summary": None})
    assert changed(PAGE, after) == [
        "-       next_action: |",
        "-           Write it",
        "-           down",
        "+       next_action: null",
        "-       ordinary_completion:",
        "-           by: me   # inside",
        "-           at: now",
        "+       ordinary_completion: null",
    ]


def test_new_fields_stand_behind_the_status() -> None:
    after = edit(PAGE, "last", fields={"next_action": "Go"}, evidence_level="released", add_evidence=("r.json",))
    assert changed(PAGE, after) == [
        "+       next_action: Go",
        "+       evidence:",
        "+         - r.json",
        "+       verification:",
        "+         evidence_level: released",
    ]
    assert after.index("status: in_progress\n      next_action: Go\n") > 0


def test_evidence_is_added_to_the_list_as_it_is_written_and_never_twice() -> None:
    after = edit(PAGE, add_evidence=("two.json", "new.json", "old.json", "new.json"))
    assert changed(PAGE, after) == ["+       - new.json"]
    assert edit(PAGE, add_evidence=("old.json",)) == PAGE


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ("evidence: []", "evidence: [new.json]"),
        ("evidence: [ a ]  # c", "evidence: [ a, new.json ]  # c"),
        ("evidence: a # c", "evidence: [a, new.json] # c"),
        ("evidence: ~", "evidence: [new.json]"),
        ("evidence:", "evidence: [new.json]"),
        ("evidence:\n    - a\n    # c", "evidence:\n    - a\n    - new.json\n    # c"),
    ],
)
def test_evidence_of_every_shape_is_extended(stated: str, written: str) -> None:
    page = f"work_items:\n- id: a\n  {stated}\n  title: x\n"
    assert edit(page, "a", add_evidence=("new.json",)) == page.replace(stated, written)


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ("evidence_level: none", "evidence_level: released\n  verification:\n    evidence_level: released"),
        ("verification:\n    evidence_level: designed # c", "verification:\n    evidence_level: released # c"),
        ("verification: {by: me}", "verification: {by: me, evidence_level: released}"),
        ("verification: {}", "verification: {evidence_level: released}"),
        ("verification: null # c", "verification: {evidence_level: released} # c"),
        ("verification:\n    by: me", "verification:\n    by: me\n    evidence_level: released"),
    ],
)
def test_the_level_is_written_where_it_belongs(stated: str, written: str) -> None:
    page = f"work_items:\n- id: a\n  {stated}\n"
    after = edit(page, "a", evidence_level="released")
    assert after == page.replace(stated, written)
    assert parse_ledger(after.encode(), locator="l").work_items[0].evidence_level == "released"


def test_an_entry_in_brackets_is_kept_in_brackets() -> None:
    after = edit(PAGE, "flow", fields={"status": "blocked", "blocker": "a, b]"}, evidence_level="released")
    assert changed(PAGE, after) == [
        "-     - {id: flow, status: planned, tags: [x,   y], n: 1.0}   # flow",
        '+     - {id: flow, status: blocked, tags: [x,   y], n: 1.0, blocker: "a, b]", '
        "verification: {evidence_level: released}}   # flow",
    ]


def test_a_keyed_map_and_a_file_without_a_last_line_break_are_kept_so() -> None:
    page = "work_items:\n  a:\n    status: planned\n  'b':\n    title: x\n    status: planned"
    after = edit(page, "b", fields={"status": "in_progress", "next_action": "Go"})
    assert after == page.replace(
        "title: x\n    status: planned", "title: x\n    status: in_progress\n    next_action: Go"
    )


def test_windows_line_ends_and_a_byte_order_mark_stay() -> None:
    page = "work_items:\r\n- id: a\r\n  status: planned\r\n- id: b\r\n"
    data = b"\xef\xbb\xbf" + page.encode()
    fields: dict[str, str | None] = {"status": "blocked", "blocker": "x\ny"}
    after = edited_ledger(data, locator="l", options=PLAIN, key="a", edit=EntryEdit(fields=fields))
    assert after == b"\xef\xbb\xbf" + (
        b"work_items:\r\n- id: a\r\n  status: blocked\r\n  blocker: |-\r\n    x\r\n    y\r\n- id: b\r\n"
    )


def test_the_sources_own_names_and_spellings_are_written() -> None:
    options = LedgerOptions(
        field_map={"id": "ref", "status": "state", "next_action": "todo"},
        status_map={"doing": "in_progress", "working": "in_progress", "open": "planned"},
    )
    page = "work_items:\n- ref: a\n  state: open\n- ref: b\n  state: Working\n"
    after = edit(page, "a", options=options, fields={"status": "in_progress", "next_action": "Go"})
    assert after == "work_items:\n- ref: a\n  state: Working\n  todo: Go\n- ref: b\n  state: Working\n"
    again = edit(page, "b", options=options, fields={"status": "planned"})
    assert again.endswith("- ref: b\n  state: open\n")
    assert edit(page, "b", options=options, fields={"status": "blocked"}).endswith("  state: blocked\n")
    unused = page.replace("Working", "open")
    assert "state: doing" in edit(unused, "a", options=options, fields={"status": "in_progress"})


@pytest.mark.parametrize(
    "page",
    [
        "work_items:\n- &x\n  id: a\n  status: planned\n",
        "work_items: &x\n- id: a\n  status: planned\nothers: *x\n",
        "work_items:\n- id: a\n  status: &x planned\n- id: b\n  status: *x\n",
        "b: &x {id: a, status: planned}\nwork_items:\n- *x\n",
        "work_items:\n- id: a\n  status: planned\n  next_action: [x]\n",
    ],
)
def test_an_entry_that_cannot_be_edited_alone_is_refused(page: str) -> None:
    with pytest.raises(MutationUnsupported):
        edit(page, "a", fields={"status": "blocked", "next_action": "Go"})


def test_an_alias_as_a_value_is_replaced_by_the_value() -> None:
    page = "work_items:\n- id: b\n  status: &x planned\n- id: a\n  status: *x\n"
    assert edit(page, "a", fields={"status": "blocked"}) == page.replace("*x", "blocked")


@pytest.mark.parametrize(
    "stated", ["evidence: {locator: x}", "evidence: [*x]", "verification: yes", "verification: [x]"]
)
def test_evidence_in_a_shape_of_its_own_is_refused(stated: str) -> None:
    page = f"a: &x y\nwork_items:\n- id: a\n  {stated}\n"
    with pytest.raises(MutationUnsupported):
        edit(page, "a", add_evidence=("n",), evidence_level="released")


def test_a_secret_in_an_edit_is_refused_with_nothing_written() -> None:
    with pytest.raises(RuleViolation) as caught:
        edit(PAGE, fields={"next_action": "use ghp_" + "a1B2" * 9})
    assert "a1B2" not in str(caught.value.report())


def test_a_result_that_is_too_big_is_refused() -> None:
    page = "work_items:\n- id: a\n" + "# x\n" * ((YAML_LIMIT - 30) // 4)
    with pytest.raises(MutationUnsupported):
        edit(page, "a", fields={"summary": "y" * 4000})


ENTRY: dict[str, str | tuple[str, ...]] = {
    "title": "New: one",
    "status": "draft",
    "goal": "g",
    "acceptance": ("a", "b\nc"),
    "next_action": "x\ny",
}
BLOCK = """\
title: "New: one"
status: draft
goal: g
acceptance:
  - a
  - |-
    b
    c
next_action: |-
  x
  y"""


def extend(page: str, *, options: LedgerOptions = PLAIN, **fields: Any) -> str:
    data = extended_ledger(page.encode(), locator="l", options=options, key="new", fields=fields or ENTRY)
    return data.decode()


def listed(indent: int, *, name: str = "id") -> str:
    lines = [f"- {name}: new", *(f"  {line}" for line in BLOCK.split("\n"))]
    return "\n".join(" " * indent + line for line in lines)


def mapped(indent: int) -> str:
    lines = ["new:", *(f"  {line}" for line in BLOCK.split("\n"))]
    return "\n".join(" " * indent + line for line in lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("work_items:\n- id: a\n# end\n", f"work_items:\n- id: a\n{listed(0)}\n# end\n"),
        (
            "work_items:\n    - external_key: a",
            f"work_items:\n    - external_key: a\n{listed(4, name='external_key')}",
        ),
        ("work_items:\n  a: {title: x}\n\ng: 1\n", f"work_items:\n  a: {{title: x}}\n{mapped(2)}\n\ng: 1\n"),
        ("work_items: [] # c\ng: 1\n", f"work_items: # c\n{listed(2)}\ng: 1\n"),
        ("work_items: {}\n", f"work_items:\n{mapped(2)}\n"),
        ("work_items: # c\ng: 1\n", f"work_items: # c\n{listed(2)}\ng: 1\n"),
        ("goals: []\n# end", f"goals: []\nwork_items:\n{listed(2)}\n# end"),
    ],
)
def test_a_new_entry_stands_behind_the_others_in_their_manner(before: str, after: str) -> None:
    assert extend(before) == after


def test_a_new_entry_in_brackets_is_written_in_brackets() -> None:
    body = '{title: "New: one", status: draft, goal: g, acceptance: [a, "b\\nc"], next_action: "x\\ny"}'
    assert extend("work_items: [{id: a}]\n") == "work_items: [{id: a}, {id: new, " + body[1:] + "]\n"
    assert extend("work_items: {a: {n: 1}}\n") == 'work_items: {a: {n: 1}, "new": ' + body + "}\n"
    with pytest.raises(MutationUnsupported):
        extend("{goals: []}\n")
    with pytest.raises(MutationUnsupported):
        extend("goals: &x []\nwork_items: *x\n")


def test_a_new_entry_has_the_sources_own_names() -> None:
    options = LedgerOptions(field_map={"id": "ref", "title": "what"}, status_map={"idea": "draft"})
    assert extend("work_items: []\n", options=options, title="T", status="draft") == (
        "work_items:\n  - ref: new\n    what: T\n    status: idea\n"
    )


COMMENT = st.sampled_from(["", "  # note", " #"])
SCALARS = st.sampled_from(
    ["x", "'q'", '"d"', "~", "|\n      lit\n", ">-\n      fold\n      ed", "[1, 2]", "{a: b}", ""]
)


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, int]:
    """Make a ledger of odd but valid style, and say how many entries it has."""
    gap = draw(st.sampled_from(["", " ", "   "]))
    lines = [draw(st.sampled_from(["# head", "", "other: {a: [1,  2]}"])), "work_items:"]
    number = draw(st.integers(1, 4))
    for index in range(number):
        lines.append(f"{gap}- id: w{index}{draw(COMMENT)}")
        for name in draw(st.permutations(["status", "extra", "note"])):
            value = "planned" if name == "status" else draw(SCALARS)
            ends = "\n" in value
            lines.append(f"{gap}  {name}: {value.rstrip() if ends else value}{'' if ends else draw(COMMENT)}")
            lines += draw(st.sampled_from([[], [""], [f"{gap}  # between"]]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n# tail\n"]))
    return text.replace("\n", newline), number


@given(pages(), st.data())
def test_an_edit_says_what_was_meant_and_leaves_every_line_of_other_entries(
    page: tuple[str, int], data: st.DataObject
) -> None:
    text, number = page
    index = data.draw(st.integers(0, number - 1))
    note = data.draw(st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n"), min_size=1))
    fields: dict[str, str | None] = {"status": "in_progress", "next_action": note}
    try:
        after = edit(text, f"w{index}", fields=fields, add_evidence=("r.json",))
    except MutationUnsupported:
        raise
    except AwrError:
        # A text that looks like a secret is refused, as anywhere.
        return
    before_items = parse_ledger(text.encode(), locator="l").work_items
    items = parse_ledger(after.encode(), locator="l").work_items
    assert (items[index].status, items[index].next_action) == ("in_progress", note)
    assert [one.external_key for one in items] == [one.external_key for one in before_items]
    start = text.index(f"- id: w{index}")
    assert after.startswith(text[:start])
    if index + 1 < number:
        assert after.endswith(text[text.index(f"- id: w{index + 1}") :])

"""A text written as YAML is read back as it was, in every style and in brackets."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awr.sources.document import Listing, Scalar, Table, compose
from awr.sources.scalars import double_quoted, flow_listing, scalar

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), min_size=1, max_size=60)


def read(yaml: str) -> Scalar:
    root = compose(yaml, locator="x")
    assert isinstance(root, Table)
    found = root.entries["k"][1]
    assert isinstance(found, Scalar)
    return found


@given(TEXTS, st.sampled_from(["", "'", '"', "|", ">"]), st.sampled_from(["\n", "\r\n"]))
def test_a_text_in_a_block_is_read_back_as_it_was(text: str, like: str, newline: str) -> None:
    found = read(f"k: {scalar(text, like=like, indent=2, newline=newline)}{newline}z: 1{newline}")
    assert found.text == text
    assert not found.absent
    assert found.truth is None


@example("0", "A:0")
@given(TEXTS, TEXTS)
def test_texts_in_brackets_are_read_back_as_they_were(first: str, second: str) -> None:
    root = compose(f"k: {{a: {scalar(first, flow=True)}, b: {flow_listing((first, second))}}}", locator="x")
    assert isinstance(root, Table)
    inner = root.entries["k"][1]
    assert isinstance(inner, Table)
    one, several = inner.entries["a"][1], inner.entries["b"][1]
    assert isinstance(one, Scalar)
    assert isinstance(several, Listing)
    assert one.text == first
    assert [each.text for each in several.items if isinstance(each, Scalar)] == [first, second]


@pytest.mark.parametrize(
    ("text", "like", "written"),
    [
        ("planned", "", "planned"),
        ("planned", "'", "'planned'"),
        ("planned", '"', '"planned"'),
        ("it's", "'", "'it''s'"),
        ("Yes", "", '"Yes"'),
        ("null", "", '"null"'),
        ("1.0", "", '"1.0"'),
        ("a: b", "", '"a: b"'),
        ("a #b", "", '"a #b"'),
        ("- a", "", '"- a"'),
        ("写语法", "", "写语法"),
        ("a\u200bb", "'", '"a\\u200bb"'),
    ],
)
def test_a_text_keeps_the_style_of_what_it_replaces_where_that_is_safe(text: str, like: str, written: str) -> None:
    assert scalar(text, like=like) == written


def test_nothing_is_null_and_lines_become_a_block() -> None:
    assert scalar(None, like='"') == "null"
    assert scalar("a\n\nb", indent=4) == "|-\n    a\n\n    b"
    assert scalar("a\nb", flow=True) == '"a\\nb"'
    assert scalar("a\n", indent=4) == '"a\\n"'
    assert double_quoted('\\"\x85\U0001f600\U000e0001') == '"\\\\\\"\\x85😀\\U000e0001"'

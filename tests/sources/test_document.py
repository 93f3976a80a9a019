"""Any text becomes a bounded tree with places, or one error that says where and repeats nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awr.errors import AwrError, InvalidInput, Unsupported
from awr.sources import document
from awr.sources.document import Listing, Node, Scalar, Table, compose, top_level_collections


def tree(text: str) -> Node | None:
    return compose(text, locator="work.yaml")


def refused(text: str, kind: type[AwrError] = InvalidInput) -> tuple[str, int, int]:
    """Return rule, line and column of the error that `text` gives."""
    with pytest.raises(kind) as raised:
        tree(text)
    details = raised.value.details
    assert "zebra" not in json.dumps(raised.value.report())
    assert {"got", "expected", "next_step", "repair"} <= details.keys()
    place = details["location"]
    assert isinstance(place, dict)
    assert place["locator"] == "work.yaml"
    return str(details["rule"]), place["line"], place["column"]


def test_tree_keeps_text_quoting_and_places() -> None:
    found = tree("a: yes\nb:\n  - '1.0'\n  - null\n")
    assert type(found) is Table
    key, value = found.entries["a"]
    assert (key.line, key.column) == (1, 1)
    assert value == Scalar("yes", plain=True, line=1, column=4)
    listing = found.entries["b"][1]
    assert type(listing) is Listing
    assert listing.items == [Scalar("1.0", False, 3, 5), Scalar("null", True, 4, 5)]


def test_only_plain_null_and_plain_truth_have_a_meaning() -> None:
    found = tree("[null, 'null', ~, '', , true, 'true', False, yes]".replace(" ,", ""))
    assert type(found) is Listing
    scalars = [each for each in found.items if type(each) is Scalar]
    assert [each.absent for each in scalars] == [True, False, True, False, False, False, False, False]
    assert [each.truth for each in scalars] == [None, None, None, None, True, None, False, None]


def test_alias_shares_its_node() -> None:
    found = tree("a: &x [1]\nb: *x\n")
    assert type(found) is Table
    assert found.entries["a"][1] is found.entries["b"][1]


def test_core_tags_are_accepted_and_text_tag_quotes() -> None:
    found = tree("!!map {a: !!str null, b: !!int 5, c: !!seq [], d: ! true}")
    assert type(found) is Table
    assert found.entries["a"][1] == Scalar("null", False, 1, 11)
    assert [type(node) for _, node in found.entries.values()] == [Scalar, Scalar, Listing, Scalar]


@pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n"])
def test_text_without_a_document_has_no_tree(text: str) -> None:
    assert tree(text) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: zebra\na: 2\n", ("yaml.duplicate_key", 3, 1)),
        ('a: {x: 1, "x": zebra}\n', ("yaml.duplicate_key", 1, 11)),
        ("a: 1\n---\nzebra: 2\n", ("yaml.one_document", 2, 1)),
        ("a: !zebra x\n", ("yaml.tag", 1, 4)),
        ("a: !!python/object:os.system zebra\n", ("yaml.tag", 1, 4)),
        ("a: !!binary emVicmE=\n", ("yaml.tag", 1, 4)),
        ("a: !zebra {}\n", ("yaml.tag", 1, 4)),
        ("a: &zebra [*zebra]\n", ("yaml.recursion", 1, 12)),
        ("a: &zebra\n  b: *zebra\n", ("yaml.recursion", 2, 6)),
        ("a: *zebra\n", ("yaml.alias", 1, 4)),
        ("? [zebra]\n: 1\n", ("yaml.key", 1, 3)),
        ("a:\n\tzebra: 1\n", ("yaml.tab", 2, 1)),
        ("zebra\n: [\n", ("yaml.syntax", 2, 1)),
        ("a: zebra\x07\n", ("yaml.syntax", 1, 9)),
        ("a: zebra\nb: '\x01'", ("yaml.syntax", 2, 5)),
        ("a: [zebra\n", ("yaml.syntax", 2, 1)),
    ],
)
def test_broken_yaml_is_invalid_with_its_place(text: str, place: tuple[str, int, int]) -> None:
    assert refused(text) == place


def test_merge_key_is_unsupported_with_its_place() -> None:
    assert refused("a: &x {b: zebra}\nc:\n  <<: *x\n", Unsupported) == ("yaml.merge_key", 3, 3)


def test_quoted_merge_sign_is_an_ordinary_key() -> None:
    found = tree('"<<": 1\n')
    assert type(found) is Table
    assert "<<" in found.entries


def test_depth_is_bounded_inclusively() -> None:
    limit = document.MAX_DEPTH
    assert tree("[" * limit + "]" * limit) is not None
    assert refused("[" * (limit + 1) + "]" * (limit + 1))[0] == "yaml.depth"


@pytest.mark.parametrize("unit", ["[", "- ", "{a: ", "? ", "[a,"])
def test_million_brackets_are_refused_and_do_not_end_the_process(unit: str) -> None:
    assert refused(unit * 1_000_000)[0] in {"yaml.depth", "yaml.key"}


def test_alias_bomb_of_values_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refused("\n".join(lines))[0] == "yaml.size"


def test_alias_bomb_of_one_long_text_is_refused() -> None:
    text = "t: &t " + "x" * 1_000_000 + "\nall:\n" + "  - *t\n" * 100
    assert refused(text)[0] == "yaml.size"


def test_some_aliases_are_fine() -> None:
    found = tree("a: &a [x, y]\nb: [*a, *a]\nc: &c z\nd: {*c : 1}\n")
    assert type(found) is Table
    assert len(found.entries) == 4


def test_top_level_collections_name_lists_and_maps_only() -> None:
    wanted = frozenset({"goals", "plans"})
    assert list(top_level_collections("goals: []\nx: {plans: []}\nplans: {a: 1}\n", wanted=wanted)) == [
        "goals",
        "plans",
    ]
    assert list(top_level_collections("goals: 1\nplans: text\n", wanted=wanted)) == []
    assert list(top_level_collections("x: goals\ny: [1]\n", wanted=wanted)) == []
    assert list(top_level_collections("? [a]\n: goals\nplans: []\n", wanted=wanted)) == ["plans"]


@given(st.text())
@example("\ufeff")
@example("%YAML 9.9\n---\n")
@example("%TAG ! x\n")
def test_any_text_gives_a_tree_or_one_of_our_errors(text: str) -> None:
    try:
        found = tree(text)
    except AwrError as error:
        assert error.details["location"]
    else:
        assert found is None or isinstance(found, Scalar | Listing | Table)


@given(st.text(alphabet="a:-[]{}&*!|>'\"#%@?,<~ \n\t01"))
def test_any_mix_of_yaml_signs_gives_a_tree_or_one_of_our_errors(text: str) -> None:
    try:
        tree(text)
    except AwrError as error:
        assert error.details["rule"]

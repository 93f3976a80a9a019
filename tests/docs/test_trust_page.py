"""The page about trust has the tables of the code."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

import pytest

from awr.domain.lineage import MAX_WHO_BYTES, MAX_WHY_BYTES, Endorsement
from awr.domain.provenance import DEFAULTS, MAX_READER_BYTES, MAX_SOURCE_ID, TRUSTS
from awr.guardian.trust_file import MAX_RULES, TRUST_FILE_LIMIT, RuleTable, default_place
from tests.docs.console import ROOT

TEXT = (ROOT / "docs" / "reference" / "trust.md").read_text()


def table(heading: str) -> dict[str, str]:
    """Return the rows of the table under a heading row, by their first cell."""
    start = TEXT.index(f"| {heading} |")
    rows = [line.strip("|").split("|") for line in TEXT[start:].split("\n\n", 1)[0].splitlines()[2:]]
    return {row[0].strip().strip("`"): row[1].strip() for row in rows}


def test_the_defaults_are_those_of_the_code() -> None:
    shown = {origin: f"`{trust}`" for origin, trust in DEFAULTS.items()}
    shown["agent_generated"] = f"what it derives from; `{DEFAULTS['agent_generated']}` when it names nothing"
    found = table("origin")
    assert found == shown
    assert list(found) == list(DEFAULTS)


def test_the_order_of_trust_is_that_of_the_code() -> None:
    assert table("axis")["trust"] == " < ".join(f"`{trust}`" for trust in TRUSTS)


def test_the_keys_of_a_rule_and_the_fields_of_an_endorsement_are_all_of_them() -> None:
    assert list(table("key of a rule")) == list(RuleTable.__struct_fields__)
    assert set(table("field")) == set(Endorsement.__struct_fields__)


def test_the_limits_are_those_of_the_code() -> None:
    assert table("what") == {
        "file": f"{TRUST_FILE_LIMIT // 1024} KiB",
        "rules": f"{MAX_RULES:,}",
        "source_id": f"{MAX_SOURCE_ID} characters",
        "a principal": f"{MAX_READER_BYTES} bytes",
    }
    assert table("field")["who"].startswith(f"1 to {MAX_WHO_BYTES} bytes")
    assert table("field")["why"].startswith(f"1 to {MAX_WHY_BYTES:,} bytes")


@pytest.mark.parametrize("field", ["trust", "scope"])
def test_the_choices_of_an_endorsement_are_those_of_the_code(field: str) -> None:
    choices = get_args(get_type_hints(Endorsement)[field])
    assert len(choices) == 2
    assert set(re.findall(r"`(\w+)`", table("field")[field])) == set(choices)


def test_the_operators_place_is_the_one_that_is_looked_in() -> None:
    assert f"`{default_place({'XDG_CONFIG_HOME': '/x'}).as_posix().replace('/x', '$XDG_CONFIG_HOME')}`" in TEXT
    assert f"`{default_place({'HOME': '/h'}).as_posix().replace('/h', '~')}`" in TEXT

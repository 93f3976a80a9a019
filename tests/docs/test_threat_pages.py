"""The pages on threats name tests that are there, and every requirement and risk of the lists that they map."""

from __future__ import annotations

import re

import pytest

from tests.docs.console import ROOT

PAGES = ROOT / "docs" / "explanation"
HELD_BY = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")


def text_of(page: str) -> str:
    return (PAGES / page).read_text()


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_test_that_the_threat_model_names_is_in_the_file_that_it_links_to() -> None:
    named = HELD_BY.findall(text_of("threat-model.md"))
    assert len(named) > 50
    assert [name for name, file in named if f"def {name}(" not in (PAGES / file).read_text()] == []


def test_every_attacker_has_a_table_and_tests() -> None:
    sections = re.split(r"^## (?=\d)", text_of("threat-model.md"), flags=re.MULTILINE)[1:]
    assert [section[0] for section in sections] == list("1234567")
    for section in sections:
        assert "| what holds | what does not | what closes the gap |" in section
        assert HELD_BY.search(section)


@pytest.mark.parametrize("page", ["threat-model.md", "aarm-and-owasp.md"])
def test_every_link_to_a_heading_leads_to_one(page: str) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text_of(page)):
        if anchor not in anchors((PAGES / (target or page)).read_text()):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_every_requirement_of_aarm_and_every_risk_of_owasp_has_one_row() -> None:
    rows = re.findall(r"^\| (R\d|ASI\d\d) \|", text_of("aarm-and-owasp.md"), re.MULTILINE)
    assert rows == [f"R{number}" for number in range(1, 10)] + [f"ASI{number:02}" for number in range(1, 11)]

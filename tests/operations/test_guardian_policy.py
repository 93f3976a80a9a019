"""The Guardian's policies for the person in control: listed, checked, explained and tested on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from awr.errors import InvalidInput, NotFound
from awr.guardian.policies.packs import BUILT_IN, built_in, operators_place
from awr.operations.guardian_policy import (
    CheckRequest,
    ExplainRequest,
    ListRequest,
    TableRequest,
    check,
    explain,
    list_packs,
    run_tests,
)
from awr.operations.registry import OPERATIONS
from tests.support.cli import call

PERMIT = '@id("permit") permit (principal, action, resource);\n'
NIGHT = (
    '@id("large") @reason("too_large") @lifts("A smaller fold.") '
    'forbid (principal, action == Action::"preCompact", resource) when { context.entries > 100 };\n'
)
TABLE = """\
[[test]]
name = "a large fold is denied"
facts = { entries = 101 }
decision = "deny"
reason_codes = ["too_large"]

[[test]]
name = "a fold of 100 is allowed"
facts = { entries = 100 }
decision = "allow"
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "rules.cedar").write_text(PERMIT + NIGHT)
    (folder / "tests.toml").write_text(TABLE)
    return folder


def own(name: str, text: str) -> Path:
    """Put a folder into the operator's place."""
    place = operators_place()
    assert place is not None
    (place / name).mkdir(parents=True)
    (place / name / "rules.cedar").write_text(text)
    return place / name


def test_every_operation_on_policies_is_an_operators() -> None:
    found = [one for one in OPERATIONS if one.name.startswith("guardian.policy")]
    assert len(found) == 4
    assert all(one.operator and not one.exposed for one in found)


def test_the_packs_are_listed_with_what_they_are_for_and_the_operators_behind_them() -> None:
    own("mine", PERMIT)
    own("strict", PERMIT)
    own("open", PERMIT).chmod(0o777)
    rows = list_packs(ListRequest()).packs
    assert [row.name for row in rows] == [*BUILT_IN, "mine", "open", "strict"]
    assert [row.sha256 for row in rows[:4]] == [built_in(name).sha256 for name in BUILT_IN]
    assert (rows[4].source, rows[4].problem) == ("operator", None)
    assert "not safe" in str(rows[5].problem)
    assert "comes first" in str(rows[6].problem)


def test_the_packs_that_are_part_of_awr_are_good() -> None:
    result = check(Path("/"), CheckRequest())
    assert result.ok
    assert result.problem() is None
    assert [(row.name, row.problem, row.passed == row.tests > 0) for row in result.packs] == [
        (name, None, True) for name in BUILT_IN
    ]


def test_a_folder_is_checked_with_its_own_tests(house: Path) -> None:
    [row] = check(house.parent, CheckRequest(pack="./house")).packs
    assert (row.rules, row.tests, row.passed, row.problem) == (2, 2, 2, None)


def test_a_failing_test_and_a_policy_that_does_not_load_are_results_and_the_exit_code_is_1(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (house / "rules.cedar").write_text(PERMIT + NIGHT.replace("100", "101"))
    failing = call(capsys, "--project", house.parent, "guardian", "policy", "check", "./house", "--json")
    assert failing.code == 1
    assert json.loads(failing.out)["packs"][0]["problem"] == "1 test fails"
    (house / "rules.cedar").write_text(PERMIT + NIGHT.replace("context.entries", "context.entrys"))
    broken = call(capsys, "--project", house.parent, "guardian", "policy", "check", "./house", "--json")
    assert broken.code == 1
    [row] = json.loads(broken.out)["packs"]
    assert row["where"] == "large in rules.cedar"
    assert "no fact of the rule's actions" in row["problem"]
    assert json.loads(broken.err)["code"] == "InvalidInput"


def test_a_question_is_explained_by_the_rules_that_decide_it(house: Path) -> None:
    (house.parent / "facts.json").write_text('{"entries": 101, "open_waits": null}')
    result = explain(house.parent, ExplainRequest(pack="./house", facts="facts.json"))
    assert (result.decision, result.reason_codes, result.lifts) == ("deny", ("too_large",), ("A smaller fold.",))
    assert [rule.name for rule in result.rules] == ["house/large"]
    assert result.facts["entries"] == 101
    assert result.facts["open_waits"] is None
    assert "entries" not in result.assumed
    assert "trigger" in result.assumed


def test_another_action_is_explained_by_its_name(house: Path) -> None:
    (house.parent / "facts.json").write_text("{}")
    request = ExplainRequest(pack="./house", facts="facts.json", action="userMessage")
    assert explain(house.parent, request).decision == "allow"


@pytest.mark.parametrize("text", ["[]", "{", '{"entries": "a secret"}', '{"entrys": 1}', '{"entries": null}'])
def test_facts_that_do_not_fit_are_refused_without_repeating_them(house: Path, text: str) -> None:
    (house.parent / "facts.json").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        explain(house.parent, ExplainRequest(pack="./house", facts="facts.json"))
    assert "a secret" not in str(caught.value.report())


@pytest.mark.parametrize(("name", "error"), [("nothing.json", NotFound), ("house", InvalidInput)])
def test_a_file_of_facts_that_is_none_is_refused(house: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        explain(house.parent, ExplainRequest(pack="./house", facts=name))


def test_facts_beyond_every_reason_are_refused(house: Path) -> None:
    (house.parent / "facts.json").write_bytes(b" " * (256 * 1024 + 1))
    with pytest.raises(InvalidInput, match="too many bytes"):
        explain(house.parent, ExplainRequest(pack="./house", facts="facts.json"))


def test_every_row_of_a_table_is_shown_with_what_was_answered(house: Path) -> None:
    (house / "rules.cedar").write_text(PERMIT)
    result = run_tests(house.parent, TableRequest(pack="./house"))
    assert [(row.passed, row.expected, row.answered) for row in result.tests] == [
        (False, "deny too_large", "allow"),
        (True, "allow", "allow"),
    ]
    assert not result.ok
    assert isinstance(result.problem(), InvalidInput)


def test_a_pack_without_tests_has_none_to_run_and_is_good_all_the_same(house: Path) -> None:
    (house / "tests.toml").unlink()
    with pytest.raises(NotFound):
        run_tests(house.parent, TableRequest(pack="./house"))
    assert check(house.parent, CheckRequest(pack="./house")).ok


def test_people_see_the_list_the_checks_the_answer_and_the_rows(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own("open", PERMIT).chmod(0o777)
    (house.parent / "facts.json").write_text('{"untrusted_since_grounding": 1}')

    def seen(*words: str, code: int = 0) -> str:
        outcome = call(capsys, "--project", house.parent, "guardian", "policy", *words)
        assert outcome.code == code, outcome
        return outcome.out

    assert "cannot be read: the policies are not safe to use" in seen("list")
    assert "not safe" in seen("check", code=1)
    assert "good" in seen("check", "strict")
    (house / "rules.cedar").write_text(PERMIT + NIGHT.replace("100", "200"))
    assert "FAIL" in seen("test", "./house", code=1)
    told = seen("explain", "trust-boundary", "--facts", "facts.json")
    assert "because of aarm_cumulative_taint" in told
    assert "lifted by: A message of the user's" in told
    assert "gives way: at the second question" in told
    (house / "rules.cedar").write_text(NIGHT)
    assert "lifted by: A policy that permits this step" in seen("explain", "./house", "--facts", "facts.json")
    (house / "rules.cedar").write_text(
        PERMIT + NIGHT.replace("context.entries", "context.entries + 9223372036854775807")
    )
    assert "not evaluated: the rule house/large failed" in seen("explain", "./house", "--facts", "facts.json")

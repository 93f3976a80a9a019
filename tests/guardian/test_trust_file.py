"""The operator's trust map is read strictly, from the operator's place, and never from an agent's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from awr.chain import digest
from awr.domain.provenance import Label, TrustMap, TrustRule
from awr.errors import InvalidInput, Io, NotFound, RuleViolation
from awr.guardian.facts import identifier
from awr.guardian.trust_file import MAX_RULES, TRUST_FILE_LIMIT, default_place, parse_trust, read_trust

RULES = b"""
[[rule]]
origin = "tool_output"
source_id = "mcp:internal-*"
trust = "trusted"
readers = ["team", "ada"]

[[rule]]
source_id = "mcp:news"
readers = "everyone"

[[rule]]
trust = "untrusted"
readers = []
"""
RULE = b'[[rule]]\norigin = "tool_output"\ntrust = "trusted"\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def written(path: Path, data: bytes = RULE, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


# form


def test_a_file_is_its_rules_in_their_order() -> None:
    assert parse_trust(RULES).rules == (
        TrustRule(origin="tool_output", source_id="mcp:internal-*", trust="trusted", readers=("ada", "team")),
        TrustRule(source_id="mcp:news", readers=None),
        TrustRule(trust="untrusted", readers=()),
    )


@pytest.mark.parametrize("data", [b"", b"# nothing yet\n", b"rule = []\n"])
def test_a_file_without_rules_is_the_defaults(data: bytes) -> None:
    assert parse_trust(data).fingerprint == TrustMap().fingerprint


def test_a_rule_about_a_hashed_source_id_meets_it_as_it_is_kept() -> None:
    kept = identifier("x" * 300)
    found = parse_trust(f'[[rule]]\norigin = "retrieved"\nsource_id = "{kept}"\ntrust = "trusted"\n'.encode())
    assert found.classify("retrieved", kept).label == Label("trusted")


def test_a_source_id_that_is_kept_as_its_hash_meets_no_rule_about_its_beginning() -> None:
    found = parse_trust(b'[[rule]]\norigin = "system"\nsource_id = "x*"\ntrust = "untrusted"\n')
    assert found.classify("system", identifier("x" * 256)).label == Label("untrusted")
    assert found.classify("system", identifier("x" * 257)).label == Label("trusted")


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('origin = "zebra"', "rule 2, origin"),
        ('trust = "zebra"', "rule 2, trust"),
        ("source_id = 31337", "rule 2, source_id"),
        ("readers = 31337", "rule 2, readers"),
        ('readers = "zebra"', "rule 2, readers"),
        ('readers = ["ada", 31337]', "rule 2, readers"),
        ('zebra = "zebra"', "rule 2"),
        ('Trust = "zebra"', "rule 2"),
        ("", "rule 2"),
        ('source_id = "zebra*zebra"\ntrust = "unknown"', "rule 2"),
        ('trust = "trusted"\nsource_id = "zebra"', "rule 2"),
        ('trust = "unknown"\nsource_id = ""', "rule 2"),
        ('trust = "unknown"\nreaders = [""]', "rule 2"),
        ('origin = "tool_output"\nsource_id = "zebra"\ntrust = "unknown"', "rule 2"),
    ],
)
def test_a_rule_that_does_not_fit_is_named_by_its_number_and_never_by_its_text(line: str, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_trust(RULE + f"[[rule]]\n{line}\n".encode())
    shown = str(refused.value.report())
    assert where in shown
    assert "zebra" not in shown
    assert "31337" not in shown
    assert {"got", "expected", "next_step"} <= refused.value.details.keys()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"zebra = 1\n" + RULE, "has a key that does not belong there"),
        (b"[rule]\norigin = 'zebra'\n", "has rules of another form"),
        (b"rule = 'zebra'\n", "has rules of another form"),
        (b"rule = ['zebra']\n", "does not fit at rule 1"),
        (b"rule = [[]]\n", "does not fit at rule 1"),
        (b"zebra", "is not valid TOML"),
        (b"[[rule]]\ntrust = 'zebra'\ntrust = 'zebra'\n", "is not valid TOML"),
        (b"zebra = \xff", "is not valid TOML"),
        (b"x = " + b"[" * 30_000, "is not valid TOML"),
    ],
)
def test_a_file_of_another_form_is_refused_without_a_word_of_it(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        parse_trust(data)
    assert "zebra" not in str(refused.value.report())


def many(number: int) -> bytes:
    return b"rule=[" + b"".join(b"{source_id='%d',readers=[]}," % each for each in range(number)) + b"]"


def test_a_file_has_at_most_1000_rules() -> None:
    assert len(parse_trust(many(MAX_RULES)).rules) == MAX_RULES == 1000
    with pytest.raises(InvalidInput) as refused:
        parse_trust(many(MAX_RULES + 1))
    assert refused.value.details["got"] == 1001


def test_a_file_has_at_most_64_kib(tmp_path: Path, environment: dict[str, str]) -> None:
    whole = written(tmp_path / "trust.toml", RULE.ljust(TRUST_FILE_LIMIT, b"\n"))
    assert len(read_trust(whole, environment=environment, workspace=None).rules) == 1
    with whole.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(InvalidInput, match="too big"):
        read_trust(whole, environment=environment, workspace=None)


# place


def test_the_operators_place_is_below_an_absolute_xdg_folder_or_the_home() -> None:
    assert default_place({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/awr/trust.toml")
    for other in ("", "relative"):
        assert default_place({"XDG_CONFIG_HOME": other, "HOME": "/h"}) == Path("/h/.config/awr/trust.toml")
    assert default_place({"HOME": "/h"}) == Path("/h/.config/awr/trust.toml")
    assert default_place({}) == Path.home() / ".config/awr/trust.toml"


def test_without_a_file_in_the_operators_place_the_defaults_hold(
    environment: dict[str, str], workspace: Path
) -> None:
    assert read_trust(None, environment=environment, workspace=workspace).rules == ()
    written(default_place(environment))
    assert len(read_trust(None, environment=environment, workspace=workspace).rules) == 1


def test_a_file_that_is_named_and_not_there_is_no_default(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(NotFound):
        read_trust(tmp_path / "none.toml", environment=environment, workspace=None)
    with pytest.raises(NotFound):
        read_trust(None, environment=environment, workspace=None, pinned_sha256=digest(RULE))


def test_a_file_in_the_workspace_is_refused_until_its_hash_is_pinned(
    workspace: Path, environment: dict[str, str]
) -> None:
    path = written(workspace / "deep" / "trust.toml")
    with pytest.raises(RuleViolation, match="workspace"):
        read_trust(path, environment=environment, workspace=workspace)
    pinned = digest(RULE)
    for spelled in (pinned, pinned.upper()):
        found = read_trust(path, environment=environment, workspace=workspace, pinned_sha256=spelled)
        assert len(found.rules) == 1
    written(path, RULE + b"# changed\n")
    with pytest.raises(RuleViolation, match="pinned"):
        read_trust(path, environment=environment, workspace=workspace, pinned_sha256=pinned)


def test_a_pin_counts_outside_of_the_workspace_as_well(tmp_path: Path, environment: dict[str, str]) -> None:
    path = written(tmp_path / "trust.toml")
    with pytest.raises(RuleViolation, match="pinned"):
        read_trust(path, environment=environment, workspace=None, pinned_sha256="0" * 64)


@pytest.mark.parametrize("pin", ["", "0" * 63, "0" * 65, "g" * 64, "sha256:" + "0" * 64])
def test_a_pin_that_is_no_hash_is_refused(tmp_path: Path, environment: dict[str, str], pin: str) -> None:
    with pytest.raises(InvalidInput):
        read_trust(written(tmp_path / "t.toml"), environment=environment, workspace=None, pinned_sha256=pin)


def test_the_operators_place_inside_of_the_workspace_is_refused_too(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    home = Path(environment["HOME"])
    home.mkdir()
    assert read_trust(None, environment=environment, workspace=home).rules == ()
    written(default_place(environment))
    with pytest.raises(RuleViolation, match="workspace"):
        read_trust(None, environment=environment, workspace=home)


def test_no_way_through_the_workspace_hides_where_a_file_lies(
    tmp_path: Path, workspace: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = written(tmp_path / "operator" / "trust.toml")
    inside = written(workspace / "trust.toml")
    # Links that the agent can turn to another folder, even where they lead out of the workspace now.
    (workspace / "out").symlink_to(outside.parent)
    (tmp_path / "way").symlink_to("workspace/out")
    (tmp_path / "other").symlink_to(workspace)
    refused = [inside, workspace / "out" / "trust.toml", tmp_path / "way" / "trust.toml"]
    refused += [tmp_path / "other" / "trust.toml", tmp_path / "operator" / ".." / "workspace" / "trust.toml"]
    monkeypatch.chdir(workspace)
    refused += [Path("trust.toml"), Path("../workspace/trust.toml")]
    for path in refused:
        for seen in (workspace, tmp_path / "other"):
            with pytest.raises(RuleViolation, match="workspace"):
                read_trust(path, environment=environment, workspace=seen)
    (tmp_path / "operators").symlink_to(outside.parent)
    for path in (outside, Path("../operator/trust.toml"), tmp_path / "operators" / "trust.toml"):
        assert len(read_trust(path, environment=environment, workspace=workspace).rules) == 1


def test_a_workspace_that_cannot_be_looked_at_is_an_error(tmp_path: Path, environment: dict[str, str]) -> None:
    path = written(tmp_path / "trust.toml")
    with pytest.raises(Io):
        read_trust(path, environment=environment, workspace=tmp_path / "nowhere")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o664])
def test_a_file_that_others_may_write_is_refused_pinned_or_not(
    tmp_path: Path, environment: dict[str, str], mode: int
) -> None:
    path = written(tmp_path / "trust.toml", mode=mode)
    for pin in (None, digest(RULE)):
        with pytest.raises(RuleViolation) as refused:
            read_trust(path, environment=environment, workspace=None, pinned_sha256=pin)
        assert refused.value.details["got"] == f"mode {mode:04o}"


def test_a_file_that_others_may_only_read_is_taken(tmp_path: Path, environment: dict[str, str]) -> None:
    path = written(tmp_path / "trust.toml", mode=0o644)
    assert len(read_trust(path, environment=environment, workspace=None).rules) == 1


def test_a_link_a_pipe_or_a_folder_in_its_place_is_refused_at_once(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "link").symlink_to(written(tmp_path / "trust.toml"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("link", "pipe", "folder", "trust.toml/below"):
        with pytest.raises(RuleViolation):
            read_trust(tmp_path / name, environment=environment, workspace=None)


def test_a_link_in_the_operators_place_is_no_missing_file(tmp_path: Path, environment: dict[str, str]) -> None:
    place = default_place(environment)
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RuleViolation):
        read_trust(None, environment=environment, workspace=None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody")
def test_a_file_of_another_user_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    path = written(tmp_path / "trust.toml")
    os.chown(path, 12345, -1)
    with pytest.raises(RuleViolation) as refused:
        read_trust(path, environment=environment, workspace=None)
    assert refused.value.details["got"] == "a file of another user"

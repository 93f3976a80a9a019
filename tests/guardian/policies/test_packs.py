"""Packs are read from where an operator alone can write, and from nowhere else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from awr.errors import AwrError, InvalidInput, Io, NotFound, RuleViolation
from awr.guardian.policies.folder import MAX_FILE_BYTES, MAX_FILES
from awr.guardian.policies.packs import BUILT_IN, built_in, chosen, operators_place, own_packs, pack_at

POLICY = '@id("permit") permit (principal, action, resource);\n'


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with one policy."""
    folder = tmp_path / "house"
    folder.mkdir(mode=0o755)
    (folder / "rules.cedar").write_text(POLICY)
    (folder / "rules.cedar").chmod(0o644)
    return folder


def test_the_built_in_packs_have_the_names_that_the_command_line_uses() -> None:
    assert {name: built_in(name).id for name in BUILT_IN} == {name: name for name in BUILT_IN}
    assert built_in("observe").policies == {}
    assert all(built_in(name).tests for name in BUILT_IN)


def test_a_folder_without_a_manifest_is_called_as_it_is_named(house: Path) -> None:
    pack = pack_at(house)
    assert (pack.id, pack.version, pack.grounding, pack.source) == ("house", "0", "user_step", "operator")
    assert pack.policies == {"rules.cedar": POLICY}
    assert len(pack.sha256) == 64


def test_a_manifest_says_what_the_pack_is(house: Path) -> None:
    (house / "pack.toml").write_text(
        'id = "ours"\nversion = "2.1"\npurpose = "Ours."\ngrounding = "endorsement"\nextends = ["strict"]\n'
    )
    packs = chosen(f"{house}/", root=Path("/"))
    assert [pack.id for pack in packs] == ["trust-boundary", "strict", "ours"]
    assert (packs[-1].version, packs[-1].grounding) == ("2.1", "endorsement")


def test_a_pack_may_have_no_policy_of_its_own_where_it_extends_one(tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "pack.toml").write_text(
        'id = "both"\nversion = "1"\npurpose = "Both."\nextends = ["trust-boundary", "open-work"]\n'
    )
    assert [pack.id for pack in chosen(str(folder), root=Path("/"))] == ["trust-boundary", "open-work", "both"]


def test_the_hash_changes_with_every_byte_that_decides_and_with_nothing_else(house: Path) -> None:
    hashes = [pack_at(house).sha256]
    (house / "tests.toml").write_text("")
    (house / "README.md").write_text("Read me.")
    (house / ".notes.cedar").write_text("not a policy")
    assert pack_at(house).sha256 == hashes[0]
    (house / "rules.cedar").write_text(POLICY + " ")
    hashes.append(pack_at(house).sha256)
    (house / "rules.cedar").rename(house / "rule.cedar")
    hashes.append(pack_at(house).sha256)
    (house / "pack.toml").write_text('id = "house"\nversion = "1"\npurpose = "Ours."\n')
    hashes.append(pack_at(house).sha256)
    assert len(set(hashes)) == 4


def linked_folder(house: Path) -> Path:
    (house.parent / "link").symlink_to(house)
    return house.parent / "link"


def linked_file(house: Path) -> Path:
    (house / "rules.cedar").rename(house.parent / "elsewhere")
    (house / "rules.cedar").symlink_to(house.parent / "elsewhere")
    return house


def link_on_the_way(house: Path) -> Path:
    (house.parent / "way").symlink_to(house.parent)
    return house.parent / "way" / "house"


def writable_folder(house: Path) -> Path:
    house.chmod(0o775)
    return house


def writable_file(house: Path) -> Path:
    (house / "rules.cedar").chmod(0o666)
    return house


def writable_way(house: Path) -> Path:
    house.parent.chmod(0o777)
    return house


def pipe(house: Path) -> Path:
    os.mkfifo(house / "more.cedar")
    return house


def folder_like_a_file(house: Path) -> Path:
    (house / "more.cedar").mkdir()
    return house


def file_like_a_folder(house: Path) -> Path:
    return house / "rules.cedar"


def builtins_name(house: Path) -> Path:
    (house / "pack.toml").write_text('id = "strict"\nversion = "1"\npurpose = "Not strict."\n')
    return house


@pytest.mark.parametrize(
    "spoil",
    [
        linked_folder,
        linked_file,
        link_on_the_way,
        writable_folder,
        writable_file,
        writable_way,
        pipe,
        folder_like_a_file,
        file_like_a_folder,
        builtins_name,
    ],
)
def test_what_somebody_else_could_change_is_refused(house: Path, spoil: Callable[[Path], Path]) -> None:
    with pytest.raises(RuleViolation):
        pack_at(spoil(house))


def test_a_sticky_folder_on_the_way_is_safe(house: Path) -> None:
    house.parent.chmod(0o1777)
    assert pack_at(house).id == "house"


def empty(house: Path) -> None:
    (house / "rules.cedar").unlink()


def too_large(house: Path) -> None:
    (house / "rules.cedar").write_bytes(b" " * (MAX_FILE_BYTES + 1))


def too_many(house: Path) -> None:
    for number in range(MAX_FILES):
        (house / f"{number}.cedar").write_text(POLICY)


def too_much(house: Path) -> None:
    for number in range(5):
        (house / f"{number}.cedar").write_bytes(b" " * MAX_FILE_BYTES)


def too_full(house: Path) -> None:
    for number in range(1025):
        (house / str(number)).touch()


def odd_name(house: Path) -> None:
    (house / "two words.cedar").write_text(POLICY)


def not_text(house: Path) -> None:
    (house / "rules.cedar").write_bytes(b"\xff")


def manifest(text: str) -> Callable[[Path], None]:
    def write(house: Path) -> None:
        (house / "pack.toml").write_text(text)

    return write


GOOD = 'id = "house"\nversion = "1"\npurpose = "Ours."\n'


@pytest.mark.parametrize(
    "spoil",
    [
        empty,
        too_large,
        too_many,
        too_much,
        too_full,
        odd_name,
        not_text,
        manifest("id = "),
        manifest("a" * 3 + " = " + "[" * 10_000),
        manifest('id = "house"\n'),
        manifest(GOOD.replace("house", "The House")),
        manifest(GOOD.replace("Ours.", "Ours.\\nAnd theirs.")),
        manifest(GOOD + "more = 1\n"),
        manifest(GOOD + 'grounding = "hope"\n'),
        manifest(GOOD + 'leaves_out = ["unknown-step"]\n'),
        manifest(GOOD + 'extends = ["observe"]\n'),
        manifest(GOOD + 'extends = ["house"]\n'),
    ],
)
def test_a_folder_that_is_no_pack_is_refused(house: Path, spoil: Callable[[Path], None]) -> None:
    spoil(house)
    with pytest.raises(InvalidInput):
        chosen(str(house), root=Path("/"))


def test_a_folder_whose_name_is_no_name_needs_a_manifest(house: Path) -> None:
    other = house.rename(house.parent / "My House")
    with pytest.raises(InvalidInput):
        pack_at(other)
    (other / "pack.toml").write_text(GOOD)
    assert pack_at(other).id == "house"


def test_a_folder_in_the_project_is_taken_only_with_its_hash(house: Path) -> None:
    project = house.parent
    with pytest.raises(RuleViolation):
        pack_at(house, workspace=project)
    with pytest.raises(RuleViolation):
        pack_at(project / "x" / ".." / "house", workspace=project)
    found = pack_at(house)
    assert pack_at(house, workspace=project, sha256=f"sha256:{found.sha256}") == found
    (house / "rules.cedar").write_text(POLICY + POLICY)
    with pytest.raises(RuleViolation, match="not the ones that were pinned"):
        pack_at(house, workspace=project, sha256=found.sha256)


def test_a_folder_elsewhere_is_taken_and_a_hash_is_compared_all_the_same(house: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    assert pack_at(house, workspace=tmp_path / "project").id == "house"
    with pytest.raises(RuleViolation):
        pack_at(house, sha256="0" * 64)


def test_a_pack_of_awrs_can_be_pinned_too() -> None:
    found = built_in("strict")
    assert chosen("strict", root=Path("/"), sha256=found.sha256)[-1] == found
    with pytest.raises(RuleViolation):
        chosen("strict", root=Path("/"), sha256="0" * 64)


@pytest.mark.parametrize(("variable", "below"), [("XDG_CONFIG_HOME", "."), ("HOME", ".config")])
def test_the_operators_place_is_in_the_folder_of_configuration(
    house: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv(variable, str(house.parent))
    assert own_packs() == ()
    place = house.parent / below / "awr" / "policies"
    place.mkdir(parents=True)
    shutil.copytree(house, place / "mine")
    (place / "Not A Name").mkdir()
    assert operators_place() == place
    assert own_packs() == ("mine",)
    assert chosen("mine", root=Path("/"))[-1].id == "mine"


def test_without_a_home_folder_there_is_no_operators_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.delenv("HOME")
    assert operators_place() is None
    assert own_packs() == ()


@pytest.mark.parametrize("name", ["nothing", "..\0", "", "~", "no such", "./nothing", "/"])
def test_a_name_that_means_no_pack_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(AwrError) as caught:
        chosen(name, root=tmp_path)
    assert isinstance(caught.value, NotFound | InvalidInput | Io | RuleViolation)

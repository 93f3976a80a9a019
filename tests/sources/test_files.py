"""A source is read once, from inside the project, through no link, up to its cap."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from awr.errors import InvalidInput, Io, RuleViolation, SourceConflict, SourceUnavailable, Unsupported
from awr.sources.files import (
    MARKDOWN_LIMIT,
    YAML_LIMIT,
    Location,
    decode_utf8,
    fingerprint,
    named_file,
    read_location,
    read_source,
    resolve_location,
)
from awr.sources.manifest import SourceMapping


def mapped(root: Path, place: str, *, roots: tuple[str, ...] = ()) -> bytes:
    path, locator = (None, place) if "://" in place else (place, None)
    mapping = SourceMapping(domain="ledger", adapter="yaml-ledger-v1", path=path, locator=locator)
    return read_source(root, mapping, authorized_roots=roots)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    home = tmp_path / "project"
    (home / "plans").mkdir(parents=True)
    (home / "plans" / "work.yaml").write_bytes(b"goals: []\n")
    return home


def test_relative_path_is_read_with_its_fingerprint(root: Path) -> None:
    location = resolve_location("./plans//work.yaml", root=root)
    source = read_location(location, limit=YAML_LIMIT)
    assert location.locator == "plans/work.yaml"
    assert source.data == b"goals: []\n"
    assert source.fingerprint == "sha256:" + hashlib.sha256(b"goals: []\n").hexdigest() == fingerprint(source.data)


def test_file_address_below_the_root_is_read_under_its_relative_name(root: Path) -> None:
    assert mapped(root, f"file://{root}/plans/work.yaml") == b"goals: []\n"
    assert resolve_location(f"file://{root}/plans/work.yaml", root=root).locator == "plans/work.yaml"


def test_file_address_with_percent_signs_is_decoded(root: Path) -> None:
    (root / "my work.yaml").write_bytes(b"x")
    assert mapped(root, f"file://localhost{root}/my%20work.yaml") == b"x"


def test_authorized_root_opens_its_folder_and_nothing_beside_it(root: Path) -> None:
    for name in ("shared", "private"):
        (root.parent / name).mkdir()
        (root.parent / name / "a.yaml").write_bytes(name.encode())
    assert mapped(root, f"file://{root.parent}/shared/a.yaml", roots=("../shared",)) == b"shared"
    for place in (f"file://{root.parent}/private/a.yaml", f"file://{root.parent}/shared-not/a.yaml"):
        with pytest.raises(RuleViolation):
            mapped(root, place, roots=("../shared",))


def test_authorized_root_that_is_a_link_is_refused(root: Path) -> None:
    (root.parent / "real").mkdir()
    (root.parent / "real" / "a.yaml").write_bytes(b"x")
    (root.parent / "shared").symlink_to(root.parent / "real")
    with pytest.raises(RuleViolation):
        mapped(root, f"file://{root.parent}/shared/a.yaml", roots=("../shared",))


@pytest.mark.parametrize("place", ["../x.yaml", "plans/../../x.yaml", "/etc/hostname", "file:///etc/hostname"])
def test_place_outside_the_project_is_refused(root: Path, place: str) -> None:
    with pytest.raises(RuleViolation):
        mapped(root, place)


def test_parent_step_in_a_file_address_is_refused_even_when_encoded(root: Path) -> None:
    for steps in ("../work.yaml", "%2e%2e/work.yaml"):
        with pytest.raises(RuleViolation):
            mapped(root, f"file://{root}/plans/{steps}")


@pytest.mark.parametrize("place", ["git://main:work.yaml", "https://example.com/x.yaml"])
def test_other_schemes_are_unsupported(root: Path, place: str) -> None:
    with pytest.raises(Unsupported):
        mapped(root, place)


@pytest.mark.parametrize("place", ["file://host/x.yaml", "file:///a%00b", "a\nb.yaml", " ", ".", "x" * 5000])
def test_location_that_names_nothing_is_invalid(root: Path, place: str) -> None:
    with pytest.raises(InvalidInput):
        resolve_location(place, root=root)


@pytest.mark.parametrize("place", ["plans/none.yaml", "none/work.yaml", "plans/work.yaml/deeper.yaml"])
def test_missing_file_is_unavailable(root: Path, place: str) -> None:
    with pytest.raises(SourceUnavailable):
        mapped(root, place)


def test_link_as_the_file_or_on_the_way_is_refused(root: Path) -> None:
    (root / "link.yaml").symlink_to(root / "plans" / "work.yaml")
    (root / "way").symlink_to(root / "plans")
    for place in ("link.yaml", "way/work.yaml"):
        with pytest.raises(RuleViolation):
            mapped(root, place)


def test_link_above_the_root_is_no_concern(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert mapped(tmp_path / "alias", "plans/work.yaml") == b"goals: []\n"
    assert mapped(tmp_path / "alias", f"file://{root}/plans/work.yaml") == b"goals: []\n"


def test_directory_and_named_pipe_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe.yaml")
    for place, kind in (("plans", "a directory"), ("pipe.yaml", "a named pipe")):
        with pytest.raises(InvalidInput) as raised:
            mapped(root, place)
        assert raised.value.details["got"] == kind


def test_device_named_by_a_person_is_refused() -> None:
    with pytest.raises(InvalidInput) as raised:
        read_location(named_file(Path(os.devnull)), limit=10)
    assert raised.value.details["got"] == "a device"


def test_cap_is_inclusive_and_one_byte_more_is_refused(root: Path) -> None:
    big = root / "big.yaml"
    big.write_bytes(b"#" * YAML_LIMIT)
    assert len(mapped(root, "big.yaml")) == YAML_LIMIT
    big.write_bytes(b"#" * (YAML_LIMIT + 1))
    with pytest.raises(InvalidInput) as raised:
        mapped(root, "big.yaml")
    assert raised.value.details["rule"] == "source.size"


@pytest.mark.parametrize("substitute", ["file", "link", "pipe"])
def test_file_replaced_between_the_look_and_the_open_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, substitute: str
) -> None:
    target = root / "plans" / "work.yaml"
    real_open = os.open

    def open_after_replacement(name: str, flags: int, **options: int) -> int:
        if name == "work.yaml":
            target.rename(root / "old.yaml")
            if substitute == "file":
                target.write_bytes(b"other")
            elif substitute == "link":
                target.symlink_to(root / "old.yaml")
            else:
                os.mkfifo(target)
        return real_open(name, flags, **options)

    monkeypatch.setattr(os, "open", open_after_replacement)
    with pytest.raises((SourceConflict, RuleViolation)):
        mapped(root, "plans/work.yaml")


def test_file_that_grows_while_it_is_read_is_a_conflict(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = root / "plans" / "work.yaml"
    real_read = os.read

    def read_and_grow(descriptor: int, size: int) -> bytes:
        chunk = real_read(descriptor, size)
        if not chunk:
            with target.open("ab") as file:
                file.write(b"more")
        return chunk

    monkeypatch.setattr(os, "read", read_and_grow)
    with pytest.raises(SourceConflict):
        mapped(root, "plans/work.yaml")


def test_unreadable_file_is_unavailable_and_other_failures_are_io(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(error: OSError) -> None:
        def stat(*_: object, **__: object) -> os.stat_result:
            raise error

        monkeypatch.setattr(os, "stat", stat)

    refuse(PermissionError(13, "no"))
    with pytest.raises(SourceUnavailable):
        mapped(root, "plans/work.yaml")
    refuse(OSError(5, "broken"))
    with pytest.raises(Io):
        mapped(root, "plans/work.yaml")


def test_name_too_long_for_the_system_is_invalid(root: Path) -> None:
    with pytest.raises(InvalidInput):
        mapped(root, "y" * 300 + ".yaml")


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link.yaml").symlink_to(root / "plans" / "work.yaml")
    before = open_descriptors()
    mapped(root, "plans/work.yaml")
    for place in ("link.yaml", "plans", "plans/none.yaml"):
        with pytest.raises((RuleViolation, InvalidInput, SourceUnavailable)):
            mapped(root, place)
    assert open_descriptors() == before


def test_bytes_that_are_not_utf8_are_placed(root: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        decode_utf8(b"a\nb\xc3\xa9\xff\n", locator="x.yaml")
    assert raised.value.details["location"] == {"locator": "x.yaml", "pointer": "", "line": 2, "column": 3}


def test_byte_order_mark_is_left_out() -> None:
    assert decode_utf8(b"\xef\xbb\xbfgoals", locator="x") == "goals"
    with pytest.raises(InvalidInput) as raised:
        decode_utf8(b"\xef\xbb\xbf\xff", locator="x")
    assert raised.value.details["got"] == "another encoding at byte 3"


def test_location_knows_its_path(tmp_path: Path) -> None:
    assert Location(tmp_path, ("a", "b"), "a/b").path == tmp_path / "a" / "b"


def test_markdown_of_two_mebibytes_is_read_and_one_byte_more_refused(root: Path) -> None:
    big = root / "RULES.md"
    mapping = SourceMapping(domain="rules", path="RULES.md", adapter="markdown-rules-v1")
    big.write_bytes(b"#" * MARKDOWN_LIMIT)
    assert len(read_source(root, mapping)) == MARKDOWN_LIMIT
    big.write_bytes(b"#" * (MARKDOWN_LIMIT + 1))
    with pytest.raises(InvalidInput) as raised:
        read_source(root, mapping)
    assert raised.value.details["rule"] == "source.size"

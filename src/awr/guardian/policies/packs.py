"""Packs of policies: which there are, where they lie, what their `pack.toml` says. Nothing here needs Cedar.

A pack is a folder of `*.cedar` files with a `pack.toml` and, to be tried, a `tests.toml`. Four are part of AWR. An
operator's own lie in the operator's place, or where a path says.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.guardian.envelope import place_of
from awr.guardian.policies.folder import PolicyFolder, read_folder

__all__ = [
    "BUILT_IN",
    "OBSERVE",
    "Grounding",
    "Pack",
    "Rule",
    "built_in",
    "chosen",
    "operators_place",
    "own_packs",
    "pack_at",
]

#: How a session is re-grounded: by a later trusted step of its user's, or only by an operator's endorsement.
Grounding = Literal["user_step", "endorsement"]

#: The packs that are part of AWR, from the mildest, with their folders.
BUILT_IN: Mapping[str, str] = {
    "observe": "observe",
    "trust-boundary": "trust_boundary",
    "strict": "strict",
    "open-work": "open_work",
}
OBSERVE = "observe"

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_Name = Annotated[str, msgspec.Meta(pattern=rf"\A{NAME.pattern}\Z")]
_Version = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.+-]{0,31}\Z")]
_Purpose = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,200}\Z")]
_RuleName = Annotated[str, msgspec.Meta(pattern=rf"\A{NAME.pattern}/{NAME.pattern}\Z")]
#: Of a folder without a `pack.toml`; its hash says which one it is.
UNVERSIONED = "0"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a `pack.toml` says."""

    id: _Name
    version: _Version
    purpose: _Purpose
    grounding: Grounding = "user_step"
    extends: tuple[_Name, ...] = ()
    leaves_out: tuple[_RuleName, ...] = ()


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """One pack as it was read.

    `policies` are the texts of its files by their names. `sha256` is over everything that decides: each policy file
    and the `pack.toml`. `extends` names packs of AWR's that apply beside this one, `leaves_out` rules of theirs, as
    PACK/RULE, that do not. `tests` is the text of its table of tests.
    """

    id: str
    version: str
    purpose: str
    grounding: Grounding
    extends: tuple[str, ...]
    leaves_out: tuple[str, ...]
    policies: Mapping[str, str]
    tests: str | None
    sha256: str
    source: Literal["built-in", "operator"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule as people know it: `pack` and `id` name it, the rest is what its annotations say."""

    pack: str
    id: str
    effect: Literal["permit", "forbid"]
    reason: str | None
    lifts: str | None
    gives_way: str | None

    @property
    def name(self) -> str:
        """Its pack and its id: no other rule has the same."""
        return f"{self.pack}/{self.id}"


def built_in(name: str) -> Pack:
    """Return one of AWR's own packs. Raise KeyError for another name."""
    folder = Path(__file__).parent / BUILT_IN[name]
    found = PolicyFolder(
        policies={path.name: path.read_bytes() for path in sorted(folder.glob("*.cedar"))},
        manifest=(folder / "pack.toml").read_bytes(),
        tests=(folder / "tests.toml").read_bytes(),
    )
    return _pack(found, name=name, source="built-in")


def operators_place() -> Path | None:
    """Return the folder of the operator's own packs, or None where no home folder is known."""
    stated = os.environ.get("XDG_CONFIG_HOME", "")
    # A relative path there is to be ignored, says the specification of base directories.
    home = os.environ.get("HOME", "")
    if stated.startswith("/"):
        return Path(stated, "awr", "policies")
    return Path(home, ".config", "awr", "policies") if home.startswith("/") else None


def own_packs() -> tuple[str, ...]:
    """Return the names of the folders in the operator's place, whatever is in them."""
    place = operators_place()
    if place is None or not place.is_dir():
        return ()
    return tuple(sorted(path.name for path in place.iterdir() if NAME.fullmatch(path.name)))


def pack_at(path: Path, *, workspace: Path | None = None, sha256: str | None = None) -> Pack:
    """Return the pack in a folder of the operator's.

    `workspace` is where agents write: nothing in it is taken unless `sha256`, the pack's hash, is given as well. A
    hash that is given is always compared. Raise NotFound, InvalidInput and RuleViolation.
    """
    if sha256 is None and workspace is not None and path.resolve().is_relative_to(workspace.resolve()):
        raise RuleViolation(
            "these policies lie where an agent can write them",
            got="a folder inside the project, and no hash",
            expected="a folder outside of the project, or the hash that the pack must have",
            next_step="run awr guardian policy check on the folder, and give the hash that it shows",
        )
    found = _pack(read_folder(path), name=path.name, source="operator")
    if sha256 is not None and sha256.lower().removeprefix("sha256:") != found.sha256:
        raise RuleViolation(
            "these policies are not the ones that were pinned",
            got="a pack with another hash",
            expected="the pack with the hash that was given",
            next_step="find out who changed the folder; awr guardian policy list shows the hash",
        )
    return found


def chosen(name: str, *, root: Path, workspace: Path | None = None, sha256: str | None = None) -> tuple[Pack, ...]:
    """Return the pack that a word on the command line means, last, behind the packs that it extends.

    AWR's own names come first and cannot be taken. A word with a slash, `.` or `..` is a path, which counts from
    `root`; any other is a folder in the operator's place. Raise NotFound, InvalidInput and RuleViolation.
    """
    if name in BUILT_IN:
        if sha256 is not None and sha256.lower().removeprefix("sha256:") != built_in(name).sha256:
            raise RuleViolation(
                "this AWR has another version of the pack than the one that was pinned",
                expected="the pack with the hash that was given",
                next_step="run awr guardian policy list, read what changed, and give the new hash",
            )
        pack = built_in(name)
    elif "/" in name or name in {".", ".."}:
        pack = pack_at(Path(os.path.normpath(root / name)), workspace=workspace, sha256=sha256)
    else:
        place = operators_place()
        if place is None or not NAME.fullmatch(name) or not (place / name).exists():
            raise _no_such_pack()
        pack = pack_at(place / name, workspace=workspace, sha256=sha256)
    return (*_extended(pack), pack)


def _extended(pack: Pack) -> tuple[Pack, ...]:
    found: dict[str, Pack] = {}
    for name in pack.extends:
        if name not in BUILT_IN or name == OBSERVE:
            raise InvalidInput(
                "a pack extends one that cannot be extended",
                got="another name",
                expected="packs of AWR's: " + ", ".join(one for one in BUILT_IN if one != OBSERVE),
                next_step="correct extends in its pack.toml",
            )
        base = built_in(name)
        found |= {one.id: one for one in (*_extended(base), base)}
    return tuple(found.values())


def _pack(found: PolicyFolder, *, name: str, source: Literal["built-in", "operator"]) -> Pack:
    manifest = _manifest(found.manifest, name=name)
    if source == "operator" and manifest.id in BUILT_IN:
        raise RuleViolation(
            "a pack calls itself by a name of AWR's own",
            got="the name of a pack that is built in",
            expected="a name of its own",
            next_step="change id in its pack.toml, or the folder's name",
        )
    if not found.policies and not manifest.extends and manifest.id != OBSERVE:
        raise InvalidInput(
            "the folder has no policies",
            got="no file whose name ends in .cedar",
            expected="at least one, or a pack.toml that extends a pack of AWR's",
            next_step="write a policy, or use the pack observe to allow everything",
        )
    return Pack(
        **{field: getattr(manifest, field) for field in Manifest.__struct_fields__},
        policies={file: _text(data, file) for file, data in found.policies.items()},
        tests=None if found.tests is None else _text(found.tests, "tests.toml"),
        sha256=_hash(found),
        source=source,
    )


def _manifest(data: bytes | None, *, name: str) -> Manifest:
    stated: object
    if data is None:
        stated = {"id": name, "version": UNVERSIONED, "purpose": "A folder of policies without a pack.toml."}
    else:
        try:
            stated = tomllib.loads(_text(data, "pack.toml"))
        except (tomllib.TOMLDecodeError, RecursionError):
            raise InvalidInput(
                "a pack.toml is no TOML",
                expected="TOML with id, version and purpose",
                next_step="correct the file",
            ) from None
    try:
        return msgspec.convert(stated, Manifest)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            "a pack.toml does not fit" if data is not None else "the folder's name is no name of a pack",
            got=place_of(error) if data is not None else "another name",
            expected="id (small letters, digits, dots, dashes), version, purpose of one line, and of grounding, "
            "extends and leaves_out what the reference says",
            next_step="correct the file, or give the folder a pack.toml",
        ) from None


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{file} is not UTF-8 text",
            got=f"a bad byte at offset {error.start}",
            expected="UTF-8",
            next_step="write the file as UTF-8",
        ) from None


def _hash(found: PolicyFolder) -> str:
    """Return one hash over the names, the lengths and the bytes of what decides."""
    digest = hashlib.sha256()
    files = dict(found.policies)
    if found.manifest is not None:
        files["pack.toml"] = found.manifest
    for file in sorted(files):
        digest.update(f"{file}\0{len(files[file])}\0".encode() + files[file])
    return digest.hexdigest()


def _no_such_pack() -> NotFound:
    return NotFound(
        "there is no such pack of policies",
        expected=f"{', '.join(BUILT_IN)}, a folder in the operator's place, or a path with a slash",
        next_step="run awr guardian policy list to see them",
    )

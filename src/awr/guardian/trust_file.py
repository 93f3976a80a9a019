"""The operator's trust map as a file: where it may lie, how it is opened, and its form.

It is read from the operator's own place or from a path that the operator names. In the workspace an agent could
write it, so there it counts only while it has the hash that the operator pinned.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from awr.chain import digest
from awr.domain.provenance import ORIGINS, TRUSTS, Origin, Trust, TrustMap, TrustRule
from awr.errors import InvalidInput, NotFound, RuleViolation, io_error
from awr.guardian.operator_files import read_owned

__all__ = ["MAX_RULES", "TRUST_FILE_LIMIT", "RuleTable", "default_place", "parse_trust", "read_trust"]

TRUST_FILE_LIMIT = 64 * 1024
MAX_RULES = 1000
#: As many as the system itself follows on the way to a file.
MAX_LINKS = 40

_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)\Z", re.ASCII)
_FIELD = re.compile(r" - at `\$\.(\w+)[^`]*`\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


#: What each key of a rule may be. The messages of the type check quote what they found.
_EXPECTED = {
    "origin": "one of " + ", ".join(ORIGINS),
    "source_id": "a text",
    "trust": "one of " + ", ".join(TRUSTS),
    "readers": 'a list of texts, or "everyone"',
}


class RuleTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rule]]`."""

    origin: Origin | None = None
    source_id: str | None = None
    trust: Trust | None = None
    readers: tuple[str, ...] | Literal["everyone"] | msgspec.UnsetType = msgspec.UNSET


def default_place(environment: Mapping[str, str]) -> Path:
    """Return where the operator's trust map is looked for: under `XDG_CONFIG_HOME` if absolute, else `~/.config`."""
    stated = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = environment.get("HOME")
    folder = stated if stated.is_absolute() else (Path(home) if home else Path.home()) / ".config"
    return folder / "awr" / "trust.toml"


def read_trust(
    path: Path | None,
    *,
    environment: Mapping[str, str],
    workspace: Path | None,
    pinned_sha256: str | None = None,
) -> TrustMap:
    """Return the operator's trust map; None is the operator's own place, and without a file there the defaults.

    `workspace` is the folder that the agent works in; None when there is none. A pin is checked wherever the file
    lies. Raise NotFound, RuleViolation for a place or a file that others could have written, InvalidInput, or Io.
    """
    pin = _pin(pinned_sha256)
    place = default_place(environment) if path is None else path
    missing = NotFound("the trust map does not exist", expected="a TOML file", next_step="check its path")
    try:
        data = read_owned(place, forbidden=0o022, limit=TRUST_FILE_LIMIT, missing=missing, unsafe=_unsafe)
    except NotFound:
        if path is None and pin is None:
            return TrustMap()
        raise
    if pin is None and workspace is not None and _lies_in(workspace, place):
        raise RuleViolation(
            "the trust map lies in the workspace, where an agent could write it",
            got="a file in the workspace, and no pinned hash",
            expected="a file of the operator's outside of the workspace, or the SHA-256 that it must have",
            next_step="move the file to ~/.config/awr/trust.toml, or pin its hash",
        )
    if pin is not None and digest(data) != pin:
        raise RuleViolation(
            "the trust map is not the one whose hash is pinned",
            got="a file with another SHA-256",
            expected="the file as it was when it was pinned",
            next_step="read what has changed in it, then pin its new hash or put the old file back",
        )
    return parse_trust(data)


def parse_trust(data: bytes) -> TrustMap:
    """Return the trust map that a file's bytes say. Raise InvalidInput, which names the rule and never its text."""
    if len(data) > TRUST_FILE_LIMIT:
        raise _invalid(
            "is too big", got=f"more than {TRUST_FILE_LIMIT} bytes", expected=f"at most {TRUST_FILE_LIMIT} bytes"
        )
    tables = _toml(data)
    if tables.keys() - {"rule"}:
        raise _invalid("has a key that does not belong there", got="another key", expected="only [[rule]] tables")
    found = tables.get("rule", [])
    if not isinstance(found, list):
        raise _invalid("has rules of another form", got="no list of tables", expected="[[rule]] before each rule")
    if len(found) > MAX_RULES:
        raise _invalid("has too many rules", got=len(found), expected=f"at most {MAX_RULES}")
    return TrustMap([_rule(table, number) for number, table in enumerate(found, start=1)])


def _rule(table: object, number: int) -> TrustRule:
    try:
        found = msgspec.convert(table, RuleTable)
    except msgspec.ValidationError as error:
        named = _FIELD.search(str(error))
        where = named[1] if named and named[1] in _EXPECTED else None
        raise _invalid(
            f"does not fit at rule {number}" + (f", {where}" if where else ""),
            got="another value" if where else "no table, or a key that does not belong there",
            expected=_EXPECTED[where] if where else "only " + ", ".join(_EXPECTED),
            location=f"rule {number}",
        ) from None
    readers = None if found.readers == "everyone" else found.readers
    return TrustRule(origin=found.origin, source_id=found.source_id, trust=found.trust, readers=readers)


def _toml(data: bytes) -> dict[str, object]:
    where = "text that does not parse"
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        where = f"a byte that is not UTF-8 at offset {error.start}"
    except (ValueError, RecursionError) as error:
        # The message ends with the place; only that is used, for the rest may repeat content.
        found = _TOML_PLACE.search(str(error))
        where = f"a syntax error at line {found[1]}, column {found[2]}" if found else "a syntax error at the end"
    raise _invalid("is not valid TOML", got=where, expected="TOML in UTF-8")


def _pin(stated: str | None) -> str | None:
    if stated is None:
        return None
    pin = stated.lower()
    if _SHA256.fullmatch(pin) is None:
        raise InvalidInput(
            "the pinned hash of the trust map is no SHA-256",
            got=f"{len(stated)} characters",
            expected="64 hexadecimal digits",
            next_step="take them from sha256sum",
        )
    return pin


def _lies_in(workspace: Path, place: Path) -> bool:
    """Tell whether a file, or a link on the way to it, lies in a folder: who writes there chooses what is read."""
    try:
        root = workspace.stat()
        folders = [folder for found in _links_and_end(place) for folder in found.parents]
        return any(os.path.samestat(folder.stat(), root) for folder in folders)
    except OSError as error:
        raise io_error(error) from None


def _links_and_end(place: Path) -> Iterator[Path]:
    """Yield the links on the way to a file, and where the file is, each by a way without links."""
    here = Path("/")
    steps = list(reversed((Path.cwd() / place).parts[1:]))
    links = 0
    while steps and links <= MAX_LINKS:
        step = steps.pop()
        if step == "..":
            here = here.parent
        elif (here / step).is_symlink():
            links += 1
            yield here / step
            target = (here / step).readlink()
            steps += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            here = Path("/") if target.is_absolute() else here
        else:
            here /= step
    yield here


def _invalid(problem: str, *, got: str | int, expected: str, location: str | None = None) -> InvalidInput:
    return InvalidInput(
        f"the trust map {problem}",
        got=got,
        expected=expected,
        next_step="correct the file there",
        location=location,
    )


def _unsafe(got: str) -> RuleViolation:
    return RuleViolation(
        "the trust map is not safe to use",
        got=got,
        expected="a plain file of this user or of root that nobody else may write",
        next_step="chmod go-w the file, and name it itself, not a link to it",
    )

"""The project's manifest, `.awr/project.toml`: which files say what."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Literal, TypeVar, cast

import msgspec

from awr.domain.rules import SCOPE_TYPES, SEVERITIES, ScopeType, Severity
from awr.domain.secrets import refuse_secrets
from awr.domain.work import STATUSES
from awr.errors import InvalidInput, NotFound, RuleViolation, SourceUnavailable, Unsupported
from awr.sources.files import MANIFEST_LIMIT, Location, decode_utf8, named_file, read_location, relative_parts
from awr.sources.ledger import MAPPABLE_FIELDS

__all__ = [
    "ADAPTERS",
    "HEADING_ADAPTER",
    "HEADING_ATTRIBUTES",
    "LEDGER_ADAPTER",
    "RULES_ADAPTER",
    "LedgerOptions",
    "Manifest",
    "MarkdownOptions",
    "SourceMapping",
    "parse_manifest",
    "read_manifest",
    "render_manifest",
]

LEDGER_ADAPTER = "yaml-ledger-v1"
HEADING_ADAPTER = "markdown-heading-v1"
RULES_ADAPTER = "markdown-rules-v1"
ADAPTERS = (LEDGER_ADAPTER, HEADING_ADAPTER, RULES_ADAPTER)

#: What a heading may state of itself in braces, and an option of the manifest for all headings of a file.
HEADING_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "goal": ("status", "priority"),
    "plan": ("status",),
    "rules": ("severity", "scope", "value"),
}
MAX_STATUS_MAP = 128

Domain = Literal["goal", "plan", "rules", "ledger", "decisions"]
Role = Literal["primary", "supporting"]
ContextProfile = Literal["standard", "minimal"]

_DOMAINS = ("goal", "plan", "rules", "ledger", "decisions")
_ROLES = ("primary", "supporting")
_PROFILES = ("standard", "minimal")
_LATER_ADAPTERS = frozenset({"markdown-ledger-v1", "markdown-directory-v1", "yaml-workstream-ledger-v1"})
#: The adapters that each domain takes; the first is the one to suggest.
_DOMAIN_ADAPTERS: dict[str, tuple[str, ...]] = {
    "goal": (HEADING_ADAPTER, LEDGER_ADAPTER),
    "plan": (HEADING_ADAPTER, LEDGER_ADAPTER),
    "rules": (RULES_ADAPTER,),
    "ledger": (LEDGER_ADAPTER,),
    "decisions": (),
}
_MAX_NAME_BYTES = 256
_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")

Value = TypeVar("Value")


class LedgerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read a foreign ledger: the source key of a canonical field, the canonical state of a spelling."""

    field_map: dict[str, str] = {}
    status_map: dict[str, str] = {}


class MarkdownOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for every heading of a file that does not say otherwise itself.

    `key_prefix` stands before the `#` of every key, where the file's own place would. `status` and `priority` are
    for goals, `status` for plans; `severity`, `scope` and `value` are for rules.
    """

    key_prefix: str | None = None
    status: str | None = None
    priority: str | None = None
    severity: Severity | None = None
    scope: ScopeType | None = None
    value: str | None = None


class SourceMapping(msgspec.Struct, frozen=True, kw_only=True):
    """One mapped file. Exactly one of `path` and `locator` is given."""

    domain: Domain
    adapter: str
    role: Role = "primary"
    path: str | None = None
    locator: str | None = None
    options: LedgerOptions | MarkdownOptions = LedgerOptions()

    @property
    def location(self) -> str:
        """The place as the manifest names it, without idle steps such as `./`."""
        stated = self.path if self.path is not None else self.locator or ""
        return stated if "://" in stated else posixpath.normpath(stated)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A project's name and its mapped sources. `authorized_roots` are relative to the project root."""

    name: str
    sources: tuple[SourceMapping, ...]
    external_key: str | None = None
    authority_mode: Literal["source_first"] = "source_first"
    authorized_roots: tuple[str, ...] = ()
    context_profile: ContextProfile = "standard"


def read_manifest(path: Path) -> Manifest:
    """Read and parse a manifest file: the project's own, or one that a person names.

    Raise NotFound if it is missing, RuleViolation if it or its `.awr` folder is a link, and what parse_manifest
    raises.
    """
    own = path.parent.name == ".awr"
    location = Location(path.parent.parent, (".awr", path.name), f".awr/{path.name}") if own else named_file(path)
    try:
        source = read_location(location, limit=MANIFEST_LIMIT)
    except SourceUnavailable as error:
        denied = error.details.get("got") == "permission denied"
        raise NotFound(
            "the manifest cannot be read" if denied else "there is no manifest",
            got="permission denied" if denied else "no such file",
            expected="a readable project.toml",
            next_step="run awr init in the project folder" if own else "check the path of the manifest",
        ) from None
    return parse_manifest(source.data, locator=location.locator)


def parse_manifest(data: bytes, *, locator: str = ".awr/project.toml") -> Manifest:
    """Return the manifest.

    Raise InvalidInput for malformed TOML (with line and column), unknown keys and broken rules, RuleViolation for
    places outside the project and for secrets, Unsupported for adapters and modes that are not offered.
    """
    if len(data) > MANIFEST_LIMIT:
        raise InvalidInput(
            "the manifest is too big",
            got=f"{len(data)} bytes",
            expected=f"at most {MANIFEST_LIMIT} bytes",
            next_step="remove what the manifest does not need",
        )
    text = decode_utf8(data, locator=locator)
    refuse_secrets(text, what="the manifest", location={"locator": locator})
    tables = _Table(_toml(text, locator=locator), place="the top level")
    tables.only("project", "sources")
    project = tables.table("project")
    manifest = Manifest(
        name=project.text("name", required=True) or "",
        external_key=project.text("external_key"),
        authority_mode=_authority_mode(project),
        authorized_roots=_authorized_roots(project),
        context_profile=cast(ContextProfile, project.choice("context_profile", _PROFILES, default="standard")),
        sources=tuple(_mapping(table) for table in tables.tables("sources")),
    )
    project.only("name", "external_key", "authority_mode", "authorized_roots", "context_profile")
    _check_sources(manifest.sources)
    return manifest


def render_manifest(manifest: Manifest) -> str:
    """Return the manifest as TOML that parses back to the same manifest; the same input gives the same text."""
    lines = ["[project]", f"name = {_quoted(manifest.name)}"]
    if manifest.external_key is not None:
        lines.append(f"external_key = {_quoted(manifest.external_key)}")
    lines.append(f"authority_mode = {_quoted(manifest.authority_mode)}")
    if manifest.authorized_roots:
        lines.append(f"authorized_roots = [{', '.join(map(_quoted, manifest.authorized_roots))}]")
    lines.append(f"context_profile = {_quoted(manifest.context_profile)}")
    for source in manifest.sources:
        lines += ["", "[[sources]]", f"domain = {_quoted(source.domain)}", f"role = {_quoted(source.role)}"]
        kind, place = ("path", source.path) if source.path is not None else ("locator", source.locator or "")
        lines += [f"{kind} = {_quoted(place or '')}", f"adapter = {_quoted(source.adapter)}"]
        lines += _option_lines(source.options)
    return "\n".join(lines) + "\n"


def _option_lines(options: LedgerOptions | MarkdownOptions) -> list[str]:
    if isinstance(options, MarkdownOptions):
        stated = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not None}
        written = [f"{name} = {_quoted(value)}" for name, value in stated.items()]
        return ["", "[sources.options]", *written] if written else []
    lines: list[str] = []
    for name, pairs in (("field_map", options.field_map), ("status_map", options.status_map)):
        if pairs:
            lines += ["", f"[sources.options.{name}]"]
            lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in sorted(pairs.items())]
    return lines


class _Table:
    """A TOML table that is read key by key. Errors name the place and the kind, never a value."""

    def __init__(self, values: dict[str, object], *, place: str) -> None:
        self._values = values
        self.place = place

    def only(self, *known: str) -> None:
        unknown = len(self._values.keys() - set(known))
        if unknown:
            raise self.invalid(
                f"{self.place} of the manifest has a key that is not known",
                got=f"{unknown} unknown",
                expected=", ".join(known),
                next_step="remove or correct the key",
            )

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, *, required: bool = False) -> str | None:
        if not required and not self.has(key):
            return None
        value = self._values.get(key)
        size = len(value.encode("utf-8")) if isinstance(value, str) else 0
        if isinstance(value, str) and value.strip() and size <= _MAX_NAME_BYTES * 16 and value.isprintable():
            return value
        raise self.invalid(
            f"{key} in {self.place} of the manifest must be nonempty bounded text",
            got=_kind(value) if value is not None else "nothing",
            expected=f"1 to {_MAX_NAME_BYTES * 16} bytes on one line",
            next_step=f"write {key} as a text",
        )

    def choice(self, key: str, allowed: tuple[str, ...], *, default: str | None = None) -> str:
        if default is not None and not self.has(key):
            return default
        value = self._values.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        raise self.invalid(
            f"{key} in {self.place} of the manifest is none of the known values",
            got=_kind(value) if value is not None else "nothing",
            expected=", ".join(allowed),
            next_step=f"write one of these for {key}",
        )

    def table(self, key: str) -> _Table:
        return _Table(self._typed(key, dict, expected=f"a [{key}] table"), place=f"[{key}]")

    def tables(self, key: str) -> list[_Table]:
        found = self._typed(key, list, expected=f"at least one [[{key}]] table")
        if not found or not all(isinstance(each, dict) for each in found):
            raise self.invalid(
                f"the manifest needs at least one [[{key}]] table",
                got=_kind(found),
                expected=f"at least one [[{key}]] table",
                next_step=f"add a [[{key}]] table",
            )
        return [_Table(each, place=f"[[{key}]] entry {number}") for number, each in enumerate(found, start=1)]

    def optional_table(self, key: str) -> _Table:
        if not self.has(key):
            return _Table({}, place=f"{key} of {self.place}")
        return _Table(self._typed(key, dict, expected="a table"), place=f"{key} of {self.place}")

    def texts(self, key: str) -> list[str]:
        if not self.has(key):
            return []
        found = self._typed(key, list, expected="a list of texts")
        numbered = {str(number): each for number, each in enumerate(found, start=1)}
        inner = _Table(numbered, place=f"{key} of {self.place}")
        return [inner.text(number, required=True) or "" for number in inner.names()]

    def pairs(self, key: str) -> dict[str, str]:
        inner = self.optional_table(key)
        return {name: inner.pair_value(name) for name in inner.names()}

    def pair_value(self, name: str) -> str:
        value = self._values[name]
        if isinstance(value, str) and value.strip() and value.isprintable() and name.strip():
            return value
        raise self.invalid(
            f"{self.place} of the manifest maps a text to a text",
            got=_kind(value),
            expected="nonempty texts on both sides",
            next_step="write both sides as texts",
        )

    def names(self) -> list[str]:
        return list(self._values)

    def invalid(self, what: str, *, got: str, expected: str, next_step: str) -> InvalidInput:
        return InvalidInput(what, got=got, expected=expected, next_step=next_step)

    def _typed(self, key: str, kind: type[Value], *, expected: str) -> Value:
        value = self._values.get(key)
        if isinstance(value, kind):
            return value
        raise self.invalid(
            f"{key} in {self.place} of the manifest has the wrong kind",
            got=_kind(value) if value is not None else "nothing",
            expected=expected,
            next_step=f"write {expected}",
        )


def _toml(text: str, *, locator: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # tomllib's message ends with the place; only that is used, for the rest may repeat content.
        match = _TOML_PLACE.search(str(error))
        lines = text.split("\n")
        line, column = (int(match[1]), int(match[2])) if match else (len(lines), len(lines[-1]) + 1)
    raise InvalidInput(
        "the manifest is not valid TOML",
        got="text that does not parse",
        expected="valid TOML",
        next_step="correct the manifest near this place",
        location={"locator": locator, "pointer": "", "line": line, "column": column},
        rule="manifest.toml",
        repair="correct the manifest near this place",
    )


def _authority_mode(project: _Table) -> Literal["source_first"]:
    if project.text("authority_mode") not in {None, "source_first"}:
        raise Unsupported(
            "the manifest asks for an authority mode that is not offered",
            got="another mode",
            expected="source_first",
            next_step='leave authority_mode out or write "source_first"',
        )
    return "source_first"


def _authorized_roots(project: _Table) -> tuple[str, ...]:
    roots = tuple(project.texts("authorized_roots"))
    for root in roots:
        steps = posixpath.normpath(root).split("/")
        if root.startswith("/") or "://" in root:
            raise RuleViolation(
                "an authorized root must be relative to the project root",
                got="an absolute place",
                expected="a relative folder such as ../shared",
                next_step="write the folder relative to the project root",
            )
        if set(steps) <= {"..", "."}:
            raise RuleViolation(
                "an authorized root must not hold the project itself",
                got="the project root or a folder above it",
                expected="one folder, such as ../shared",
                next_step="name the folder that holds the sources",
            )
    return roots


def _mapping(table: _Table) -> SourceMapping:
    table.only("domain", "role", "path", "locator", "adapter", "options")
    if table.has("path") == table.has("locator"):
        raise table.invalid(
            f"{table.place} of the manifest needs exactly one of path and locator",
            got="both" if table.has("path") else "neither",
            expected="path or locator",
            next_step="name the file once",
        )
    domain = table.choice("domain", _DOMAINS)
    adapter = _adapter(table, domain=domain)
    options = table.optional_table("options")
    mapping = SourceMapping(
        domain=cast(Domain, domain),
        role=cast(Role, table.choice("role", _ROLES, default="primary")),
        path=table.text("path"),
        locator=table.text("locator"),
        adapter=adapter,
        options=_ledger_options(options) if adapter == LEDGER_ADAPTER else _markdown_options(options, domain=domain),
    )
    if mapping.path is not None:
        relative_parts(mapping.path)
    return mapping


def _adapter(table: _Table, *, domain: str) -> str:
    adapter = table.text("adapter", required=True) or ""
    offered = _DOMAIN_ADAPTERS[domain]
    if adapter in offered:
        return adapter
    if not offered:
        raise Unsupported(
            f"{table.place} of the manifest has a domain that this version does not read",
            got=f"the domain {domain}",
            expected=", ".join(name for name, adapters in _DOMAIN_ADAPTERS.items() if adapters),
            next_step="leave this source out for now",
        )
    kind = "an unknown adapter"
    if adapter in ADAPTERS:
        kind = "an adapter of another domain"
    elif adapter in _LATER_ADAPTERS:
        kind = "an adapter of a later version"
    raise Unsupported(
        f"{table.place} of the manifest names an adapter that this version does not offer for its domain",
        got=kind,
        expected=" or ".join(offered),
        next_step=f"write {offered[0]} and bring the file into its form, or leave this source out",
    )


def _ledger_options(table: _Table) -> LedgerOptions:
    table.only("field_map", "status_map")
    return LedgerOptions(field_map=_field_map(table), status_map=_status_map(table))


def _markdown_options(table: _Table, *, domain: str) -> MarkdownOptions:
    table.only("key_prefix", *HEADING_ATTRIBUTES[domain])
    choices: dict[str, tuple[str, ...]] = {"severity": SEVERITIES, "scope": SCOPE_TYPES}
    stated = {
        name: table.choice(name, choices[name]) if name in choices else table.text(name) for name in table.names()
    }
    return MarkdownOptions(**stated)  # type: ignore[arg-type]  # each value was checked against its field's words


def _field_map(table: _Table) -> dict[str, str]:
    pairs = table.pairs("field_map")
    if not pairs.keys() <= MAPPABLE_FIELDS:
        raise table.invalid(
            "field_map renames a field that cannot be renamed",
            got="an unknown field name",
            expected=", ".join(sorted(MAPPABLE_FIELDS)),
            next_step="write the canonical field on the left and the ledger's own key on the right",
        )
    return pairs


def _status_map(table: _Table) -> dict[str, str]:
    stated = table.pairs("status_map")
    pairs = {spelling.strip().lower(): status.strip().lower() for spelling, status in stated.items()}
    problem = None
    if len(stated) > MAX_STATUS_MAP:
        problem = f"{len(stated)} spellings"
    elif len(pairs) != len(stated):
        problem = "one spelling twice"
    elif not set(pairs.values()) <= STATUSES:
        problem = "a state that is not canonical"
    elif pairs.keys() & (STATUSES - {"draft"}):
        problem = "a canonical state with another meaning"
    if problem is not None:
        raise table.invalid(
            "status_map gives spellings a canonical state",
            got=problem,
            expected=f"at most {MAX_STATUS_MAP} other spellings, each with one of {', '.join(sorted(STATUSES))}",
            next_step="write the ledger's own spelling on the left and the canonical state on the right",
        )
    return pairs


def _check_sources(sources: tuple[SourceMapping, ...]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for number, source in enumerate(sources, start=1):
        first = seen.setdefault((source.domain, source.location), number)
        if first != number:
            raise InvalidInput(
                "the manifest maps one file twice for the same domain",
                got=f"[[sources]] entries {first} and {number}",
                expected="each file once in a domain",
                next_step="remove one of the two entries",
            )


def _kind(value: object) -> str:
    if isinstance(value, str):
        return f"a text of {len(value.encode())} bytes"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return {dict: "a table", bool: "a boolean", int: "a number", float: "a number"}.get(type(value), "a date or time")


def _quoted(text: str) -> str:
    """Return a TOML basic string."""
    escaped = "".join(
        f"\\u{ord(character):04x}"
        if ord(character) < 0x20 or ord(character) == 0x7F
        else "\\" + character
        if character in '"\\'
        else character
        for character in text
    )
    return f'"{escaped}"'

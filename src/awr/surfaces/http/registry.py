"""The registry's file: its form, its bounds, and errors that say where and never what."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from awr.errors import InvalidInput, NotFound, Unsupported
from awr.operations.requests import convert_request

__all__ = ["MAX_ENTRIES", "REGISTRY_LIMIT", "ClientTable", "ProjectTable", "RegistryFile", "place", "read_registry"]

REGISTRY_LIMIT = 1024 * 1024
MAX_ENTRIES = 1000
VERSION = 1
#: The version that adds workstreams to clients.
SCOPED_VERSION = 2

_IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#]{1,300}", re.ASCII)
_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)\Z", re.ASCII)


class ProjectTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    root: str
    project_id: str


class ClientTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    token_env: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


Projects = Annotated[tuple[ProjectTable, ...], msgspec.Meta(min_length=1, max_length=MAX_ENTRIES)]
Clients = Annotated[tuple[ClientTable, ...], msgspec.Meta(min_length=1, max_length=MAX_ENTRIES)]


class RegistryFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    projects: Projects
    clients: Clients
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()


def read_registry(path: Path) -> RegistryFile:
    """Read the file. Raise NotFound, InvalidInput, Unsupported for another version, or OSError."""
    tables = _toml(_bytes(path))
    _require_version(tables.get("version"))
    registry = convert_request(tables, RegistryFile, what="the registry")
    for position, host in enumerate(registry.allowed_hosts):
        _require(_HOST, host, place("allowed_hosts", position), "a host, with or without a port")
    for position, origin in enumerate(registry.allowed_origins):
        _require(_ORIGIN, origin, place("allowed_origins", position), "an origin as browsers send it, without a path")
    for position, project in enumerate(registry.projects):
        _require_identifier(project.key, place("projects", position, "key"))
    for position, client in enumerate(registry.clients):
        _require_identifier(client.id, place("clients", position, "id"))
        _require_identifier(client.token_env, place("clients", position, "token_env"))
    return registry


def place(table: str, position: int, field: str = "") -> str:
    """Return where something stands in the registry."""
    return f"$.{table}[{position}]" + (f".{field}" if field else "")


def _bytes(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise NotFound(
            "there is no such registry",
            expected="a TOML file",
            next_step="check the path given with --registry",
        ) from None
    if not stat.S_ISREG(kind):
        raise InvalidInput(
            "the registry is not a file",
            got="something else than a regular file",
            expected="a TOML file",
            next_step="check the path given with --registry",
        )
    with path.open("rb") as file:
        data = file.read(REGISTRY_LIMIT + 1)
    if len(data) > REGISTRY_LIMIT:
        raise InvalidInput(
            "the registry is too big",
            got=f"more than {REGISTRY_LIMIT} bytes",
            expected=f"at most {REGISTRY_LIMIT} bytes",
            next_step="check the path given with --registry",
        )
    return data


def _toml(data: bytes) -> dict[str, object]:
    where = "a byte that is not UTF-8"
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        where = f"a bad byte at offset {error.start}"
    except (ValueError, RecursionError) as error:
        # The message ends with the place; only that is used, for the rest may repeat content.
        found = _TOML_PLACE.search(str(error))
        where = f"a syntax error at line {found[1]}, column {found[2]}" if found else "a syntax error at the end"
    raise InvalidInput(
        "the registry is not valid TOML",
        got=where,
        expected="TOML in UTF-8",
        next_step="correct the file there",
    )


def _require_version(version: object) -> None:
    if type(version) is int and version == SCOPED_VERSION:
        raise Unsupported(
            "scoped workstreams are not offered, and version 2 of the registry is for them alone",
            got=f"version {SCOPED_VERSION}",
            expected=f"version {VERSION}",
            next_step="grant clients whole projects, with version = 1",
            location="$.version",
        )
    if type(version) is not int or version != VERSION:
        raise InvalidInput(
            "the registry does not have a version that is known",
            got="nothing" if version is None else "another value",
            expected=f"version = {VERSION}",
            next_step="write version = 1 on its first line",
            location="$.version",
        )


def _require_identifier(value: str, where: str) -> None:
    _require(_IDENTIFIER, value, where, "1 to 128 letters, digits, dots, underscores or hyphens")


def _require(pattern: re.Pattern[str], value: str, where: str, expected: str) -> None:
    if pattern.fullmatch(value) is None:
        raise InvalidInput(
            f"the registry does not fit at {where}",
            got="a text that is not allowed there",
            expected=expected,
            next_step="correct the registry there",
            location=where,
        )

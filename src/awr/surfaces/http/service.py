"""The registry of a shared service: which projects it serves, and which clients may read and write them.

It is read once. A token is named by the environment variable that holds it; only its digest is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from awr.errors import AwrError, InvalidInput, NotFound, RuleViolation
from awr.project import Project
from awr.surfaces.http.registry import ClientTable, ProjectTable, RegistryFile, place, read_registry

__all__ = ["Access", "Client", "ServedProject", "Service", "load_service"]

MIN_TOKEN = 32
MAX_TOKEN = 4096

Access = Literal["read", "write"]

_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)


class ServedProject(msgspec.Struct, frozen=True):
    """One project. `stated` is its root as the registry has it, `root` what that was at the start."""

    key: str
    stated: Path
    root: Path
    project_id: str

    def open(self) -> Project:
        """Open the project once it is found to be what was registered.

        Raise RuleViolation when its root is elsewhere, a link, no project or another one; Storage or Io when its
        database cannot be used.
        """
        try:
            if self.stated.resolve(strict=True) != self.root:
                raise _not_as_registered()
            project = Project.open(self.root)
            with project.journal.read() as reader:
                if reader.project_id != self.project_id:
                    raise _not_as_registered()
        except (OSError, RuntimeError, NotFound, InvalidInput):
            raise _not_as_registered() from None
        return project


class Client(msgspec.Struct, frozen=True):
    """One client and what it may do, by project key. Its token is not here."""

    id: str
    digest: bytes
    access: dict[str, Access]

    def may(self, key: str, *, write: bool) -> bool:
        """Tell whether it may read a project, or write to it as well."""
        return self.access.get(key) == "write" if write else key in self.access


class Service(msgspec.Struct, frozen=True):
    """Everything the registry says, checked."""

    projects: dict[str, ServedProject]
    clients: tuple[Client, ...]
    allowed_hosts: tuple[str, ...]
    allowed_origins: frozenset[str]

    def client_with(self, token: bytes) -> Client | None:
        """Return the client that a token belongs to. Every client is compared, so that time tells nothing."""
        digest = hashlib.sha256(token).digest()
        found = None
        for client in self.clients:
            if hmac.compare_digest(client.digest, digest):
                found = client
        return found


def load_service(path: Path, *, environment: Mapping[str, str] = os.environ) -> Service:
    """Read and check a registry. Raise InvalidInput, NotFound, Unsupported or Io; none of them shows a value."""
    registry = read_registry(path)
    projects = _projects(registry)
    return Service(
        projects={project.key: project for project in projects},
        clients=_clients(registry, environment),
        allowed_hosts=tuple(host.lower() for host in registry.allowed_hosts),
        allowed_origins=frozenset(registry.allowed_origins),
    )


def _projects(registry: RegistryFile) -> list[ServedProject]:
    _require_distinct((table.key for table in registry.projects), "projects", "key")
    _require_distinct((table.project_id for table in registry.projects), "projects", "project_id")
    projects = [_project(table, position) for position, table in enumerate(registry.projects)]
    _require_distinct((project.root for project in projects), "projects", "root")
    return projects


def _project(table: ProjectTable, position: int) -> ServedProject:
    where = place("projects", position, "root")
    stated = Path(table.root)
    if not stated.is_absolute():
        raise InvalidInput(
            "a project's root is not absolute",
            got="a relative path",
            expected="an absolute path",
            next_step="write the whole path of the project folder",
            location=where,
        )
    try:
        root = stated.resolve(strict=True)
        with Project.open(root).journal.read() as reader:
            stored = reader.project_id
    except (OSError, RuntimeError, ValueError, AwrError) as error:
        raise InvalidInput(
            "a project's root cannot be served",
            got=error.what if isinstance(error, AwrError) else "a path that leads to no folder",
            expected="the root of an initialized AWR project that this process may read and write",
            next_step="run awr status in that folder, then correct the registry",
            location=where,
        ) from None
    if stored != table.project_id:
        raise InvalidInput(
            "a project is another one than the registry says",
            got="another project_id in the database of that root",
            expected="the project_id that awr status --json shows there",
            next_step="correct the root or the project_id",
            location=place("projects", position, "project_id"),
        )
    return ServedProject(key=table.key, stated=stated, root=root, project_id=stored)


def _clients(registry: RegistryFile, environment: Mapping[str, str]) -> tuple[Client, ...]:
    _require_distinct((table.id for table in registry.clients), "clients", "id")
    keys = {table.key for table in registry.projects}
    clients = tuple(
        Client(
            id=table.id,
            digest=_digest(table, position, environment),
            access=_access(table, position, keys),
        )
        for position, table in enumerate(registry.clients)
    )
    _require_distinct((client.digest for client in clients), "clients", "token_env", what="token")
    return clients


def _access(table: ClientTable, position: int, keys: set[str]) -> dict[str, Access]:
    for field, named in (("read", table.read), ("write", table.write)):
        if not keys.issuperset(named):
            raise InvalidInput(
                "a grant names a project that is not registered",
                got="another key",
                expected="the key of one of the projects",
                next_step="correct the grant, or register the project",
                location=place("clients", position, field),
            )
    access: dict[str, Access] = {**dict.fromkeys(table.read, "read"), **dict.fromkeys(table.write, "write")}
    if not access:
        raise InvalidInput(
            "a client may do nothing",
            got="no grant",
            expected="at least one project key in read or write",
            next_step="grant it a project, or remove the client",
            location=place("clients", position),
        )
    return access


def _digest(table: ClientTable, position: int, environment: Mapping[str, str]) -> bytes:
    token = environment.get(table.token_env)
    got = None
    if token is None:
        got = "no such variable"
    elif _TOKEN.fullmatch(token) is None:
        got = "nothing, or a character that is not visible ASCII"
    elif not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        got = "a token that is too short or too long"
    if got is not None or token is None:
        raise InvalidInput(
            "a client's token cannot be used",
            got=got,
            expected=f"{MIN_TOKEN} to {MAX_TOKEN} visible ASCII characters in the variable that token_env names",
            next_step="set the variable in the service's own environment, for example from openssl rand -hex 32",
            location=place("clients", position, "token_env"),
        )
    return hashlib.sha256(token.encode("ascii")).digest()


def _require_distinct(values: Iterable[object], table: str, field: str, *, what: str | None = None) -> None:
    seen = set()
    for position, value in enumerate(values):
        if value in seen:
            raise InvalidInput(
                f"the registry has a {what or field} twice",
                got=f"the {what or field} of an earlier entry",
                expected=f"a {what or field} of its own",
                next_step="remove one of the two entries, or give it another one",
                location=place(table, position, field),
            )
        seen.add(value)


def _not_as_registered() -> RuleViolation:
    return RuleViolation(
        "the project is not what was registered",
        got="another folder, a link, or another project where the service was told to look",
        expected="the project that was there when the service started",
        next_step="ask the operator to put it back, or to correct the registry and restart the service",
    )

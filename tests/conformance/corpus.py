"""The members of the community's ACS-Core corpus, read from the package that carries them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

__all__ = ["Expected", "Manifest", "Member", "manifest", "members"]

_CORPUS = files("agent_evidence_vectors").joinpath("corpora", "vectors-acs-core")


class Expected(msgspec.Struct, frozen=True):
    """What a member expects: a verdict, and a code of the standard's registry where it names one."""

    verdict: str
    code: str | None
    code_value: int | None = msgspec.field(name="codeValue")
    forbids_registry_code: bool = msgspec.field(name="forbidsRegistryCode", default=False)


class Sentence(msgspec.Struct, frozen=True):
    """A sentence of the standard that a member rests on."""

    id: str
    upstream_status: str = msgspec.field(name="upstreamStatus")


class Member(msgspec.Struct, frozen=True):
    """One member of the corpus."""

    id: str
    family: str
    kind: str
    payload: dict[str, Any]
    expected: Expected
    requirements: tuple[str, ...]
    sentences: tuple[Sentence, ...] = msgspec.field(name="requirementText")

    @property
    def is_proposal(self) -> bool:
        """Tell whether it rests on a text that the standard has not taken in yet."""
        return any(sentence.upstream_status == "proposal" for sentence in self.sentences)


class Vendored(msgspec.Struct, frozen=True):
    """A text of the standard that the corpus carries."""

    path: str
    sha256: str
    upstream_commit: str | None = msgspec.field(name="upstreamCommit")


class Manifest(msgspec.Struct, frozen=True):
    """What the corpus says of itself."""

    digest: str = msgspec.field(name="corpusDigest")
    repository: str = msgspec.field(name="specUpstreamRepo")
    spec_version: str = msgspec.field(name="specVersion")
    texts: dict[str, Vendored] = msgspec.field(name="specVendored")


@cache
def manifest() -> Manifest:
    """Return the corpus's manifest."""
    return msgspec.json.decode(_CORPUS.joinpath("MANIFEST.json").read_bytes(), type=Manifest)


@cache
def members() -> tuple[Member, ...]:
    """Return every member, by family and id."""
    found = [
        msgspec.json.decode(path.read_bytes(), type=Member)
        for path in _CORPUS.joinpath("vectors").iterdir()
        if path.name.endswith(".json")
    ]
    return tuple(sorted(found, key=lambda member: (int(member.family.rpartition("-")[2]), member.id)))

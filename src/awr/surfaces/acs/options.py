"""What a person says on the command line, made into a setup: secrets under their labels, a policy, a database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from awr.errors import InvalidInput, NotFound
from awr.guardian.handshake import Posture
from awr.guardian.policies.packs import chosen
from awr.guardian.signature import DEFAULT_KEY_ID, Keys, secret_from_environment, secret_from_file
from awr.guardian.trust_file import read_trust
from awr.project import DATABASE, FOLDER, Project
from awr.surfaces.acs.desk import Setup

__all__ = ["keys_from", "setup_from"]


def setup_from(
    *,
    project: Path,
    secret_files: Sequence[Path],
    secret_variables: Sequence[str],
    key_ids: Sequence[str],
    policy: str,
    policy_sha256: str | None,
    trust: Path | None,
    trust_sha256: str | None,
    database: Path | None,
    posture: Posture,
) -> Setup:
    """Return the setup of a Guardian. Raise InvalidInput, NotFound or RuleViolation.

    An agent may write in the project's folder, so a policy or a trust map there counts only with its pinned hash.
    """
    keys = keys_from(secret_files, secret_variables, key_ids)
    return Setup(
        keys=keys,
        # The same place that the commands which read the record take the name for.
        database=_projects_own(project) if database is None else project / database,
        create=database is not None,
        posture=posture,
        packs=chosen(policy, root=project, workspace=project, sha256=policy_sha256),
        trust_map=read_trust(trust, environment=os.environ, workspace=project, pinned_sha256=trust_sha256),
    )


def keys_from(files: Sequence[Path], variables: Sequence[str], key_ids: Sequence[str], *, prefix: str = "--") -> Keys:
    """Return the secrets of files or of environment variables under their labels, in the order in which they stand.

    A single secret needs no label. `prefix` is what the names of the options begin with. Raise InvalidInput, and what
    reading a secret raises.
    """
    if not files and not variables:
        raise InvalidInput(
            "a Guardian needs a secret that it shares with its clients",
            got="no secret",
            expected="at least one",
            next_step=f"run head -c 48 /dev/urandom | base64 > FILE; chmod 600 FILE; give {prefix}secret-file FILE",
        )
    if files and variables:
        raise InvalidInput(
            "secrets are named in two ways, and labels could belong to either",
            got="files and environment variables",
            expected="only files, or only environment variables",
            next_step="give every secret with --secret-file, or every one with --secret-env",
        )
    number = len(files) + len(variables)
    if number == 1 and not key_ids:
        key_ids = (DEFAULT_KEY_ID,)
    if len(key_ids) != number:
        raise InvalidInput(
            "every secret needs a label of its own",
            got=f"{number} secrets and {len(key_ids)} labels",
            expected=f"as many labels as secrets; a single secret may go without and is then {DEFAULT_KEY_ID}",
            next_step=f"give one {prefix}key-id for each secret, in the same order",
        )
    if len(set(key_ids)) != len(key_ids):
        raise InvalidInput(
            "two secrets have one label",
            got="a label that is there twice",
            expected="a label of its own for each secret",
            next_step=f"give each {prefix}key-id another value",
        )
    secrets = [secret_from_file(path) for path in files] or [secret_from_environment(name) for name in variables]
    return Keys(dict(zip(key_ids, secrets, strict=True)))


def _projects_own(folder: Path) -> Path:
    try:
        return Project.open(folder).journal.path
    except (NotFound, InvalidInput):
        raise NotFound(
            "there is no project here whose database could hold the record, and no file is named for it",
            expected=f"{FOLDER}/{DATABASE} in the project folder, or a file of the Guardian's own",
            next_step="give --database FILE; it is made when it is not there",
        ) from None

"""One way for operations to compile a context of a project on disk."""

from __future__ import annotations

from awr.context.compile import ContextReport, compile_context
from awr.context.request import ContextRequest
from awr.operations.context import token_counter
from awr.project import Project
from awr.sources.index import RefreshReport
from awr.sources.manifest import read_manifest

__all__ = ["compiled"]


def compiled(project: Project, request: ContextRequest, *, refreshed: RefreshReport | None) -> ContextReport:
    """Compile what is recorded now, and keep the counts that had to be made. Raise what compile_context raises."""
    counter = token_counter(project)
    profile = read_manifest(project.manifest_path).context_profile
    with project.journal.read() as reader:
        report = compile_context(reader, request, counter=counter, profile=profile, refreshed=refreshed)
    counter.save()
    return report

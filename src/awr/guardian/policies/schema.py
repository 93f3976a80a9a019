"""The Cedar schema of the questions, made from the types of their facts, and facts written as Cedar reads them.

Words of a closed list are entities of an enumerated type: a policy that misspells one does not load. So do the
principal and the resource, of which there is one each: a rule may ask about the facts and about nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import inspect

from awr.domain.provenance import ORIGINS
from awr.guardian.hooks import HOOKS
from awr.guardian.policies.facts import CallFacts, Facts, FoldFacts, StepFacts, SummaryMember, Trigger, Trust

__all__ = [
    "ACTIONS",
    "WORDS",
    "WRAPPED_ACTION",
    "Fact",
    "action_of",
    "context_of",
    "facts_of_action",
    "schema_text",
]

#: The action of a message of MCP, wrapped under either spelling of the namespace.
WRAPPED_ACTION = "wrappedMcp"

_SPECIAL: Mapping[str, type[Facts]] = {"preCompact": FoldFacts, "toolCallRequest": CallFacts}

#: Every action, with the type of its facts. A native hook's action is its method without `steps/`.
ACTIONS: Mapping[str, type[Facts]] = {
    **{
        name: _SPECIAL.get(name, StepFacts)
        for name in (method.removeprefix("steps/") for method in HOOKS if method.startswith("steps/"))
    },
    WRAPPED_ACTION: CallFacts,
}

#: The closed lists of words, by the name of their Cedar type.
WORDS: Mapping[str, tuple[str, ...]] = {
    "Origin": ORIGINS,
    "SummaryMember": get_args(SummaryMember),
    "Trigger": get_args(Trigger),
    "Trust": get_args(Trust),
}


class Fact(NamedTuple):
    """One fact as Cedar has it. `words` names the closed list that it, or each member of it, is from."""

    name: str
    kind: str
    words: str | None
    optional: bool
    description: str


def action_of(method: str) -> str:
    """Return the action of a method that is evaluated."""
    return method.removeprefix("steps/") if method in HOOKS else WRAPPED_ACTION


def facts_of_action(action: str) -> tuple[Fact, ...]:
    """Return what is told of an action. Raise KeyError for another one."""
    return _FACTS[ACTIONS[action]]


def schema_text(*, only: frozenset[str] | None = None) -> str:
    """Return the schema in Cedar's own notation; with `only`, as if there were no facts but these."""
    lines = [f"entity {name} enum [{', '.join(map(_quoted, words))}];" for name, words in WORDS.items()]
    lines += ['entity Agent enum ["agent"];', 'entity Session enum ["session"];']
    for kind, facts in _FACTS.items():
        attributes = ", ".join(
            f"{_quoted(fact.name)}{'?' if fact.optional else ''}: {fact.kind}"
            for fact in facts
            if only is None or fact.name in only
        )
        lines.append(f"type {kind.__name__} = {{{attributes}}};")
    for action, kind in ACTIONS.items():
        scope = f"principal: [Agent], resource: [Session], context: {kind.__name__}"
        lines.append(f"action {_quoted(action)} appliesTo {{{scope}}};")
    return "\n".join(lines) + "\n"


def context_of(facts: Facts, *, only: frozenset[str] | None = None) -> str:
    """Return facts as the JSON of a Cedar context, the unknown ones left out; with `only`, no others but these.

    Raise KeyError for a word off its list. Nothing else is checked here: Cedar refuses what does not fit the schema.
    """
    context = {}
    for name, write in _WRITERS[type(facts)]:
        value = getattr(facts, name) if only is None or name in only else None
        if value is not None:
            context[name] = value if write is None else write(value)
    return msgspec.json.encode(context).decode()


def _facts_of(kind: type[Facts]) -> tuple[Fact, ...]:
    found = []
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    for field in struct.fields:
        typed = field.type
        if isinstance(typed, inspect.UnionType):
            [typed] = [one for one in typed.types if not isinstance(one, inspect.NoneType)]
        assert isinstance(typed, inspect.Metadata)
        description = (typed.extra_json_schema or {})["description"]
        cedar, words = _cedar_type(typed.type)
        found.append(Fact(field.name, cedar, words, not field.required, description))
    return tuple(found)


def _cedar_type(typed: inspect.Type) -> tuple[str, str | None]:
    if isinstance(typed, inspect.FrozenSetType):
        kind, words = _cedar_type(typed.item_type)
        return f"Set<{kind}>", words
    if isinstance(typed, inspect.LiteralType):
        [name] = [name for name, words in WORDS.items() if set(words) == set(typed.values)]
        return name, name
    return {inspect.IntType: "Long", inspect.BoolType: "Bool", inspect.StrType: "String"}[type(typed)], None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _writer(fact: Fact) -> Callable[[Any], Any] | None:
    if fact.words is None:
        return None
    entities = {word: {"type": fact.words, "id": word} for word in WORDS[fact.words]}
    if fact.kind == fact.words:
        return entities.__getitem__
    return lambda words: [entities[word] for word in words]


_FACTS: Mapping[type[Facts], tuple[Fact, ...]] = {kind: _facts_of(kind) for kind in (FoldFacts, CallFacts, StepFacts)}
_WRITERS: Mapping[type[Facts], tuple[tuple[str, Callable[[Any], Any] | None], ...]] = {
    kind: tuple((fact.name, _writer(fact)) for fact in facts) for kind, facts in _FACTS.items()
}

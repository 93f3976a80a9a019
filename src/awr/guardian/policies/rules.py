"""The rules of a pack, read from its Cedar text and refused where Cedar alone would let something through.

Cedar skips a rule that fails while it is evaluated, and a forbidding rule that is skipped forbids nothing. So every
rule is checked against the schema before it may decide, and further than Cedar checks: a rule that asks for a fact
there is not, that stands for nothing until it is linked, or that does not say what it is, does not load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import cedarpy
import msgspec

from awr.errors import InvalidInput
from awr.guardian.policies.packs import NAME, Pack, Rule
from awr.guardian.policies.schema import ACTIONS, facts_of_action

__all__ = ["MAX_RULES", "Loaded", "read_rules"]

MAX_RULES = 512

_REASON = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SENTENCE = re.compile(r"[^\x00-\x1f\x7f]{1,300}")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its Cedar as JSON, and the names of the facts that it reads; None if it could read any."""

    rule: Rule
    policy: Mapping[str, Any]
    reads: frozenset[str] | None


def read_rules(pack: Pack, *, schema: cedarpy.Schema) -> Mapping[str, Loaded]:
    """Return the rules of a pack by their names, in the order in which they stand.

    Raise InvalidInput naming the file and the rule, never the text.
    """
    found: dict[str, Loaded] = {}
    for file, text in pack.policies.items():
        parsed = _parsed(text, file)
        for number, policy in enumerate(_in_order(parsed["staticPolicies"]), start=1):
            rule = _rule(policy, pack=pack.id, where=f"rule {number} of {file}")
            if rule.name in found:
                raise _wrong(
                    f"rule {number} of {file}", "an @id that another rule of the pack has", "an @id of its own"
                )
            _require_known_facts(policy, where=f"{rule.id} in {file}")
            found[rule.name] = Loaded(rule=rule, policy=policy, reads=_facts_read(policy))
        _require_valid(text, file, parsed, schema)
        if len(found) > MAX_RULES:
            raise _wrong(file, f"more than {MAX_RULES} rules", f"at most {MAX_RULES} rules in a pack")
    return found


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(text))
    except (ValueError, RecursionError):
        raise _wrong(
            file, f"a syntax error in the statement that begins in line {_faulty_line(text)}", "policies in Cedar"
        ) from None
    if parsed["templates"] or parsed["templateLinks"]:
        raise _wrong(
            file,
            "a template",
            "policies without ?principal and ?resource: nothing links a template, so it never applies",
        )
    if not parsed["staticPolicies"]:
        raise _wrong(file, "no policy", "at least one policy")
    return parsed


def _faulty_line(text: str) -> int:
    """Return the line in which the first statement begins that does not parse, counted from 1."""
    begin, tries = 0, 0
    for end in re.finditer(";", text):
        try:
            cedarpy.policies_to_json_str(text[begin : end.end()])
        except ValueError:
            # A semicolon in a text or a comment ends no statement: look a little further.
            tries += 1
            if tries == 8:
                break
        else:
            begin, tries = end.end(), 0
    rest = text[begin:]
    return text.count("\n", 0, begin + len(rest) - len(rest.lstrip())) + 1


def _in_order(policies: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Cedar calls what it reads policy0, policy1 and so on, in the order of the text.
    return [policies[name] for name in sorted(policies, key=lambda name: int(name.removeprefix("policy")))]


def _rule(policy: Mapping[str, Any], *, pack: str, where: str) -> Rule:
    said: Mapping[str, str | None] = policy.get("annotations", {})
    if not NAME.fullmatch(said.get("id") or ""):
        raise _wrong(where, "no usable @id", '@id("name") of small letters, digits and dashes')
    forbids = policy["effect"] == "forbid"
    if forbids and not _REASON.fullmatch(said.get("reason") or ""):
        raise _wrong(where, "no usable @reason", '@reason("reason_code") of small letters, digits and underscores')
    if forbids and not _SENTENCE.fullmatch(said.get("lifts") or ""):
        raise _wrong(where, "no usable @lifts", '@lifts("What would lift the denial.") in one line')
    if "gives_way" in said and not (forbids and _SENTENCE.fullmatch(said["gives_way"] or "")):
        raise _wrong(where, "no usable @gives_way", "one line, and only on a rule that forbids")
    return Rule(
        pack=pack,
        id=said["id"] or "",
        effect=policy["effect"],
        reason=said.get("reason") if forbids else None,
        lifts=said.get("lifts") if forbids else None,
        gives_way=said.get("gives_way"),
    )


def _require_known_facts(policy: Mapping[str, Any], *, where: str) -> None:
    """Raise where a rule asks whether something is there that never is: Cedar finds that well-typed, and false."""
    known = {fact.name for action in _actions(policy["action"]) for fact in facts_of_action(action)}
    for part in _parts(policy["conditions"]):
        if "hasTag" in part or "getTag" in part:
            raise _wrong(where, "a question about tags", "questions about context only")
        asked = part.get("has")
        if asked is not None and not (asked["left"] == {"Var": "context"} and asked["attr"] in known):
            raise _wrong(
                where,
                "a `has` for something that is no fact of the rule's actions",
                "context has NAME, with a fact of the reference",
            )


def _facts_read(policy: Mapping[str, Any]) -> frozenset[str] | None:
    reads, mentions = [], 0
    for part in _parts(policy["conditions"]):
        mentions += part.get("Var") == "context"
        for access in (part.get("."), part.get("has")):
            if access is not None and access["left"] == {"Var": "context"}:
                reads.append(access["attr"])
    # Where the context is more than the left side of an access, all of it may matter.
    return frozenset(reads) if mentions == len(reads) else None


def _actions(scope: Mapping[str, Any]) -> list[str]:
    if scope["op"] == "All":
        return list(ACTIONS)
    entities = scope.get("entities") or [scope["entity"]]
    # One that there is not is refused by the check against the schema.
    return [entity["id"] for entity in entities if entity["id"] in ACTIONS]


def _parts(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from _parts(item)
    elif isinstance(node, dict):
        yield node
        for name, item in node.items():
            # What stands under `Value` is a constant, and the members of a record have names of the author's own.
            if name == "Record":
                yield from _parts(list(item.values()))
            elif name != "Value":
                yield from _parts(item)


#: What Cedar's validation finds, by what its message holds, and how it is said here: without the policy's own words.
_FINDINGS = (
    ("unable to guarantee safety of access", "a fact that may be unknown, read without asking `has` first"),
    ("not found", "something that is no fact of the rule's actions"),
    ("enumerated entity type", "a word that is not on its list, or a principal or resource"),
    ("unrecognized action", "an action that there is not"),
    ("unrecognized entity type", "a type that there is not"),
    ("unable to find an applicable action", "an action that there is not"),
    ("not compatible", "values of types that do not go together"),
)


def _require_valid(text: str, file: str, parsed: Mapping[str, Any], schema: cedarpy.Schema) -> None:
    result = cedarpy.validate_policies(text, schema)
    if result.validation_passed and not result.errors:
        return
    error = result.errors[0] if result.errors else None
    policy = parsed["staticPolicies"].get(error.policy_id) if error is not None else None
    where = f"{policy['annotations']['id']} in {file}" if policy else file
    message = error.error if error is not None else ""
    got = next((said for part, said in _FINDINGS if part in message), "an expression of the wrong type")
    raise _wrong(where, got, "facts, words and actions as the reference has them")


def _wrong(where: str, got: str, expected: str) -> InvalidInput:
    return InvalidInput(
        "a policy cannot be used",
        got=got,
        expected=expected,
        next_step="correct it, then run awr guardian policy check",
        location=where,
    )

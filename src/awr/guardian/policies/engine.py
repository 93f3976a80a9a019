"""The engine around Cedar: packs in, and for each question an answer that is a clean yes or a reasoned no.

Cedar allows where a permit applies and no forbid does, and skips every rule that fails. Here a rule that fails, facts
that do not fit the schema, no permit, or anything raised is a denial with a reason code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awr.errors import InvalidInput
from awr.guardian.policies.facts import Facts
from awr.guardian.policies.packs import OBSERVE, Grounding, Pack, Rule
from awr.guardian.policies.schema import ACTIONS, context_of, schema_text
from awr.guardian.verdict import PolicyReference

__all__ = ["CedarPolicy", "Judgement"]

#: What an operator is told who has to put something right.
_CORRECT = "A correction of the policy or of the Guardian's facts; awr guardian policy check tries the policy."
_PERMIT = "A policy that permits this step; nothing in the packs in use does."

_PRINCIPAL = {"type": "Agent", "id": "agent"}
_RESOURCE = {"type": "Session", "id": "session"}
_SKIPPED = re.compile(r"error while evaluating policy `([^`]+)`")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. A denial has a reason code, and says what would lift it.

    `rules` are those that decided, in the order of their packs. `errors` names what could not be evaluated, in words
    of our own; where there are any, the answer is a denial.
    """

    allowed: bool
    reason_codes: tuple[str, ...]
    lifts: tuple[str, ...]
    policy_references: tuple[PolicyReference, ...]
    rules: tuple[Rule, ...] = ()
    errors: tuple[str, ...] = ()


class CedarPolicy:
    """Packs that decide together: a step is allowed if some rule permits it and none forbids it.

    They are parsed and checked once, here. Raise InvalidInput for packs that cannot decide together or whose policies
    cannot be used. The pack `observe` has no rules, allows everything, stands alone, and needs no Cedar.
    """

    def __init__(self, packs: Sequence[Pack]) -> None:
        # A pack that two others extend is there once.
        self.packs = tuple(pack for number, pack in enumerate(packs) if pack not in packs[:number])
        _require_together(self.packs)
        #: What re-grounds a session, as the strictest of the packs says. Facts are to be computed by it.
        self.grounding: Grounding = (
            "endorsement" if any(pack.grounding == "endorsement" for pack in self.packs) else "user_step"
        )
        self.observes = [pack.id for pack in self.packs] == [OBSERVE]
        self.rules: Mapping[str, Rule] = {}
        self._read: frozenset[str] | None = None
        if not self.observes:
            self._load()
        self._references = {name: self._reference(rule.pack, rule.id) for name, rule in self.rules.items()}
        self._of_packs = tuple(self._reference(pack.id, None) for pack in self.packs)

    def judge(self, action: str, facts: Facts) -> Judgement:
        """Return the answer to one question. Nothing is raised: what cannot be judged is denied."""
        if self.observes:
            return Judgement(allowed=True, reason_codes=(), lifts=(), policy_references=self._of_packs)
        try:
            return self._judged(action, facts)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a fault inside Cedar is no Exception
            return self._failed((f"the question could not be evaluated: {type(error).__name__}",))

    def _judged(self, action: str, facts: Facts) -> Judgement:
        # Cedar would find this out only where some rule reads a fact in which the two differ.
        if ACTIONS.get(action) is not type(facts):
            return self._failed(("the facts are not those of the action",))
        request = {
            "principal": _PRINCIPAL,
            "action": {"type": "Action", "id": action},
            "resource": _RESOURCE,
            "context": context_of(facts, only=self._read),
        }
        answer = self._ask(request)
        diagnostics = answer.diagnostics
        decided = set(diagnostics.reasons)
        rules = tuple(rule for name, rule in self.rules.items() if name in decided)
        decision = answer.decision.value
        if decision == "NoDecision" or diagnostics.errors:
            return self._failed(self._errors(diagnostics.errors), rules if decision == "Deny" else ())
        if len(rules) != len(decided) or decision not in {"Allow", "Deny"}:
            return self._failed(("Cedar's answer names rules that are not known here",))
        references = tuple(self._references[rule.name] for rule in rules)
        if decision == "Allow" and rules:
            return Judgement(allowed=True, reason_codes=(), lifts=(), policy_references=references, rules=rules)
        if not rules:
            return Judgement(
                allowed=False, reason_codes=("no_permit",), lifts=(_PERMIT,), policy_references=self._of_packs
            )
        return Judgement(
            allowed=False,
            reason_codes=_unique(rule.reason for rule in rules),
            lifts=_unique(rule.lifts for rule in rules),
            policy_references=references,
            rules=rules,
        )

    def _failed(self, errors: tuple[str, ...], rules: tuple[Rule, ...] = ()) -> Judgement:
        return Judgement(
            allowed=False,
            reason_codes=_unique([*(rule.reason for rule in rules), "evaluation_failed"]),
            lifts=_unique([*(rule.lifts for rule in rules), _CORRECT]),
            policy_references=tuple(self._references[rule.name] for rule in rules) or self._of_packs,
            rules=rules,
            errors=errors,
        )

    def _errors(self, messages: Iterable[str]) -> tuple[str, ...]:
        """Return Cedar's messages in words of our own: its own may hold values of the facts."""
        named = {found.group(1) for message in messages if (found := _SKIPPED.match(message))}
        skipped = tuple(f"the rule {name} failed" for name in self.rules if name in named)
        return skipped or ("the facts do not fit the schema",)

    def _load(self) -> None:
        import cedarpy  # only here, so that who observes does not pay for it

        from awr.guardian.policies.rules import read_rules

        schema = cedarpy.Schema.from_str(schema_text())
        loaded = {name: one for pack in self.packs for name, one in read_rules(pack, schema=schema).items()}
        for pack in self.packs:
            for name in pack.leaves_out:
                if loaded.pop(name, None) is None:
                    raise InvalidInput(
                        "a pack leaves out a rule that is not there",
                        expected="PACK/RULE of a pack that it extends, once",
                        next_step="correct leaves_out in its pack.toml",
                    )
        self.rules = {name: one.rule for name, one in loaded.items()}
        policies = cedarpy.PolicySet.from_json_str(
            msgspec.json.encode(
                {
                    "templates": {},
                    "staticPolicies": {name: one.policy for name, one in loaded.items()},
                    "templateLinks": [],
                }
            ).decode()
        )
        if len(policies) != len(loaded):
            raise InvalidInput(
                "Cedar took another number of rules than there are",
                next_step="please report this: the packs cannot be used",
            )
        # Most of the cost of a question is checking its context, so Cedar is given what some rule reads, and a schema
        # of just that. Against the whole one, the rules have been checked above.
        reads = [one.reads for one in loaded.values()]
        self._read = None if None in reads else frozenset().union(*(one for one in reads if one is not None))
        schema = cedarpy.Schema.from_str(schema_text(only=self._read))
        entities = cedarpy.Entities.from_json_str("[]")

        def ask(request: dict[str, Any]) -> cedarpy.AuthzResult:
            return cedarpy.is_authorized(request, policies, entities, schema)

        self._ask = ask

    def _reference(self, pack_id: str, rule_id: str | None) -> PolicyReference:
        [pack] = [pack for pack in self.packs if pack.id == pack_id]
        return PolicyReference(
            policy_id=msgspec.UNSET if rule_id is None else rule_id,
            policy_version=pack.version,
            policy_name=pack.id,
            rule_id=f"sha256:{pack.sha256}",
        )


def _require_together(packs: Sequence[Pack]) -> None:
    names = [pack.id for pack in packs]
    if not names:
        raise InvalidInput(
            "there is no policy, and nothing is not a policy that allows",
            got="no pack",
            expected="at least one pack",
            next_step="name a pack; observe is the one that allows everything",
        )
    if len(set(names)) != len(names):
        raise InvalidInput(
            "two packs have one id",
            expected="an id of its own for each pack",
            next_step="change id in a pack.toml",
        )
    if OBSERVE in names and len(names) > 1:
        raise InvalidInput(
            "observe allows everything, so that no other pack can stand beside it",
            got=f"{len(names)} packs",
            expected="observe alone, or other packs without it",
            next_step="leave observe out",
        )


def _unique(words: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))

"""Editing of rules: a text is checked, compared with the rules in force, and applied."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from alerting.queries.known_rules import RuleRepository
from alerting.rules.changes import RulePlan, plan_rule
from alerting.rules.checks import find_unsupported_field
from alerting.rules.rule import Rule, RuleVersion
from alerting.rules.rule_file import find_contradictions
from alerting.rules.store.files import dump_rule_yaml, parse_rule_yaml
from alerting.rules.versions import RuleHistory
from runtime.registry.strict_yaml import find_yaml_lines
from tally.errors import BadRule, RuleConflict

# A text is parsed again after every change, and the time of YAML's reader grows with the square of
# the number of nested brackets: most of a second at this size.
MAX_TEXT_BYTES = 20_000
# The place where YAML itself breaks off: if it names several, the last one is the error.
_AT_LINE = re.compile(r"line (\d+), column \d+")
_FIELD = re.compile(r"'?([^\s:']+)'?:")


class RuleProblem(NamedTuple):
    """One problem of a text: the field, what is wrong and the fix.

    `line` counts from 1; None if the problem has no line.
    """

    line: int | None
    text: str


class RuleDraft(NamedTuple):
    """The result of checking a text: a rule, or at least one problem.

    `plan`: what applying it would write beside the newest version; None where there is no rule.
    """

    rule: Rule | None
    problems: tuple[RuleProblem, ...]
    plan: RulePlan | None = None


class EditedRule(NamedTuple):
    """A rule opened for editing: its newest version (None for a new rule) and its text."""

    newest: RuleVersion | None
    text: str


@dataclass(frozen=True)
class RuleEditService:
    """Edits over the topic of rules. Every method raises ViewsUnreachable."""

    rules: RuleRepository
    # Checking a text is CPU work: one check at a time leaves time for the other requests.
    _turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)

    async def load(self, rule_id: str) -> EditedRule:
        """The rule's newest version and its text. Raises UnknownName."""
        newest = (await self.rules.versions(rule_id))[-1]
        return EditedRule(newest, dump_rule_yaml(newest.rule))

    async def check(self, text: str, rule_id: str | None) -> RuleDraft:
        """Check the text against all existing rules; `rule_id`: None for a new rule."""
        chains = await self.rules.read()
        async with self._turn:
            return await asyncio.to_thread(check_draft, text, rule_id, chains)

    async def apply(self, rule: Rule, base: RuleVersion | None) -> RuleVersion:
        """Write the rule and return the version in force once it is read back.

        `base`: the version that the writer has seen. Raises RuleConflict when another version is
        in force than `base`, or came first; SendFailed when the brokers do not take it. A rule that
        means the same as the newest version is not written.
        """
        newest = (await self.rules.read_now()).newest_version(rule.rule_id)
        if newest != base:
            raise _conflict(rule.rule_id)
        plan = plan_rule(rule, newest)
        if plan.stored is None and newest is not None:
            return newest
        assert plan.stored is not None
        try:
            return await self.rules.write(plan.stored)
        except RuleConflict as error:
            # Two writes at the same moment are detected when the version is read back.
            raise _conflict(rule.rule_id) from error


def check_draft(text: str, rule_id: str | None, chains: RuleHistory) -> RuleDraft:
    """Check the text against the existing rules, with the checks of `tally rules apply`."""
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_TEXT_BYTES:
        opening = f"the text has {size:,} bytes; {MAX_TEXT_BYTES:,} are the most here, and"
        return _refusal(text, [f"{opening} `tally rules apply FILE` takes larger ones"])
    try:
        rule = parse_rule_yaml(text)
    except BadRule as error:
        return _refusal(text, error.problems)
    together = find_contradictions({rule.rule_id: rule}, chains.active_rules())
    problems = [*together.get(rule.rule_id, ())]
    # Otherwise the page of this rule would continue with another rule's versions.
    if rule_id is not None and rule.rule_id != rule_id:
        problems.append(f"rule_id: it is {rule_id} that is edited here; begin a new rule instead")
    if rule_id is None and chains.newest_version(rule.rule_id) is not None:
        problems.append(f"rule_id: there is a rule {rule.rule_id}; edit that one, or rename this")
    if reason := find_unsupported_field(rule):
        problems.append(reason)
    if problems:
        return _refusal(text, problems)
    return RuleDraft(rule, (), plan_rule(rule, chains.newest_version(rule.rule_id)))


def _refusal(text: str, problems: Sequence[str]) -> RuleDraft:
    # A text that cannot be parsed has no fields, so it is not parsed a second time.
    has_fields = any(map(_FIELD.match, problems))
    lines = find_yaml_lines(text.encode("utf-8", "replace")) if has_fields else {}
    return RuleDraft(
        None, tuple(RuleProblem(_problem_line(problem, lines), problem) for problem in problems)
    )


def _problem_line(problem: str, lines: Mapping[str, int]) -> int | None:
    """The line of the field that the problem begins with, or where YAML breaks off."""
    field_match = _FIELD.match(problem)
    if field_match is None:
        places = _AT_LINE.findall(problem)
        return int(places[-1]) if places else None
    name = field_match[1]
    return lines.get(name, lines.get(re.split(r"[.\[]", name)[0]))


def _conflict(rule_id: str) -> RuleConflict:
    return RuleConflict(
        f"{rule_id}: another version was written meanwhile, and that one holds."
        " Nothing of yours was applied. Look at what differs from it, then apply again",
        (rule_id,),
    )

"""Rules as somebody edits them: a text is checked, compared with what holds, and applied."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.rules.files import parse_rule, rule_text
from runtime.strict_yaml import yaml_lines
from serving.alerts.simulation.desk import KnownRules
from tally.alerts.rule import Rule, RuleVersion
from tally.alerts.rule_changes import PlannedRule, planned
from tally.alerts.rule_checks import not_judged
from tally.alerts.rule_file import problems_together
from tally.alerts.versions import RuleChains
from tally.errors import BadRule, RuleConflict

# A text is read anew whenever it has changed, and of brackets in brackets YAML's reader takes the
# square of their number: most of a second here.
MOST_TEXT_BYTES = 20_000
# Where YAML itself breaks off: of several places the last is the one that does not fit.
_AT_LINE = re.compile(r"line (\d+), column \d+")
_FIELD = re.compile(r"'?([^\s:']+)'?:")


class RuleProblem(NamedTuple):
    """What does not fit: field, what is wrong, the fix; `line`: from 1 on, None if it has none."""

    line: int | None
    text: str


class RuleDraft(NamedTuple):
    """What a text says: a rule, or problems, of which at least one then.

    `plan`: what applying it would write beside the newest version; None where there is no rule.
    """

    rule: Rule | None
    problems: tuple[RuleProblem, ...]
    plan: PlannedRule | None = None


class EditedRule(NamedTuple):
    """A rule as somebody has it before him: its newest version, None of a new one; and its text."""

    newest: RuleVersion | None
    text: str


@dataclass(frozen=True)
class RuleEditing:
    """Edits over the topic of rules. Every method raises ViewsUnreachable."""

    known: KnownRules
    # It is work of the processor, whoever types: others want their answers meanwhile.
    _one: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)

    async def opened(self, rule_id: str) -> EditedRule:
        """The rule's newest version and its text. Raises UnknownName."""
        newest = (await self.known.versions(rule_id))[-1]
        return EditedRule(newest, rule_text(newest.rule))

    async def checked(self, text: str, rule_id: str | None) -> RuleDraft:
        """What the text says beside all rules that there are; `rule_id`: None of a new one."""
        chains = await self.known.read()
        async with self._one:
            return await asyncio.to_thread(draft_of, text, rule_id, chains)

    async def apply(self, rule: Rule, base: RuleVersion | None) -> RuleVersion:
        """The version that holds now, once it is read back; `base`: what the writer has seen.

        Raises RuleConflict when another version holds than he has seen, or came first; NotSent
        when the brokers do not take it. What means the same writes nothing.
        """
        newest = (await self.known.read_now()).newest(rule.rule_id)
        if newest != base:
            raise _conflict(rule.rule_id)
        plan = planned(rule, newest)
        if plan.stored is None and newest is not None:
            return newest
        assert plan.stored is not None
        try:
            return await self.known.write(plan.stored)
        except RuleConflict as error:
            # What two wrote in one moment is found by whoever reads it back.
            raise _conflict(rule.rule_id) from error


def draft_of(text: str, rule_id: str | None, chains: RuleChains) -> RuleDraft:
    """The text against the rules that there are, by the checks of `tally rules apply`."""
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_TEXT_BYTES:
        told = f"the text has {size:,} bytes; {MOST_TEXT_BYTES:,} are the most here, and"
        return _refused(text, [f"{told} `tally rules apply FILE` takes larger ones"])
    try:
        rule = parse_rule(text)
    except BadRule as error:
        return _refused(text, error.problems)
    together = problems_together({rule.rule_id: rule}, chains.living())
    problems = [*together.get(rule.rule_id, ())]
    # Its own page would go on with another rule's versions.
    if rule_id is not None and rule.rule_id != rule_id:
        problems.append(f"rule_id: it is {rule_id} that is edited here; begin a new rule instead")
    if rule_id is None and chains.newest(rule.rule_id) is not None:
        problems.append(f"rule_id: there is a rule {rule.rule_id}; edit that one, or rename this")
    if reason := not_judged(rule):
        problems.append(reason)
    if problems:
        return _refused(text, problems)
    return RuleDraft(rule, (), planned(rule, chains.newest(rule.rule_id)))


def _refused(text: str, problems: Sequence[str]) -> RuleDraft:
    # What cannot be read has no fields; it is not read once more.
    has_fields = any(map(_FIELD.match, problems))
    lines = yaml_lines(text.encode("utf-8", "replace")) if has_fields else {}
    return RuleDraft(None, tuple(RuleProblem(_line_of(one, lines), one) for one in problems))


def _line_of(problem: str, lines: Mapping[str, int]) -> int | None:
    """The line of the field that the problem begins with, or where YAML breaks off."""
    found = _FIELD.match(problem)
    if found is None:
        places = _AT_LINE.findall(problem)
        return int(places[-1]) if places else None
    name = found[1]
    return lines.get(name, lines.get(name.split(".")[0]))


def _conflict(rule_id: str) -> RuleConflict:
    return RuleConflict(
        f"{rule_id}: somebody else has written another version meanwhile, and that one holds."
        " Nothing of yours was applied. Look at what differs from it, then apply again",
        (rule_id,),
    )

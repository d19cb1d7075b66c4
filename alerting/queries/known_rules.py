"""The rules for callers on an event loop: their versions, and edits of a rule's text."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaException

from alerting.rules.checks import find_unsupported_field
from alerting.rules.rule import Rule, RuleVersion
from alerting.rules.rule_file import dump_rule_yaml, find_contradictions, parse_rule_yaml
from alerting.rules.versions import RuleHistory, RulePlan, RuleSource, StoredRule, plan_rule
from runtime.http.work_pools import WorkPool
from runtime.registry.strict_yaml import find_yaml_lines
from tally.errors import BadRule, RuleConflict, StackError, UnknownName, ViewsUnreachable

# The maximum age of rules in an answer: of many concurrent requests, one reads the topic's end.
CACHE_SECONDS = 1.0
# A text is parsed again after every change, and the time of YAML's reader grows with the square of
# the number of nested brackets: most of a second at this size.
MAX_TEXT_BYTES = 20_000
# The place where YAML itself breaks off: if it names several, the last one is the error.
_AT_LINE = re.compile(r"line (\d+), column \d+")
_FIELD = re.compile(r"'?([^\s:']+)'?:")
# Raises RuleConflict when another writer was first with one of them, and SendFailed.
RuleWriter = Callable[[Sequence[StoredRule]], list[RuleVersion]]


class RuleRepository:
    """The rules, for callers on an event loop; without a writer none can be written.

    All concurrent callers share one read of the topic. `seconds`: a monotonic clock.
    """

    def __init__(
        self,
        source: RuleSource,
        writer: RuleWriter | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._writer, self._seconds = source, writer, seconds
        # One thread, because each read continues where the last one stopped.
        self._pool = WorkPool("rules", 1)
        self._reading: asyncio.Future[RuleHistory] | None = None
        self._cached: RuleHistory | None = None
        self._cached_at = 0.0

    async def read(self) -> RuleHistory:
        """The existing versions, at most CACHE_SECONDS old. Raises ViewsUnreachable."""
        if self._cached is not None and self._seconds() - self._cached_at <= CACHE_SECONDS:
            return self._cached
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self.read_now())
        # The first caller may be cancelled; the others still need the answer.
        return await asyncio.shield(self._reading)

    async def read_now(self) -> RuleHistory:
        """The versions that exist now, read for this caller. Raises ViewsUnreachable."""
        return await self._pool.run(self._read)

    async def versions(self, rule_id: str) -> tuple[RuleVersion, ...]:
        """The versions of one rule, ascending. Raises UnknownName, ViewsUnreachable."""
        found = (await self.read()).versions.get(rule_id)
        if not found:
            problem = f"there is no rule {rule_id[:64]!r}; GET /v1/rules lists them"
            raise UnknownName("rule_id", problem)
        return found

    async def write(self, stored: StoredRule) -> RuleVersion:
        """Write a version, and read it back. Raises RuleConflict, SendFailed, ViewsUnreachable."""
        (version,) = await self._pool.run(self._write, stored)
        return version

    def _write(self, stored: StoredRule) -> list[RuleVersion]:
        if self._writer is None:
            raise ViewsUnreachable("there is no topic of rules here")
        # The cached rules do not have the new version.
        self._cached = None
        try:
            return self._writer([stored])
        except (KafkaException, StackError) as error:
            problem = "the rule cannot be written; look at `tally status`, then at what holds"
            raise ViewsUnreachable(problem) from error

    def _read(self) -> RuleHistory:
        began = self._seconds()
        try:
            chains = self._source.read()
        except (KafkaException, StackError) as error:
            problem = "the rules cannot be read; look at `tally status` and ask again"
            raise ViewsUnreachable(problem) from error
        self._cached, self._cached_at = chains, began
        return chains


class RuleProblem(NamedTuple):
    """One problem of a text: field, what is wrong, the fix; and its line from 1 on, or None."""

    line: int | None
    text: str


class RuleDraft(NamedTuple):
    """A checked text: a rule with what applying it would write, or at least one problem."""

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
        stored = plan_rule(rule, newest).stored
        if stored is None and newest is not None:
            return newest
        assert stored is not None
        try:
            return await self.rules.write(stored)
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
    newest = chains.newest_version(rule.rule_id)
    together = find_contradictions({rule.rule_id: rule}, chains.active_rules())
    problems = [*together.get(rule.rule_id, ())]
    # Otherwise the page of this rule would continue with another rule's versions.
    if rule_id is not None and rule.rule_id != rule_id:
        problems.append(f"rule_id: it is {rule_id} that is edited here; begin a new rule instead")
    if rule_id is None and newest is not None:
        problems.append(f"rule_id: there is a rule {rule.rule_id}; edit that one, or rename this")
    if reason := find_unsupported_field(rule):
        problems.append(reason)
    if problems:
        return _refusal(text, problems)
    return RuleDraft(rule, (), plan_rule(rule, newest))


def _refusal(text: str, problems: Sequence[str]) -> RuleDraft:
    # A text that cannot be parsed has no fields, so it is not parsed a second time.
    has_fields = any(map(_FIELD.match, problems))
    lines = find_yaml_lines(text.encode("utf-8", "replace")) if has_fields else {}
    found = (RuleProblem(_problem_line(problem, lines), problem) for problem in problems)
    return RuleDraft(None, tuple(found))


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

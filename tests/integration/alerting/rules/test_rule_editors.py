"""Editors of one rule over the real topic: what one has not seen he does not write over."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from alerting.queries.known_rules import RuleEditService, RuleRepository
from alerting.rules.rule import RuleVersion
from alerting.rules.topic import RuleReader, write_rules
from ops.provision import topic_configuration
from tally.config.settings import Settings
from tally.errors import RuleConflict
from tests.integration.alerting.rules.test_rules_topic import rules_topic
from tests.unit.alerting.rules.rules import rule

EDITORS = 6


@pytest.fixture
def topic(kafka: str, settings: Settings) -> Iterator[str]:
    """A topic as the one of rules is, empty."""
    with rules_topic(settings, topic_configuration("chronicle", settings)) as name:
        yield name


def editing(settings: Settings, topic: str) -> RuleEditService:
    """One of a process of its own."""
    writer = partial(write_rules, settings, topic=topic)
    return RuleEditService(RuleRepository(RuleReader(settings, topic), writer))


async def all_at_once(settings: Settings, topic: str, base: RuleVersion | None) -> list[object]:
    """What becomes of editors who have all seen the same version, each with another text."""
    tried = [
        editing(settings, topic).apply(rule(for_=2 + number), base) for number in range(EDITORS)
    ]
    return list(await asyncio.gather(*tried, return_exceptions=True))


def test_of_editors_in_one_moment_one_holds_and_all_others_are_told(
    topic: str, settings: Settings
) -> None:
    first = asyncio.run(editing(settings, topic).apply(rule(), None))

    found = asyncio.run(all_at_once(settings, topic, first))

    held = [one for one in found if isinstance(one, RuleVersion)]
    lost = [one for one in found if isinstance(one, RuleConflict)]
    assert (len(held), len(lost)) == (1, EDITORS - 1)
    newest = asyncio.run(editing(settings, topic).load("many-visitors")).newest
    assert newest == held[0] and newest.version == 2


def test_who_has_seen_what_holds_goes_on_from_it(topic: str, settings: Settings) -> None:
    one = editing(settings, topic)
    asyncio.run(one.apply(rule(), None))
    with pytest.raises(RuleConflict):
        asyncio.run(one.apply(rule(for_=3), None))

    seen = asyncio.run(one.load("many-visitors")).newest
    made = asyncio.run(one.apply(rule(for_=3), seen))

    assert (made.version, made.rule.for_) == (2, 3)

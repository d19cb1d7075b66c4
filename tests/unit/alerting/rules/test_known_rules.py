"""Rules for many askers: one read of the topic for all, and what was written is seen at once."""

import asyncio

import pytest

from alerting.queries.known_rules import CACHE_SECONDS, RuleRepository
from alerting.rules.versions import RuleHistory, plan_rule
from tally.errors import ViewsUnreachable
from tests.support.evaluation.evaluating import BUSY, SILENT, in_force
from tests.support.evaluation.simulating import AwayRules, WrittenRules


class CountedRules(WrittenRules):
    """Rules that count how often they are read."""

    def __init__(self) -> None:
        super().__init__(in_force(BUSY, "2026-11-20T00:00"))
        self.reads = 0

    def read(self, until: int | None = None) -> RuleHistory:
        self.reads += 1
        return super().read(until)


@pytest.fixture
def rules() -> CountedRules:
    return CountedRules()


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def known(rules: CountedRules, clock: list[float]) -> RuleRepository:
    return RuleRepository(rules, rules.write, lambda: clock[0])


def test_many_askers_at_once_share_one_read(known: RuleRepository, rules: CountedRules) -> None:
    async def asked() -> list[RuleHistory]:
        return await asyncio.gather(*(known.read() for _ in range(100)))

    found = asyncio.run(asked())

    assert ({len(one.versions) for one in found}, len(found), rules.reads) == ({1}, 100, 1)


@pytest.mark.parametrize(("later", "reads"), [(CACHE_SECONDS, 1), (CACHE_SECONDS + 0.1, 2)])
def test_an_answer_is_reused_for_a_second(
    known: RuleRepository, rules: CountedRules, clock: list[float], later: float, reads: int
) -> None:
    async def asked() -> None:
        await known.read()
        clock[0] += later
        await known.read()

    asyncio.run(asked())

    assert rules.reads == reads


def test_what_was_written_is_read_at_once(known: RuleRepository, rules: CountedRules) -> None:
    stored = plan_rule(SILENT, None).stored
    assert stored is not None

    async def asked() -> list[list[str]]:
        before = await known.read()
        await known.write(stored)
        return [sorted(before.versions), sorted((await known.read()).versions)]

    assert asyncio.run(asked()) == [["busy"], ["busy", "silent"]]


def test_who_must_know_what_holds_now_reads_anew(
    known: RuleRepository, rules: CountedRules
) -> None:
    async def asked() -> None:
        await known.read()
        await known.read_now()

    asyncio.run(asked())

    assert rules.reads == 2


def test_the_first_asker_may_hang_up(known: RuleRepository, rules: CountedRules) -> None:
    async def asked() -> RuleHistory:
        first, second = (asyncio.create_task(known.read()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert (len(asyncio.run(asked()).versions), rules.reads) == (1, 1)


def test_a_failure_is_told_to_all_and_not_kept() -> None:
    away = RuleRepository(AwayRules())

    async def asked() -> list[RuleHistory | BaseException]:
        first = await asyncio.gather(*(away.read() for _ in range(3)), return_exceptions=True)
        return [*first, *await asyncio.gather(away.read(), return_exceptions=True)]

    assert [type(one) for one in asyncio.run(asked())] == [ViewsUnreachable] * 4

"""The gauge of rules that cannot be evaluated; each reason is a verdict that says nothing."""

import asyncio
from dataclasses import replace
from datetime import date

import pytest

from alerting.episodes.verdict import evaluate_window
from alerting.evaluate.scope.rule_set import resolve_metrics
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader, list_requests
from alerting.evaluate.snapshot.window_facts import WindowCells, build_facts
from alerting.health import service as health_service
from alerting.health.service import RuleHealthService, UnevaluatedCounter
from alerting.health.store import EvaluatedPartition, HealthTarget, RuleInForce, find_day_reasons
from alerting.rules.rule import Rule
from runtime.registry.sources import SALES
from serving.questions.known_stores import KnownStores
from serving.questions.stores import StoreRegistry
from tally.alerts.tick import SpeedEpoch
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import to_millis
from tests.contract.api.alerts.test_rule_health import (
    CONVERSION,
    GONE,
    NOW,
    SINCE,
    USUAL,
    Brokers,
    listed,
    looking,
    sends,
)
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, in_force
from tests.support.evaluation.simulating import simulations_over
from tests.support.serving.serving_world import MemoryViews, World, at, sale


def selling() -> MemoryViews:
    world = World(rows=[sale("406", f"{DAY}T19:30", 2, 300)])
    world.activity = sends(SALES, "367", "406", since=date(2026, 11, 1))
    return MemoryViews(world)


def counter_over(views: MemoryViews, *rules: Rule) -> UnevaluatedCounter:
    settings = Settings()
    simulations = simulations_over(views, listed(*rules))
    health = RuleHealthService(simulations.rules, Brokers().facts, views, settings, simulations.now)
    return UnevaluatedCounter(health, KnownStores(views, StoreRegistry.load(settings)))


def scraped(counter: UnevaluatedCounter) -> list[str]:
    """The samples behind the first count."""

    async def scrape() -> str:
        assert counter.to_text() == ""
        await counter.wait_idle()
        return counter.to_text()

    return [line for line in asyncio.run(scrape()).splitlines() if not line.startswith("#")]


def test_each_rule_has_its_stores_counted_by_reason() -> None:
    found = scraped(counter_over(selling(), BUSY, CONVERSION, GONE, SILENT))

    assert found == [
        'tally_rules_unjudged{reason="no_data",rule="busy"} 1.0',
        'tally_rules_unjudged{reason="catalogue",rule="gone"} 2.0',
        'tally_rules_unjudged{reason="never_sent",rule="share"} 2.0',
    ]


def test_rules_are_counted_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_service, "MAX_RULES", 1)

    found = scraped(counter_over(selling(), BUSY, GONE))

    assert found == ['tally_rules_unjudged{reason="no_data",rule="busy"} 1.0']


def test_without_tables_nothing_is_said() -> None:
    views = selling()
    views.is_down = True

    assert scraped(counter_over(views, BUSY)) == []


def test_the_api_has_it_among_its_counters() -> None:
    with looking(selling(), in_force(GONE, SINCE)) as ask:
        # The count goes on between the scrapes.
        texts = (ask("/metrics").text for _ in range(1_000))
        line = 'tally_rules_unjudged{reason="catalogue",rule="gone"} 2.0\n'
        assert any(line in text for text in texts)


def test_scrapes_begin_one_count_and_no_further_one() -> None:
    counter = counter_over(selling(), BUSY)

    async def scrape() -> bool:
        counter.to_text()
        first = counter._counting
        await counter.wait_idle()
        counter.to_text()
        return first is counter._counting

    assert asyncio.run(scrape())


@pytest.mark.parametrize("rule", [BUSY, SILENT, USUAL, replace(BUSY, on_silence="raise")])
@pytest.mark.parametrize("store_id", ["367", "406"])
@pytest.mark.parametrize("floor", [0, to_millis(at(f"{DAY}T12:00"))])
def test_whatever_cannot_be_evaluated_gets_no_verdict(
    rule: Rule, store_id: str, floor: int
) -> None:
    views, settings = selling(), Settings()
    metrics = resolve_metrics(rule)
    assert metrics is not None
    checked = RuleInForce(in_force(rule, SINCE), metrics)
    facts = Brokers(epochs={"sales": SpeedEpoch(SALES.epoch, floor)}).facts()
    number = partition_number(store_id, settings.partitions)
    state = EvaluatedPartition(facts.ticks[number], facts.evaluated_at[number])
    snapshot = SnapshotReader(views, StoreRegistry.load(settings), settings)
    known_by = checked.evaluation_tick(state.tick)
    span = snapshot.days(store_id).day(to_millis(at(NOW))).cut_at(known_by.closed)
    asyncio.run(snapshot.read(list_requests(rule, metrics, store_id, span)))

    read = HealthTarget(store_id, date(2026, 11, 1), snapshot, state)
    reasons = dict(find_day_reasons(checked, read, span))

    compared = 0
    for cell in snapshot.cells(metrics.metric, store_id, span):
        cells = WindowCells(cell)
        ruling = evaluate_window(rule, build_facts(rule, metrics, cells, known_by, is_exempt=False))
        # What is evaluated may say nothing too: a value between the two conditions.
        assert reasons[cells.start] is None or ruling == 0
        compared += reasons[cells.start] is not None
    is_blind = floor > 0 or (rule.kind, rule.on_silence) == ("threshold", "hold")
    assert compared > 0 or not is_blind

"""Whether a rule can be evaluated, over HTTP: each reason, since when, and what counts as such."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from alerting.health.watch import AlertFacts
from alerting.rules.rule import AgainstBaseline, Rule, RuleVersion, Threshold
from runtime.registry.sources import FAMILIES, SALES, TRAFFIC
from serving.storage.tables import Activity
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.families.family import Family
from tally.time.instants import to_millis
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, ListedRules, in_force
from tests.support.evaluation.simulating import AwayRules, simulations_over
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import PARTITIONS, MemoryViews, World, at, flip, sale
from tests.support.twin.silent_sensors import OF_SPEED, STORES, silent_world
from web.api.app import AlertBrokers, create_app

NOW, SINCE = f"{DAY}T20:00", "2026-11-20T00:00"
INVENTORY = FAMILIES["inventory"]
CONVERSION = replace(BUSY, rule_id="share", metric="conversion")
GONE = replace(BUSY, rule_id="gone", metric="happiness")
USUAL = Rule(
    rule_id="usual",
    kind="baseline",
    metric="revenue",
    condition=AgainstBaseline("same_weekday_4w", change="<= -30 %"),
)
SOLD_OUT = Rule(
    rule_id="sold-out",
    kind="stock",
    subject="item",
    metric="stock_on_hand",
    condition=Threshold("<=", Decimal(0)),
    clear=Threshold(">=", Decimal(5)),
)
VISITORS = replace(BUSY, rule_id="visitors", metric="visitors_in", stores=("367",))


def instant(text: str) -> str:
    return f"{text}:00Z"


@dataclass
class Brokers:
    """What the brokers say: ticks at an instant, how far was read, and what was evaluated."""

    now: str = NOW
    through: str | None = None
    evaluated: str | None = None
    epochs: dict[str, SpeedEpoch] = field(default_factory=dict)

    def facts(self) -> AlertFacts:
        reached = to_millis(at(self.through or self.now))
        tick = Tick(
            at=to_millis(at(self.now)),
            through=dict.fromkeys(FAMILIES, reached),
            epoch={name: SpeedEpoch(of.epoch) for name, of in FAMILIES.items()} | self.epochs,
        )
        evaluated = to_millis(at(self.evaluated or self.now))
        numbers = range(PARTITIONS)
        return AlertFacts(dict.fromkeys(numbers, tick), dict.fromkeys(numbers, evaluated))


@pytest.fixture
def views() -> MemoryViews:
    """Store 367 sells from 9 to 10 of the day, and 406 in the quarter hour that closed last too."""
    sold = [("367", "09:00"), ("367", "09:45"), ("406", "09:00"), ("406", "19:30")]
    world = World(rows=[sale(store, f"{DAY}T{time}", 2, 300) for store, time in sold])
    world.activity = sends(SALES, "367", "406")
    return MemoryViews(world)


def sends(family: Family, *stores: str, since: date = date(2026, 11, 1)) -> list[Any]:
    return [(family, Activity(store, since, since)) for store in stores]


def listed(*rules: Rule) -> ListedRules:
    return ListedRules(*(in_force(rule, SINCE) for rule in rules))


@contextmanager
def looking(
    views: MemoryViews,
    *versions: RuleVersion,
    brokers: Brokers | None = None,
    settings: Settings | None = None,
) -> Iterator[Ask]:
    """A function that asks an API over these rules and brokers."""
    settings, brokers = settings or Settings(), brokers or Brokers()
    simulations = simulations_over(views, ListedRules(*versions), settings, brokers.now)
    links = AlertBrokers(fact_source=brokers)
    with asking(create_app(settings, views, MemoryFeed(), simulations, links)) as ask:
        yield ask


def health(views: MemoryViews, rule: Rule, store: str = "367", **more: Any) -> dict[str, Any]:
    """What is answered of one store."""
    with looking(views, in_force(rule, SINCE), **more) as ask:
        answer = ask(f"/v1/rules/{rule.rule_id}/health", store=store)
    assert answer.status_code == 200, answer.text
    [found] = answer.json()["stores"]
    assert (found["store_id"], found["judged"]) == (store, found["reason"] is None)
    return {name: found[name] for name in ("reason", "since", "earlier")}


def reason(name: str, since: str | None, earlier: bool = False) -> dict[str, Any]:
    told = None if since is None else instant(since)
    return {"reason": name, "since": told, "earlier": earlier}


EVALUATED = {"reason": None, "since": None, "earlier": False}


def test_a_store_that_sends_is_evaluated(views: MemoryViews) -> None:
    assert health(views, BUSY, "406") == EVALUATED


def test_a_store_that_sends_nothing_is_not_evaluated_since_its_last_quarter_hour(
    views: MemoryViews,
) -> None:
    assert health(views, BUSY) == reason("no_data", f"{DAY}T10:00")


def test_what_a_generation_covers_is_a_true_zero_and_evaluated(views: MemoryViews) -> None:
    views.world.pointers.append((SALES, flip(DAY, 1, NOW, 0, covered_until=NOW)))

    assert health(views, BUSY) == EVALUATED


def test_a_silence_rule_evaluates_a_store_that_sends_nothing(views: MemoryViews) -> None:
    assert health(views, SILENT) == EVALUATED


def test_quarter_hours_that_the_rule_leaves_out_are_not_asked(
    views: MemoryViews, tmp_path: Path
) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text('367: {opening_hours: {mon-sun: "09:00-10:00"}}\n', "utf-8")
    settings = Settings(stores_file=file)
    rule = replace(BUSY, within="opening_hours")

    # The last quarter hour in which it was open had something.
    assert health(views, rule, settings=settings) == EVALUATED


def test_a_value_below_the_minimum_counts_as_evaluated(views: MemoryViews) -> None:
    rule = replace(BUSY, minimum={"transactions": 1_000})

    assert health(views, rule, "406") == EVALUATED


def test_a_store_that_never_sent_one_of_the_families_is_named(views: MemoryViews) -> None:
    assert health(views, CONVERSION) == reason("never_sent", None)


def test_a_pipeline_that_is_behind_is_told_with_its_last_closed_window(views: MemoryViews) -> None:
    brokers = Brokers(through=f"{DAY}T12:07")

    assert health(views, BUSY, brokers=brokers) == reason("behind", f"{DAY}T12:00")


def test_an_evaluator_that_evaluates_nothing_is_told_with_its_last_tick(views: MemoryViews) -> None:
    brokers = Brokers(evaluated=f"{DAY}T19:30")

    assert health(views, BUSY, "406", brokers=brokers) == reason("not_evaluated", f"{DAY}T19:30")


def test_without_a_word_of_the_brokers_nothing_is_known_to_be_evaluated(views: MemoryViews) -> None:
    simulations = simulations_over(views, listed(BUSY))
    with asking(create_app(Settings(), views, MemoryFeed(), simulations)) as ask:
        [found] = ask("/v1/rules/busy/health", store="406").json()["stores"]

    assert (found["reason"], found["since"]) == ("not_evaluated", None)


def test_rows_of_another_definition_are_not_evaluated_since_the_rule_is_in_force(
    views: MemoryViews,
) -> None:
    floor = to_millis(at(f"{DAY}T23:00"))
    brokers = Brokers(epochs={"sales": SpeedEpoch(SALES.epoch, floor)})

    assert health(views, BUSY, "406", brokers=brokers) == reason("definition", SINCE)


def test_a_begin_that_lies_too_far_back_is_said_to_be_earlier(views: MemoryViews) -> None:
    old = in_force(BUSY, "2026-01-01T00:00")
    with looking(views, old, brokers=Brokers(now="2026-12-24T20:00")) as ask:
        [found] = ask("/v1/rules/busy/health", store="367").json()["stores"]

    # The day of the question and 13 before it.
    assert (found["since"], found["earlier"]) == ("2026-12-11T00:00:00Z", True)


def test_sensors_that_were_not_there_are_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    views = MemoryViews(silent_world())
    views.world.activity += sends(TRAFFIC, "367")
    settings = Settings(stores_file=file)

    found = health(views, VISITORS, settings=settings, brokers=Brokers(now=f"{OF_SPEED}T10:05"))

    assert found == reason("coverage", f"{OF_SPEED}T09:00")


def test_a_number_that_is_withheld_is_the_reason() -> None:
    views = MemoryViews(silent_world())
    views.world.activity += sends(FAMILIES["wifi"], "367")
    people = replace(BUSY, rule_id="people", metric="in_store_traffic")

    brokers, settings = Brokers(now="2026-11-20T10:05"), Settings(privacy_smallest_cell=10)

    found = health(views, people, brokers=brokers, settings=settings)

    assert found["reason"] == "withheld"


def test_a_baseline_that_nobody_knows_is_the_reason(views: MemoryViews) -> None:
    found = health(views, USUAL, "406")

    assert (found["reason"], found["earlier"]) == ("no_baseline", False)


def test_articles_that_nobody_has_counted_are_the_reason(views: MemoryViews) -> None:
    views.world.activity += sends(INVENTORY, "406")

    assert health(views, SOLD_OUT, "406")["reason"] == "not_counted"


def test_a_metric_that_does_not_exist_is_the_reason_in_every_store(views: MemoryViews) -> None:
    with looking(views, in_force(GONE, SINCE)) as ask:
        answer = ask("/v1/rules/gone/health").json()

    assert [(one["store_id"], one["reason"], one["since"]) for one in answer["stores"]] == [
        ("367", "catalogue", instant(SINCE)),
        ("406", "catalogue", instant(SINCE)),
    ]


def test_only_stores_that_the_rule_is_about_are_listed_by_pages(views: MemoryViews) -> None:
    views.world.activity += sends(SALES, "500")
    with looking(views, in_force(replace(BUSY, stores=("367", "500")), SINCE)) as ask:
        first = ask("/v1/rules/busy/health", limit="1").json()
        second = ask(first["next"]).json()

    found = [store["store_id"] for page in (first, second) for store in page["stores"]]
    assert (found, first["version"], second["next"]) == (["367", "500"], 1, None)


@pytest.mark.parametrize(
    "version",
    [in_force(BUSY, "2027-01-01T00:00"), in_force(BUSY, SINCE, retired=True)],
)
def test_a_rule_that_is_not_in_force_has_no_stores(
    views: MemoryViews, version: RuleVersion
) -> None:
    with looking(views, version) as ask:
        answer = ask("/v1/rules/busy/health").json()

    assert (answer["version"], answer["stores"]) == (None, [])


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/v1/rules/nobody/health", {}, 404),
        ("/v1/rules/busy/health", {"store": "nobody"}, 404),
        ("/v1/rules/busy/health", {"colour": "red"}, 422),
        ("/v1/rules/busy/health", {"limit": "0"}, 422),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    views: MemoryViews, path: str, asked: dict[str, str], status: int
) -> None:
    with looking(views, in_force(BUSY, SINCE)) as ask:
        assert ask(path, **asked).status_code == status


def test_without_rules_or_tables_there_is_no_answer(views: MemoryViews) -> None:
    links = AlertBrokers(fact_source=Brokers())
    away = simulations_over(views, AwayRules())
    with asking(create_app(Settings(), views, MemoryFeed(), away, links)) as ask:
        found = [ask("/v1/rules/busy/health")]
    with looking(views, in_force(BUSY, SINCE)) as ask:
        views.is_down = True
        found.append(ask("/v1/rules/busy/health"))

    assert [answer.status_code for answer in found] == [503, 503]

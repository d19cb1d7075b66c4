"""Rules without conditions in `and` and without a grain are evaluated as they were before there
were any: digests of verdicts that were recorded then (88dda7f), over generated facts and days."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from random import Random

from alerting.episodes.verdict import WindowFacts, evaluate_window
from alerting.rules.rule import AgainstBaseline, Condition, Rule, Threshold
from tally.alerts.baseline import WindowBaseline
from tests.support.alerts.store_evaluation import StoreEvaluation
from tests.support.serving.serving_world import World, at, counted, flip, sale

FACTS_BEFORE = "8455f5f1ca414ae22afda653cad66c23ee12340b378a19ef7f09831ec82a0f24"
DAYS_BEFORE = "1b632232167a43f69bf4debe0766eca62a8ecca68093b4702e3c2b082460559d"
FIRST = at("2026-03-27T00:00")
DAYS = ("2026-03-27", "2026-03-28", "2026-03-29", "2026-03-30")


def digest(said: Sequence[object]) -> str:
    return sha256(repr(said).encode()).hexdigest()


def condition(random: Random) -> Condition:
    if random.random() < 0.2:
        return AgainstBaseline("same_weekday_4w", "<= -30 %")
    return Threshold(random.choice((">=", ">", "<=", "<")), Decimal(random.randint(0, 40)) / 4)


def rule(random: Random) -> Rule:
    return Rule(
        rule_id="any",
        kind=random.choice(("threshold", "baseline", "silence", "stock")),
        condition=condition(random),
        clear=random.choice((None, condition(random))),
        evaluate=random.choice(("eager", "close")),
        on_silence=random.choice(("hold", "raise")),
    )


def facts(random: Random) -> WindowFacts:
    return WindowFacts(
        phase=random.choice(("open", "closed", "covered")),
        value=random.choice((None, random.randint(0, 10), Fraction(random.randint(0, 40), 3))),
        is_known=random.random() < 0.9,
        meets_minimum=random.random() < 0.9,
        is_exempt=random.random() < 0.1,
        baseline=random.choice((None, WindowBaseline(Fraction(7, 2), 1))),
        level=random.choice((None, random.randint(0, 10))),
    )


def test_verdicts_on_generated_facts_are_those_of_before() -> None:
    random = Random(47)
    said: list[int] = [evaluate_window(rule(random), facts(random)) for _ in range(20_000)]

    assert min(map(said.count, (-1, 0, 1))) > 2_000
    assert digest(said) == FACTS_BEFORE
    assert digest([*said[:-1], said[-1] + 1]) != FACTS_BEFORE


RULES = (
    Rule(rule_id="busy", metric="transactions", condition=Threshold(">=", Decimal(5))),
    Rule(
        rule_id="quiet",
        metric="revenue",
        condition=Threshold("<", Decimal(300)),
        clear=Threshold(">=", Decimal(500)),
        on_silence="raise",
    ),
    Rule(
        rule_id="few-buy",
        metric="conversion",
        condition=Threshold("<", Decimal("0.3")),
        minimum={"visitors_in": 5},
    ),
    Rule(
        rule_id="many",
        metric="visitors_in",
        condition=Threshold(">", Decimal(9)),
        evaluate="eager",
        within="opening_hours",
    ),
    Rule(rule_id="silent", kind="silence", family="sales", on_silence="raise"),
)


def generated_world(random: Random) -> World:
    """Four days of sales and counts, of which generations cover most and the speed layer knows
    more of some quarter hours."""
    world = World()
    for number, day in enumerate(DAYS, 1):
        until = {} if day != DAYS[-1] else {"covered_until": f"{day}T14:00"}
        for family in {one.family.name: one.family for one in (SALE, COUNT)}.values():
            world.pointers.append((family, flip(day, number, f"{day}T23:00", 0, **until)))
        for quarter in range(96):
            start = f"{at(day + 'T00:00') + timedelta(minutes=15 * quarter):%Y-%m-%dT%H:%M}"
            generation = None if day == DAYS[-1] and quarter >= 56 else number
            if random.random() < 0.7:
                events = random.randint(1, 9)
                row = sale("367", start, events, 100 * events, generation=generation)
                world.rows.append(row if generation else sale("367", start, events, 100 * events))
            if random.random() < 0.7:
                events = random.randint(1, 15)
                world.rows.append(counted("367", start, events, events, generation))
            if random.random() < 0.1:
                world.rows.append(sale("367", start, 12, 1200))
    return world


SALE, COUNT = sale("367", "2026-03-27T00:00", 1, 1), counted("367", "2026-03-27T00:00", 1, 1)


def test_verdicts_on_generated_days_are_those_of_before() -> None:
    evaluation = StoreEvaluation(generated_world(Random(47)), f"{DAYS[-1]}T20:10")

    said = [
        (window.verdict.verdict, window.verdict.is_covered)
        for rule in RULES
        for day in DAYS
        for window in evaluation.of_day(rule, f"{day}T12:00")
    ]

    # Of four days the third has 92 quarter hours, and the last has not ended.
    assert len(said) == len(RULES) * (96 + 96 + 92 + 89)
    assert min(sum(one == wanted for one, _ in said) for wanted in (-1, 0, 1)) > 200
    assert digest(said) == DAYS_BEFORE

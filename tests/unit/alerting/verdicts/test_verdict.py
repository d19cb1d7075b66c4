from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from alerting.episodes.verdict import Verdict, WindowFacts, WindowPhase, evaluate_window
from alerting.rules.rule import AgainstBaseline, Rule, RuleKind, Threshold
from tally.alerts.baseline import ExactValue, WindowBaseline

QUEUE = Rule(
    rule_id="queue-too-long",
    metric="queue_length_max",
    condition=Threshold(">=", Decimal(6)),
    clear=Threshold("<=", Decimal(3)),
)
EAGER = replace(QUEUE, evaluate="eager")
INSISTING = replace(QUEUE, on_silence="raise")
SILENCE = Rule(rule_id="store-silent", kind="silence", family="receipts", on_silence="raise")
STOCK = replace(EAGER, kind="stock")
LOW = Threshold("<", Decimal("0.3"))
SOME: tuple[ExactValue | None, ...] = (6, 4, 3, None)
# What the windows say to each rule whose value is 6, between, 3, and where nothing has come.
TABLE: list[tuple[Rule, WindowPhase, tuple[Verdict, ...]]] = [
    (QUEUE, "open", (0, 0, 0, 0)),
    (QUEUE, "closed", (1, 0, -1, 0)),
    (QUEUE, "covered", (1, 0, -1, -1)),
    (EAGER, "open", (1, 0, 0, 0)),
    (EAGER, "closed", (1, 0, -1, 0)),
    (EAGER, "covered", (1, 0, -1, -1)),
    (INSISTING, "open", (0, 0, 0, 0)),
    (INSISTING, "closed", (1, 0, -1, 1)),
    (INSISTING, "covered", (1, 0, -1, 1)),
    (SILENCE, "open", (0, 0, 0, 0)),
    (SILENCE, "closed", (-1, -1, -1, 1)),
    (SILENCE, "covered", (-1, -1, -1, 1)),
    (STOCK, "open", (1, 0, 0, 0)),
    (STOCK, "closed", (1, 0, -1, 0)),
    (STOCK, "covered", (1, 0, -1, 0)),
]
phases = st.sampled_from(["open", "closed", "covered"])
rules = st.builds(
    Rule,
    rule_id=st.just("any"),
    kind=st.sampled_from(["threshold", "silence", "stock"]),
    condition=st.builds(Threshold, st.sampled_from([">=", ">"]), st.integers(4, 6).map(Decimal)),
    clear=st.none()
    | st.builds(Threshold, st.sampled_from(["<=", "<"]), st.integers(0, 3).map(Decimal)),
    evaluate=st.sampled_from(["eager", "close"]),
    on_silence=st.sampled_from(["hold", "raise"]),
)
facts = st.builds(
    WindowFacts,
    phase=phases,
    value=st.none() | st.integers(-1, 8) | st.fractions(0, 8),
)


@pytest.mark.parametrize(("rule", "phase", "expected"), TABLE)
def test_table_of_verdicts(rule: Rule, phase: WindowPhase, expected: tuple[Verdict, ...]) -> None:
    found = tuple(evaluate_window(rule, WindowFacts(phase=phase, value=value)) for value in SOME)

    assert found == expected


@pytest.mark.parametrize(
    ("lowest", "level", "expected"),
    [(0, 0, 1), (-2, 9, 1), (0, 9, 1), (1, 4, 0), (1, 5, -1), (5, 5, -1)],
)
def test_a_stock_rule_raises_by_the_least_and_clears_by_what_is_left(
    lowest: int, level: int, expected: Verdict
) -> None:
    rule = replace(STOCK, condition=Threshold("<=", Decimal(0)), clear=Threshold(">=", Decimal(5)))
    facts = WindowFacts(phase="closed", value=lowest, level=level)

    assert evaluate_window(rule, facts) == expected
    # While more may come it raises alone.
    assert evaluate_window(rule, structs.replace(facts, phase="open")) == max(expected, 0)


@pytest.mark.parametrize("rule", [QUEUE, EAGER, INSISTING, SILENCE, STOCK])
@pytest.mark.parametrize("phase", ["open", "closed", "covered"])
@pytest.mark.parametrize("why", [{"is_known": False}, {"is_exempt": True}])
@pytest.mark.parametrize("value", SOME)
def test_what_is_not_known_or_exempt_says_nothing(
    rule: Rule, phase: WindowPhase, why: dict[str, bool], value: ExactValue | None
) -> None:
    said = WindowFacts(phase=phase, value=value)
    found = evaluate_window(rule, structs.replace(said, **why))

    assert found == 0


@pytest.mark.parametrize("phase", ["open", "closed", "covered"])
@pytest.mark.parametrize("value", [6, 3])
def test_below_its_minimum_a_value_is_not_known(phase: WindowPhase, value: int) -> None:
    assert evaluate_window(EAGER, WindowFacts(phase=phase, value=value, meets_minimum=False)) == 0


@pytest.mark.parametrize(("rule", "expected"), [(QUEUE, 0), (INSISTING, 1), (SILENCE, 1)])
def test_a_true_zero_below_the_minimum_is_still_silence(rule: Rule, expected: Verdict) -> None:
    facts = WindowFacts(phase="covered", value=None, meets_minimum=False)

    assert evaluate_window(rule, facts) == expected


def test_without_a_clear_of_its_own_whatever_does_not_raise_clears() -> None:
    rule = replace(QUEUE, clear=None)

    found = [evaluate_window(rule, WindowFacts(phase="closed", value=value)) for value in (6, 5)]

    assert found == [1, -1]


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(3, 10, -1), (299_999_999_999_999_999, 10**18, 1), (1, 3, -1), (0, 7, 1)],
)
def test_ratios_are_compared_exactly(numerator: int, denominator: int, expected: Verdict) -> None:
    rule = Rule(rule_id="conversion-low", metric="conversion", condition=LOW)
    facts = WindowFacts(phase="closed", value=Fraction(numerator, denominator))

    assert evaluate_window(rule, facts) == expected


def test_values_of_any_size_are_compared_exactly() -> None:
    rule = replace(QUEUE, condition=Threshold(">", Decimal(2**63)), clear=None)

    found = [
        evaluate_window(rule, WindowFacts(phase="closed", value=2**63 + more)) for more in (0, 1)
    ]

    assert found == [-1, 1]


@pytest.mark.parametrize(
    ("condition", "value", "usual", "expected"),
    [
        (AgainstBaseline("same_weekday_4w", "<= -30 %"), 70, WindowBaseline(100, 81), 1),
        (AgainstBaseline("same_weekday_4w", "<= -30 %"), 71, WindowBaseline(100, 81), -1),
        (AgainstBaseline("same_weekday_4w", ">= +50%"), 150, WindowBaseline(100, 81), 1),
        (AgainstBaseline("same_weekday_4w", "<= -30 %"), 0, WindowBaseline(0, 0), 0),
        (AgainstBaseline("same_weekday_4w", "<= -30 %"), -8, WindowBaseline(-10, 1), 0),
        (AgainstBaseline("hour_of_week", sigmas=3.0), 70, WindowBaseline(100, 100), 1),
        (AgainstBaseline("hour_of_week", sigmas=3.0), 130, WindowBaseline(100, 100), 1),
        (AgainstBaseline("hour_of_week", sigmas=3.0), 129, WindowBaseline(100, 100), -1),
        (AgainstBaseline("hour_of_week", sigmas=3.0), 100, WindowBaseline(100, 0), 0),
        (AgainstBaseline("hour_of_week", sigmas=3.0), 70, None, 0),
        (AgainstBaseline("hour_of_week"), 70, WindowBaseline(100, 100), 0),
        (None, 70, None, 0),
    ],
)
def test_baseline_says_nothing_where_nothing_is_usual(
    condition: AgainstBaseline | None, value: int, usual: WindowBaseline | None, expected: Verdict
) -> None:
    rule = Rule(rule_id="unusual", kind="baseline", metric="revenue", condition=condition)
    facts = WindowFacts(phase="closed", value=value, baseline=usual)

    assert evaluate_window(rule, facts) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(130, 1), (129, 0), (121, 0), (120, -1), (100, -1), (80, -1), (79, 0), (70, 1)],
)
def test_deviations_end_where_a_value_is_near_what_is_usual(value: int, expected: Verdict) -> None:
    far, near = (AgainstBaseline("hour_of_week", sigmas=one) for one in (3.0, 2.0))
    rule = Rule(rule_id="far", kind="baseline", metric="units", condition=far, clear=near)

    def told(usual: WindowBaseline | None) -> Verdict:
        return evaluate_window(rule, WindowFacts(phase="closed", value=value, baseline=usual))

    assert (told(WindowBaseline(100, 100)), told(WindowBaseline(100, 0)), told(None)) == (
        expected,
        0,
        0,
    )


def by_the_table(rule: Rule, facts: WindowFacts) -> Verdict:
    """The table, read with plain thresholds that do not overlap."""
    kind: RuleKind = rule.kind
    is_nothing = facts.value is None or (kind == "silence" and facts.value == 0)
    if kind == "silence":
        return 0 if facts.phase == "open" else 1 if is_nothing else -1
    value = facts.value
    if value is None and facts.phase != "open" and rule.on_silence == "raise":
        return 1
    if value is None and facts.phase == "covered" and kind != "stock":
        value = 0
    if value is None:
        return 0
    assert isinstance(rule.condition, Threshold)
    edge = int(rule.condition.value)
    if value > edge or (value == edge and rule.condition.op == ">="):
        return 1 if facts.phase != "open" or rule.evaluate == "eager" else 0
    if facts.phase == "open":
        return 0
    if rule.clear is None:
        return -1
    assert isinstance(rule.clear, Threshold)
    edge = int(rule.clear.value)
    return -1 if value < edge or (value == edge and rule.clear.op == "<=") else 0


@given(rules, facts)
def test_verdict_is_that_of_the_table(rule: Rule, said: WindowFacts) -> None:
    assert evaluate_window(rule, said) == by_the_table(rule, said)


@given(rules, facts)
def test_an_open_window_never_clears_and_only_eager_rules_raise_in_it(
    rule: Rule, said: WindowFacts
) -> None:
    found = evaluate_window(rule, structs.replace(said, phase="open"))

    assert found == 0 or (found == 1 and rule.evaluate == "eager" and said.value is not None)

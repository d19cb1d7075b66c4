"""Evaluating many windows at once is evaluating each of them: verdicts in ranks, folds in ranges,
and the days that are looked for are those that are named."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerting.episodes.affected_days import ChainDays, FoldTimeline
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState, VerdictRange, WindowVerdict, fold
from alerting.episodes.verdict import (
    RAISES,
    SortedFacts,
    WindowFacts,
    decode_verdict,
    evaluate_window,
)
from alerting.rules.rule import AgainstBaseline, ComparisonSign, Condition, Rule, Threshold
from tally.alerts.baseline import WindowBaseline
from tests.laws.alerting.test_alert_days import start_of, verdict_lists

# Few, so that a value often lies on the border itself.
numbers = st.one_of(
    st.integers(-3, 6),
    st.fractions(-3, 6, max_denominator=4),
    st.sampled_from([10**30, -(10**30), Fraction(1, 3), Fraction(10**15 + 1, 10**6)]),
)
decimals = st.sampled_from(
    [Decimal(one) for one in ("-3", "0", "0.25", "0.5", "2", "2.000000", "2.0000001", "3", "1e15")]
)
thresholds = st.builds(Threshold, st.sampled_from([">=", ">", "<=", "<"]), decimals)
baselines = st.just(AgainstBaseline("same_weekday_4w", "<= -30 %"))
# Most are of the one sort that is ranked.
conditions: st.SearchStrategy[Condition] = st.one_of(*[thresholds] * 7, baselines)
rules = st.builds(
    Rule,
    rule_id=st.just("any"),
    kind=st.sampled_from(["threshold"] * 5 + ["silence", "stock", "baseline"]),
    condition=st.one_of(*[conditions] * 7, st.none()),
    # Also those that overlap: no file may have them, and the first of both still counts.
    clear=st.none() | conditions,
    evaluate=st.sampled_from(["eager", "close"]),
    on_silence=st.sampled_from(["hold", "raise"]),
)
facts = st.builds(
    WindowFacts,
    phase=st.sampled_from(["open", "closed", "covered"]),
    value=st.none() | numbers,
    is_known=st.sampled_from([True] * 7 + [False]),
    meets_minimum=st.sampled_from([True] * 7 + [False]),
    is_exempt=st.sampled_from([False] * 7 + [True]),
    baseline=st.sampled_from([None] * 7 + [WindowBaseline(Fraction(7, 2), 1)]),
    level=st.one_of(*[st.none()] * 7, st.integers(-1, 3)),
)


@settings(max_examples=500)
@given(rules, st.lists(facts, max_size=40))
def test_verdicts_of_ranked_facts_are_those_of_each(rule: Rule, known: list[WindowFacts]) -> None:
    ranked = SortedFacts.from_facts(known)

    said = dict(zip(ranked.facts, map(decode_verdict, ranked.verdicts(rule)), strict=True))

    assert said == {one: evaluate_window(rule, one) for one in known}
    assert ranked.raises(rule) == (RAISES in ranked.verdicts(rule))


@pytest.mark.parametrize("border", ["2.25", "2.250001", "2.2500004", "-0.000001", "0"])
@pytest.mark.parametrize("op", get_args(ComparisonSign))
def test_no_number_is_rounded_before_it_is_compared(op: ComparisonSign, border: str) -> None:
    rule = Rule(rule_id="any", condition=Threshold(op, Decimal(border)))
    # Closer to it than any condition of a file can tell.
    values = [Fraction(border) + Fraction(more, 10**7) for more in range(-12, 13)]
    known = [WindowFacts(phase="closed", value=one) for one in values]

    ranked = SortedFacts.from_facts(known)

    assert [*map(decode_verdict, ranked.verdicts(rule))] == [
        evaluate_window(rule, one) for one in known
    ]


@st.composite
def states(draw: st.DrawFn) -> FoldState:
    """Where a fold may stand before the first window."""
    run, before = draw(st.integers(0, 4)), start_of(-5)
    if draw(st.booleans()):
        return FoldState(open=Episode(before, before, 1), clear_run=run)
    return FoldState(run, before) if run else IDLE_STATE


def in_ranges(windows: Sequence[WindowVerdict], cuts: Sequence[int]) -> list[VerdictRange]:
    """The same windows, as many together as one version evaluates and no cut parts."""

    def of(one: WindowVerdict) -> tuple[int, int, int, int]:
        cut = sum(start_of(at) <= one.window for at in cuts)
        return one.version, one.for_, one.clear_for, cut

    found = []
    for (version, for_, clear_for, _), same in groupby(windows, of):
        some = [one.verdict_range for one in same]
        verdicts = b"".join(one.verdicts for one in some)
        found.append(VerdictRange(some[0].start, verdicts, version, for_, clear_for))
    return found


@settings(max_examples=500)
@given(verdict_lists(), st.lists(st.integers(0, 30), max_size=3), states())
def test_fold_over_ranges_is_the_fold_over_windows(
    verdicts: list[WindowVerdict], cuts: list[int], state: FoldState
) -> None:
    assert fold(in_ranges(verdicts, cuts), state) == fold(verdicts, state)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True),
    st.lists(st.integers(-2, 42), max_size=6),
    st.integers(-1, 45),
)
def test_days_that_are_looked_for_are_those_that_are_named(
    borders: list[int], named: list[int], new_from: int
) -> None:
    line = ChainDays(sorted(borders), FoldTimeline(), named, new_from)

    assert line.days_to_fold == [day for day in range(line.count) if line.must_fold(day)]

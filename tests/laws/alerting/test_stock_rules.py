"""What a stock rule says of a shelf is what a list of all its levels says, read by hand."""

from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from alerting.episodes.fold import WindowVerdict, fold
from alerting.episodes.verdict import Verdict, WindowFacts, evaluate_window
from alerting.rules.rule import Rule, Threshold
from tally.algebra.level import StockLevels, WindowStock
from tests.laws.algebra.test_shelf import MILLIS, WINDOWS, ShelfEvent, plain, told, value

MILK, ENOUGH = "milk", 4
RULE = Rule(
    rule_id="sold-out",
    kind="stock",
    metric="stock_on_hand",
    subject="item",
    evaluate="eager",
    condition=Threshold("<=", Decimal(0)),
    clear=Threshold(">=", Decimal(ENOUGH)),
)
# Few of them, so that most are not negative for good.
shelves = st.lists(told, max_size=12)


def reached(events: Sequence[ShelfEvent]) -> list[WindowStock]:
    """The shelf after each window."""
    shelf, found = StockLevels({MILK: None}), []
    for window in range(WINDOWS):
        shelf.start_stretch()
        mine = [one for one in events if (one.window, one.article) == (window, MILK)]
        shelf.add_window({MILK: value(mine)} if mine else {})
        found.append(WindowStock(shelf.levels[MILK], shelf.lowest_levels()[MILK]))
    return found


def said(one: WindowStock) -> Verdict:
    facts = WindowFacts(
        phase="closed", value=one.lowest, level=one.level, is_known=one.lowest is not None
    )
    return evaluate_window(RULE, facts)


def by_hand(events: Sequence[ShelfEvent]) -> list[tuple[int, int | None]]:
    """First and last window of each time that the shelf was empty, by what there was."""
    found: list[tuple[int, int | None]] = []
    for window in range(WINDOWS):
        level, lowest = plain(events, MILK, range(window, window + 1))
        if level is None or lowest is None:
            continue
        is_open = bool(found) and found[-1][1] is None
        if lowest <= 0 and not is_open:
            found.append((window, None))
        elif lowest > 0 and level >= ENOUGH and is_open:
            found[-1] = found[-1][0], window
    return found


@given(events=shelves)
def test_episodes_are_the_times_in_which_a_shelf_was_empty(events: list[ShelfEvent]) -> None:
    verdicts = [WindowVerdict(at, said(one)) for at, one in enumerate(reached(events))]

    episodes = fold(verdicts).episodes

    assert [(one.start, one.ended) for one in episodes] == by_hand(events)


@given(events=shelves, data=st.data())
def test_a_window_cut_short_raises_only_where_the_whole_of_it_does(
    events: list[ShelfEvent], data: st.DataObject
) -> None:
    """Why a stock rule may be eager: a dip is one, whatever comes behind it but a count."""
    window = data.draw(st.integers(0, WINDOWS - 1))
    until = data.draw(st.integers(window * MILLIS, (window + 1) * MILLIS))
    early = [one for one in events if one.at < until]
    later = [one for one in events if until <= one.at and one.window == window]

    if said(reached(early)[window]) == 1 and not any(one.is_count for one in later):
        assert said(reached([*early, *later])[window]) == 1


@given(events=shelves)
def test_before_a_count_nothing_is_said(events: list[ShelfEvent]) -> None:
    moved = [one for one in events if not one.is_count]

    assert {said(one) for one in reached(moved)} == {0}

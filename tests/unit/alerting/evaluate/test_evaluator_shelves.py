"""What moved on a store's shelves says as much as a table of all articles in all windows, and costs
what moved."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alerting.evaluate.snapshot.stock import DayShelves
from alerting.evaluate.verdicts import facts_cache
from alerting.rules.conditions import matches_condition
from alerting.rules.rule import Threshold
from tally.algebra.level import Level, OnHand, StockLevels, WindowStock
from tally.algebra.parts import Value
from tests.support.alerts.evaluated_shelves import look, sell, stock_up
from tests.support.evaluation.evaluating import Watched, Watching

LEVEL = Level("stock")
ARTICLES = ("bread", "milk", "wine")
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.one_of(
            st.integers(-5, 9).map(LEVEL.encode_movement), st.integers(0, 9).map(LEVEL.encode_count)
        ),
    ),
    max_size=3,
).map(lambda some: LEVEL.fold([at for at, _ in some], [brought for _, brought in some]))
# By article what a window brought; None: nobody knows what moved in it.
WINDOWS = st.lists(
    st.none() | st.dictionaries(st.sampled_from(ARTICLES), EVENTS.filter(bool), max_size=3),
    min_size=1,
    max_size=8,
)
Window = Mapping[str, Value] | None


def moves_of(windows: Sequence[Window]) -> list[Mapping[str, WindowStock]]:
    """What moved in each window, as a reader has it."""
    shelf, found = StockLevels(dict.fromkeys(ARTICLES)), list[Mapping[str, WindowStock]]()
    for window in windows:
        shelf.start_stretch()
        if window is None:
            shelf.mark_unknown()
        else:
            shelf.add_window(window)
        found.append(shelf.stock_changes() if found else shelf.current_stock())
    return found


def table_of(windows: Sequence[Window]) -> list[dict[str, WindowStock]]:
    """Of each window every article, by the events themselves."""
    levels: dict[str, OnHand] = dict.fromkeys(ARTICLES)
    found = []
    for window in windows:
        row = {}
        for article, before in levels.items():
            after = [before]
            if window is None:
                after = [None]
            for _, brought in (window or {}).get(article, ()):
                number, is_movement = divmod(brought, 2)
                if not is_movement:
                    # A count overrules what was reckoned before it.
                    after = [number]
                else:
                    after.append(None if after[-1] is None else after[-1] + number)
            levels[article] = after[-1]
            known_ones = [one for one in after if one is not None]
            row[article] = WindowStock(
                after[-1], min(known_ones) if len(known_ones) == len(after) else None
            )
        found.append(row)
    return found


@given(WINDOWS)
@example([{"milk": LEVEL.fold([1], [LEVEL.encode_count(3)])}, None, {"milk": LEVEL.fold([1], [7])}])
@example(
    [
        None,
        None,
        {"milk": LEVEL.fold([1, 2], [LEVEL.encode_count(3), LEVEL.encode_movement(-4)])},
        {},
        None,
    ]
)
def test_each_article_stands_in_each_window_as_in_a_table_of_all(windows: list[Window]) -> None:
    table = table_of(windows)
    shelves = DayShelves(moves_of(windows))

    compared = 0
    for number, row in enumerate(table):
        for article, expected in row.items():
            assert shelves.levels_at(f"item:{article}", number) == expected, (number, article)
            compared += 1

    assert compared == len(windows) * len(ARTICLES)
    assert {*shelves.subjects} == {f"item:{one}" for one in ARTICLES}
    assert shelves.levels_at("item:tea", 0) is None


@given(WINDOWS, st.sampled_from(["<=", "<", ">=", ">"]), st.integers(-6, 12))
def test_an_article_calls_where_the_least_of_any_window_fulfils_the_condition(
    windows: list[Window], sign: str, border: int
) -> None:
    condition = Threshold(sign, Decimal(border))  # type: ignore[arg-type]
    expected = {
        f"item:{article}"
        for row in table_of(windows)
        for article, (_, lowest) in row.items()
        if lowest is not None and matches_condition(condition, lowest)
    }

    found = DayShelves(moves_of(windows)).matching_subjects(
        lambda one: bool(matches_condition(condition, one))
    )

    assert {*found} == expected


def test_a_table_that_forgets_a_move_is_another_one() -> None:
    windows: list[Window] = [
        {"milk": LEVEL.fold([1], [LEVEL.encode_count(3)])},
        {"milk": LEVEL.fold([2], [LEVEL.encode_movement(-3)])},
        {},
    ]
    moves = moves_of(windows)
    forgetful = DayShelves([moves[0], {}, {}])

    wrong = [
        number
        for number, row in enumerate(table_of(windows))
        if forgetful.levels_at("item:milk", number) != row["milk"]
    ]

    assert wrong == [1, 2]


def compared_numbers(monkeypatch: pytest.MonkeyPatch, shelves: Watched, articles: int) -> int:
    """How many numbers a rule is compared with, to evaluate a store with so many articles once."""
    compared = 0

    def counting(*told: object) -> bool | None:
        nonlocal compared
        compared += 1
        return matches_condition(*told)  # type: ignore[arg-type]

    stock_up(shelves, [f"a{number:04}" for number in range(articles)], 10)
    look(shelves, "08:02")
    monkeypatch.setattr(facts_cache, "matches_condition", counting)
    alerts = sell(shelves, "20:01", 1, a0003=10)
    assert [one.subject for one in alerts] == ["item:a0003"]
    return compared


def test_ten_times_the_articles_are_compared_with_a_rule_by_the_numbers_that_they_have(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (compared_numbers(monkeypatch, shop(), count) for count in (500, 5_000))

    # Two days are evaluated; there are 10, 20 and 0 units, of however many articles.
    assert few == many <= 2 * 3


def test_what_is_kept_of_a_day_is_articles_and_moves_and_not_articles_times_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = {f"a{number}": WindowStock(9, 9) for number in range(5_000)}
    moves: list[dict[str, WindowStock]] = [start, *({} for _ in range(95))]
    moves[40] = {"a7": WindowStock(8, 8)}
    shelves = DayShelves(moves)

    steps = [shelves.steps_for(one) for one in shelves.subjects]

    assert sum(map(len, steps)) == 5_001
    assert all(first.window < then.window for some in steps for first, then in pairwise(some))

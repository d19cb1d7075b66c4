"""What moved on a store's shelves says as much as a table of all articles in all windows, and costs
what moved."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.alerts.evaluator import known
from serving.alerts.evaluator.shelves import DayShelves
from tally.alerts.comparison import holds
from tally.alerts.rule import Threshold
from tally.algebra.level import Level
from tally.algebra.parts import Value
from tally.algebra.shelf import OnHand, Reached, Shelf
from tests.support.evaluating import Watched, Watching
from tests.support.judged_shelves import look, sell, stock_up

LEVEL = Level("stock")
ARTICLES = ("bread", "milk", "wine")
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.one_of(st.integers(-5, 9).map(LEVEL.moved), st.integers(0, 9).map(LEVEL.count)),
    ),
    max_size=3,
).map(lambda some: LEVEL.of([at for at, _ in some], [brought for _, brought in some]))
# By article what a window brought; None: nobody knows what moved in it.
WINDOWS = st.lists(
    st.none() | st.dictionaries(st.sampled_from(ARTICLES), EVENTS.filter(bool), max_size=3),
    min_size=1,
    max_size=8,
)
Window = Mapping[str, Value] | None


def moves_of(windows: Sequence[Window]) -> list[Mapping[str, Reached]]:
    """What moved in each window, as a reader has it."""
    shelf, found = Shelf(dict.fromkeys(ARTICLES)), list[Mapping[str, Reached]]()
    for window in windows:
        shelf.begin()
        if window is None:
            shelf.forget()
        else:
            shelf.take(window)
        found.append(shelf.moved() if found else shelf.reached())
    return found


def table_of(windows: Sequence[Window]) -> list[dict[str, Reached]]:
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
            row[article] = Reached(
                after[-1], min(known_ones) if len(known_ones) == len(after) else None
            )
        found.append(row)
    return found


@given(WINDOWS)
@example([{"milk": LEVEL.of([1], [LEVEL.count(3)])}, None, {"milk": LEVEL.of([1], [7])}])
@example([None, None, {"milk": LEVEL.of([1, 2], [LEVEL.count(3), LEVEL.moved(-4)])}, {}, None])
def test_each_article_stands_in_each_window_as_in_a_table_of_all(windows: list[Window]) -> None:
    table = table_of(windows)
    shelves = DayShelves(moves_of(windows))

    compared = 0
    for number, row in enumerate(table):
        for article, expected in row.items():
            assert shelves.reached(f"item:{article}", number) == expected, (number, article)
            compared += 1

    assert compared == len(windows) * len(ARTICLES)
    assert {*shelves.subjects} == {f"item:{one}" for one in ARTICLES}
    assert shelves.reached("item:tea", 0) is None


@given(WINDOWS, st.sampled_from(["<=", "<", ">=", ">"]), st.integers(-6, 12))
def test_an_article_calls_where_the_least_of_any_window_fulfils_the_condition(
    windows: list[Window], sign: str, border: int
) -> None:
    condition = Threshold(sign, Decimal(border))  # type: ignore[arg-type]
    expected = {
        f"item:{article}"
        for row in table_of(windows)
        for article, (_, lowest) in row.items()
        if lowest is not None and holds(condition, lowest)
    }

    found = DayShelves(moves_of(windows)).calling(lambda one: bool(holds(condition, one)))

    assert {*found} == expected


def test_a_table_that_forgets_a_move_is_another_one() -> None:
    windows: list[Window] = [
        {"milk": LEVEL.of([1], [LEVEL.count(3)])},
        {"milk": LEVEL.of([2], [LEVEL.moved(-3)])},
        {},
    ]
    moves = moves_of(windows)
    forgetful = DayShelves([moves[0], {}, {}])

    wrong = [
        number
        for number, row in enumerate(table_of(windows))
        if forgetful.reached("item:milk", number) != row["milk"]
    ]

    assert wrong == [1, 2]


def compared_numbers(monkeypatch: pytest.MonkeyPatch, shelves: Watched, articles: int) -> int:
    """How many numbers a rule is compared with, to judge a store with so many articles once."""
    compared = 0

    def counting(*told: object) -> bool | None:
        nonlocal compared
        compared += 1
        return holds(*told)  # type: ignore[arg-type]

    stock_up(shelves, [f"a{number:04}" for number in range(articles)], 10)
    look(shelves, "08:02")
    monkeypatch.setattr(known, "holds", counting)
    alerts = sell(shelves, "20:01", 1, a0003=10)
    assert [one.subject for one in alerts] == ["item:a0003"]
    return compared


def test_ten_times_the_articles_are_compared_with_a_rule_by_the_numbers_that_they_have(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (compared_numbers(monkeypatch, shop(), count) for count in (500, 5_000))

    # Two days are judged; there are 10, 20 and 0 units, of however many articles.
    assert few == many <= 2 * 3


def test_what_is_kept_of_a_day_is_articles_and_moves_and_not_articles_times_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = {f"a{number}": Reached(9, 9) for number in range(5_000)}
    moves: list[dict[str, Reached]] = [start, *({} for _ in range(95))]
    moves[40] = {"a7": Reached(8, 8)}
    shelves = DayShelves(moves)

    steps = [shelves.steps(one) for one in shelves.subjects]

    assert sum(map(len, steps)) == 5_001
    assert all(first.window < then.window for some in steps for first, then in pairwise(some))

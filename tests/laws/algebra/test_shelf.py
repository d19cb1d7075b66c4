"""What there is on a shelf, window by window, is what a list of all counts and movements says."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.level import Level, OnHand, StockLevels
from tally.algebra.parts import Value

LEVEL = Level("stock")
WINDOWS, MILLIS = 4, 5


class ShelfEvent(NamedTuple):
    """A count, or a movement, of an article at an instant; `by` is the family that tells it."""

    article: str
    at: int
    is_count: bool
    amount: int
    by: str

    @property
    def brought(self) -> int:
        return (
            Level.encode_count(self.amount) if self.is_count else Level.encode_movement(self.amount)
        )

    @property
    def window(self) -> int:
        return self.at // MILLIS


told = st.builds(
    ShelfEvent,
    article=st.sampled_from(["milk", "bread"]),
    # Few instants, so that they meet: of one the count comes first.
    at=st.integers(0, WINDOWS * MILLIS - 1),
    is_count=st.booleans(),
    amount=st.integers(-9, 9),
    by=st.sampled_from(["documents", "receipts"]),
)
histories = st.lists(told, max_size=16)


def value(events: Sequence[ShelfEvent]) -> Value:
    return LEVEL.fold([one.at for one in events], [one.brought for one in events])


def in_order(events: Sequence[ShelfEvent], article: str) -> list[ShelfEvent]:
    mine = (one for one in events if one.article == article)
    return sorted(mine, key=lambda one: (one.at, not one.is_count, one.brought))


def walked(
    events: Sequence[ShelfEvent], stretches: Sequence[int]
) -> list[dict[str, tuple[OnHand, OnHand]]]:
    """By article what there is at the end of each stretch, and the lowest in it, by the shelf.

    `stretches` are how many windows each has.
    """
    shelf, window, found = StockLevels(dict.fromkeys(["milk", "bread"])), 0, []
    for length in stretches:
        shelf.start_stretch()
        for _ in range(length):
            moves: dict[str, Value] = {}
            for article in ("milk", "bread"):
                mine = [one for one in events if (one.window, one.article) == (window, article)]
                # As two families have it, joined by a reader.
                sides = ([one for one in mine if one.by == by] for by in ("documents", "receipts"))
                if mine:
                    moves[article] = LEVEL.plus(*map(value, sides))
            shelf.add_window(moves)
            window += 1
        lowest = shelf.lowest_levels()
        found.append({name: (level, lowest[name]) for name, level in shelf.levels.items()})
    return found


def plain(events: Sequence[ShelfEvent], article: str, windows: range) -> tuple[OnHand, OnHand]:
    """The same by a list: every level that the article had, from the last count of a window on."""
    level: OnHand = None
    levels: list[OnHand] = []
    ordered = in_order(events, article)
    for window in range(windows.stop):
        mine = [one for one in ordered if one.window == window]
        last = max((place for place, one in enumerate(mine) if one.is_count), default=None)
        reached = [] if last is not None else [level]
        for one in mine[last or 0 :]:
            if one.is_count:
                level = one.amount
            elif level is not None:
                level += one.amount
            reached.append(level)
        if window in windows:
            # What was there as the stretch began is judged too, unless the window says otherwise.
            levels += reached
    known = [one for one in levels if one is not None]
    return level, min(known) if known and len(known) == len(levels) else None


@given(events=histories)
def test_level_and_lowest_of_each_window_are_those_of_a_list(events: list[ShelfEvent]) -> None:
    found = walked(events, [1] * WINDOWS)

    for window, of in enumerate(found):
        for article in ("milk", "bread"):
            assert of[article] == plain(events, article, range(window, window + 1))


@given(events=histories, length=st.integers(1, WINDOWS))
def test_of_a_stretch_of_several_windows_too(events: list[ShelfEvent], length: int) -> None:
    stretches = [length, WINDOWS - length] if length < WINDOWS else [length]

    last = walked(events, stretches)[-1]

    first = sum(stretches[:-1])
    for article in ("milk", "bread"):
        assert last[article] == plain(events, article, range(first, WINDOWS))


@given(events=histories, data=st.data())
def test_order_of_arrival_and_who_told_of_it_change_nothing(
    events: list[ShelfEvent], data: st.DataObject
) -> None:
    other = [
        one._replace(by=data.draw(st.sampled_from(["documents", "receipts"])))
        for one in data.draw(st.permutations(events))
    ]

    assert walked(other, [1] * WINDOWS) == walked(events, [1] * WINDOWS)


@given(events=histories, lost=st.integers(0, WINDOWS - 1))
def test_behind_a_lost_window_only_what_was_counted_since_is_known(
    events: list[ShelfEvent], lost: int
) -> None:
    shelf = StockLevels(dict.fromkeys(["milk", "bread"]))
    for window in range(WINDOWS):
        shelf.start_stretch()
        if window == lost:
            shelf.mark_unknown()
            continue
        mine = [one for one in events if one.window == window]
        by_article = {name: [one for one in mine if one.article == name] for name in shelf.levels}
        shelf.add_window({name: value(some) for name, some in by_article.items() if some})

    since = [one for one in events if one.window > lost]
    counted = {one.article for one in since if one.is_count}
    assert {name for name, level in shelf.levels.items() if level is not None} == counted
    for name in counted:
        assert shelf.levels[name] == plain(since, name, range(WINDOWS))[0]


def test_a_negative_level_is_told_as_it_is() -> None:
    shelf = StockLevels()
    shelf.add_window({"milk": value([ShelfEvent("milk", 0, True, 2, "documents")])})
    shelf.start_stretch()
    shelf.add_window({"milk": value([ShelfEvent("milk", 5, False, -5, "receipts")])})

    assert (shelf.levels, shelf.lowest_levels()) == ({"milk": -3}, {"milk": -3})

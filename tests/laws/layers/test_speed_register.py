"""The max-register over prefixes of one window's records: whoever writes, in whatever order, the
longest prefix stays."""

from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.merge import register
from tests.support.oracles.first_by_offset import Sale, Totals, window_totals

EPOCH = 1
sales = st.builds(
    Sale,
    identity=st.integers(0, 4),
    currency=st.sampled_from(["EUR", "USD"]),
    cents=st.integers(-500, 500),
)
logs = st.lists(sales, max_size=12)
Cell = tuple[int, tuple[int, Totals]]


def written(log: list[Sale], prefix: int, epoch: int = EPOCH) -> Cell:
    """(write timestamp, row) of a writer that has read a prefix of the log."""
    events, totals = window_totals(log[:prefix])
    return register(epoch, events), (events, totals)


def last_write_wins(cells: list[Cell]) -> list[Cell]:
    """What the table holds after each write."""
    held, shown = cells[0], []
    for cell in cells:
        held = max(held, cell, key=lambda one: one[0])
        shown.append(held)
    return shown


@given(logs, st.data())
def test_any_writers_in_any_order_end_with_the_longest_prefix(
    log: list[Sale], data: st.DataObject
) -> None:
    prefixes = data.draw(st.lists(st.integers(0, len(log)), min_size=1, max_size=8))

    shown = last_write_wins([written(log, prefix) for prefix in prefixes])

    assert shown[-1] == written(log, max(prefixes))


@given(logs, st.data())
def test_the_served_count_never_falls(log: list[Sale], data: st.DataObject) -> None:
    prefixes = data.draw(st.lists(st.integers(0, len(log)), min_size=1, max_size=8))

    counts = [
        events for _, (events, _) in last_write_wins([written(log, prefix) for prefix in prefixes])
    ]

    assert counts == sorted(counts)


@given(logs, st.data())
def test_equal_registers_are_equal_rows(log: list[Sale], data: st.DataObject) -> None:
    one, other = (written(log, data.draw(st.integers(0, len(log)))) for _ in range(2))

    assert one == other or one[0] != other[0]


@given(logs, st.data())
def test_a_higher_epoch_wins_over_any_number_of_events(
    log: list[Sale], data: st.DataObject
) -> None:
    old, new = written(log, len(log)), written(log, data.draw(st.integers(0, len(log))), EPOCH + 1)

    assert last_write_wins([new, old])[-1] == last_write_wins([old, new])[-1] == new

"""After a change of a store's visit rules the windows are those of who had them from the start, and
without an epoch of its own they are not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from speed_layer.state.presence import MINUTE_MILLIS, PartitionPresences, SightingRecord
from tally.algebra.merge import register
from tally.families.epochs import EVER, DatedVisitRules, StoreVisitRules
from tally.people.visits import VisitRules
from tests.laws.layers.test_presence import RULES
from tests.laws.layers.test_presences import FAMILY, LENGTH, Rows, by_the_rule, holding, logs, stay

OTHER_RULES = VisitRules(enter_dbm=-82, stay_dbm=-84, gap_minutes=9, static_minutes=20)
# From the second key period on.
REVISED = replace(
    FAMILY,
    visit_rules=StoreVisitRules(
        {
            store: (DatedVisitRules(EVER, RULES), DatedVisitRules(LENGTH, OTHER_RULES, revision=1))
            for store in ("367", "406")
        }
    ),
)


# Minutes. Of a period that is over nothing is kept: its windows are the rebuild's.
NONE_IS_OVER = 1000


def revised_table(log: Sequence[SightingRecord], ended: int, begun: int, has_epoch: bool) -> Rows:
    """Rows as the table holds them: of a writer by the rules of before that read to `ended`, and of
    one by those of now that goes on from the state at `begun`, no later."""
    table: dict[tuple[str, int, str], tuple[int, tuple[Any, ...]]] = {}

    def write(state: PartitionPresences, end: int, begin: int, epoch: int) -> None:
        for row in state.take(log[begin:end], end):
            key, at = (row.store, row.start, row.axes[0]), register(epoch * has_epoch, end)
            # Of two rows with one write time the larger value stays.
            table[key] = max(table.get(key, (at, row.parts)), (at, row.parts))

    state = PartitionPresences(NONE_IS_OVER * MINUTE_MILLIS, {}, family=FAMILY)
    write(state, begun, 0, epoch=0)
    kept = dict(state.pages), state.frontier, set(state.page_keys)
    write(state, ended, begun, epoch=0)
    state = PartitionPresences(NONE_IS_OVER * MINUTE_MILLIS, *kept, family=REVISED, is_revised=True)
    write(state, len(log), begun, epoch=1)
    return holding({key: parts for key, (_, parts) in table.items()})


@given(logs.filter(bool), st.data())
def test_after_a_change_of_rules_windows_are_those_of_who_had_them_from_the_start(
    log: list[SightingRecord], data: st.DataObject
) -> None:
    begun = data.draw(st.integers(0, len(log) - 1))
    ended = data.draw(st.integers(begun, len(log)))

    found = revised_table(log, ended, begun, has_epoch=True)

    assert found == holding(by_the_rule(log, REVISED, NONE_IS_OVER)[0])


def test_without_an_epoch_of_its_own_a_change_of_rules_leaves_rows_of_before() -> None:
    """Killed behind its rows and before its checkpoint: the successor reads the same records."""
    log = [*stay(1, range(60, 85), length=LENGTH), *stay(2, [100], length=LENGTH)]
    expected = holding(by_the_rule(log, REVISED, NONE_IS_OVER)[0])

    assert revised_table(log, len(log), 25, has_epoch=True) == expected
    assert revised_table(log, len(log), 25, has_epoch=False) != expected

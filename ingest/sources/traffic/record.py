"""The canonical record of a people counter."""

from tally.events.identity import CanonicalEvent


class CanonicalInterval(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One people counter interval, normalised; happened_at is its start."""

    device_id: str
    interval_seconds: int
    entries: int
    exits: int
    # omit_defaults leaves out default values; counts have no default, so that a zero is written.
    passers_by: int
    # The passers-by of a counter that does not look outside are unknown, not zero: entries are
    # compared with passers-by only for the counters that count both.
    entries_with_passers: int
    # If a counter knows no groups, each person is one (the published rule of counters that do).
    groups_in: int
    # Without persons these seconds decide: it was silence if the counter was not there, and zero
    # persons if it was.
    observed_seconds: int
    # Persons who came in during an interval wholly outside the opening hours; not in `entries`.
    closed_entries: int = 0
    # Persons who came in where the counter watches no entrance; then there are no other counts.
    inner_entries: int = 0
    shared_entries: int = 0
    staff_entries: int = 0
    # 1 for a share of an interval with persons that began in an earlier quarter hour (`continued`),
    # or goes on in a later one (`continues`).
    continued: int = 0
    continues: int = 0

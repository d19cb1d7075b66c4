"""The canonical record of a people counter."""

from tally.events import CanonicalEvent


class CanonicalInterval(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One people counter interval, normalised; happened_at is its start."""

    device_id: str
    interval_seconds: int
    entries: int
    exits: int
    # With omit_defaults a default value is left out: counts have none, so a zero is written.
    passers_by: int
    # Of a counter that does not look outside none are known, which is not nobody: who came in is
    # compared with who passed by of those alone that count both.
    entries_with_passers: int
    # Where a counter knows no groups each person is one (the published rule of counters that do).
    groups_in: int
    # Of whom nothing came in is silence if the counter was not there, and nobody if it was.
    observed_seconds: int
    # Who came in during an interval wholly outside the opening hours, and is none of the entries.
    closed_entries: int = 0
    # Who came in where the counter watches no entrance: then there are no other counts.
    inner_entries: int = 0
    shared_entries: int = 0
    staff_entries: int = 0
    # 1: a share of an interval with persons that began in the quarter hour before, or goes on in
    # the one after.
    continued: int = 0
    continues: int = 0

"""Wrong on purpose: a visit is cut so many minutes after its start, wherever that falls."""

from collections.abc import Callable

from tally.people.visits import MinuteSignals, Presence, VisitRules, read_presences


def presences_of_a_longest(minutes: int) -> Callable[[MinuteSignals, VisitRules], list[Presence]]:
    """As presences(), but no visit is longer than so many minutes."""

    def read(heard: MinuteSignals, rules: VisitRules) -> list[Presence]:
        return [part for one in read_presences(heard, rules) for part in _cut(one, minutes)]

    return read


def _cut(one: Presence, minutes: int) -> list[Presence]:
    firsts = range(one.first, one.last + 1, minutes)
    return [Presence(first, min(first + minutes - 1, one.last), one.is_visit) for first in firsts]

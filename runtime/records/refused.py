"""Refused events by store and reason, each with a fix."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from runtime.records.dead_letter import DeadLetter
from schemas import loader

CONFLICT = "conflict"


class RefusedEvents(NamedTuple):
    """The events of a store that do not count for one reason: count, example and fix.

    `field` is the faulty field of the example, `last` the example's instant or UTC day (ISO 8601).
    """

    store: str
    reason: str
    field: str
    events: int
    last: str
    example: str
    message: str
    fix: str


def group_letters(letters: Iterable[DeadLetter]) -> Iterator[RefusedEvents]:
    """Dead letters by store, reason and field; the message is that of the newest of each."""
    by_cause: dict[tuple[str, str, str], list[DeadLetter]] = {}
    for letter in letters:
        cause = (letter.key or "", letter.reason, letter.field)
        by_cause.setdefault(cause, []).append(letter)
    # A letter with a reason unknown to this version has no fix.
    fixes = loader.dead_letter_fixes()
    for (store, reason, field), refused in by_cause.items():
        last = max(refused, key=attrgetter("at"))
        example = (last.at, last.id, last.message, fixes.get(reason, ""))
        yield RefusedEvents(store, reason, field, len(refused), *example)

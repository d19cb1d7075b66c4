"""Events that do not count, by store and reason, with what can be done about them."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from runtime.dead_letter import DeadLetter
from schemas import loader

CONFLICT = "conflict"


class RefusedEvents(NamedTuple):
    """Events of a store that do not count for one reason: how many, an example, and the fix.

    `field` is what is wrong in the example, `last` when it came, or its UTC day (ISO 8601).
    """

    store: str
    reason: str
    field: str
    events: int
    last: str
    example: str
    message: str
    fix: str


def refused_letters(letters: Iterable[DeadLetter]) -> Iterator[RefusedEvents]:
    """Dead letters by store, reason and field; the message is that of the newest of each."""
    by_cause: dict[tuple[str, str, str], list[DeadLetter]] = {}
    for letter in letters:
        cause = (letter.key or "", letter.reason, letter.field)
        by_cause.setdefault(cause, []).append(letter)
    # A letter of a reason that this version does not know has no fix.
    fixes = loader.dead_letter_fixes()
    for (store, reason, field), some in by_cause.items():
        last = max(some, key=attrgetter("at"))
        told = (last.at, last.id, last.message, fixes.get(reason, ""))
        yield RefusedEvents(store, reason, field, len(some), *told)

"""What was refused or waits, by store: dead letters by reason, conflicts, voids without their
receipt, and words of vendors that nobody has mapped; with what can be done."""

from collections.abc import Iterator
from datetime import date

from cassandra.cluster import Session

from ops.audit.master import Master
from ops.conflicts import till_conflicts
from ops.dead_letters import WantedLetters, dead_letters
from runtime.refused import CONFLICT, RefusedEvents, refused_letters
from runtime.sources import FAMILIES
from schemas import loader
from tally.settings import Settings

WAITS, UNMAPPED = "waits", "unmapped"
_WAITS_FIX = (
    "a void whose receipt has not come, or whose name several receipts have: send the receipt, or"
    " the void with `voids.vendor_fiscal_module` and `voids.happened_at`"
)
_UNMAPPED_FIX = (
    "counted as an article: if this kind of the vendor's own is none, map it by a setting"
    " (docs/receipts.md)"
)


def refused_events(
    settings: Settings, session: Session, wanted: WantedLetters, store: str = ""
) -> list[RefusedEvents]:
    """Everything that does not count, by store, the most frequent first.

    Of conflicts those that nobody has accepted. Raises as the readers of Kafka and Cassandra do.
    """
    # Conflicts are told by day and till: some of them were accepted.
    letters = (
        one
        for one in dead_letters(settings).values()
        if wanted.matches(one) and one.reason != CONFLICT
    )
    found = [*refused_letters(letters), *_of_master(settings, wanted), *_conflicts(session, wanted)]
    mine = [one for one in found if store in ("", one.store)]
    mine.sort(key=lambda one: (one.store, -one.events, one.reason))
    return mine


def _of_master(settings: Settings, wanted: WantedLetters) -> Iterator[RefusedEvents]:
    # Without a master dataset nothing was rebuilt, so nothing waits.
    if not wanted.topic and settings.master_path.exists():
        master = Master(settings)
        found = [*_waiting(master), *_unmapped(master)]
        yield from (one for one in found if wanted.reason in ("", one.reason))


def _unmapped(master: Master) -> Iterator[RefusedEvents]:
    for name in FAMILIES:
        for store, word, count, day in master.unmapped(name):
            yield RefusedEvents(store, UNMAPPED, "", count, str(day), word, word, _UNMAPPED_FIX)


def _waiting(master: Master) -> Iterator[RefusedEvents]:
    by_store: dict[str, list[tuple[str, date]]] = {}
    for name in FAMILIES:
        for store, event_id, day in master.waiting(name):
            by_store.setdefault(store, []).append((event_id, day))
    # The newest is the example: its receipt may be under way.
    for store, some in by_store.items():
        event_id, day = max(some, key=lambda one: one[1])
        yield RefusedEvents(store, WAITS, "/voids", len(some), str(day), event_id, "", _WAITS_FIX)


def _conflicts(session: Session, wanted: WantedLetters) -> Iterator[RefusedEvents]:
    if wanted.reason not in ("", CONFLICT) or wanted.topic:
        return
    fix = loader.dead_letter_fixes()[CONFLICT]
    for one in till_conflicts(session):
        if one.is_open:
            count = one.conflicts - one.accepted
            message = f"till {one.till_id}: {count} of its {one.records} records"
            yield RefusedEvents(one.store_id, CONFLICT, "", count, one.day, "", message, fix)

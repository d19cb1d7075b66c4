"""Events that do not count by store, with a fix: dead letters, conflicts, waiting, unmapped."""

from collections.abc import Iterator
from datetime import date

from cassandra.cluster import Session

from ops.audit.master import Master
from ops.conflicts import till_conflicts
from ops.dead_letters import DeadLetterFilter, dead_letters
from runtime.records.dead_letter import CONFLICT, RefusedEvents, group_letters
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.config.settings import Settings

WAITS, UNMAPPED = "waits", "unmapped"
_WAITS_FIX = (
    "a void whose receipt has not come, or whose name several receipts have: send the receipt, or"
    " the void with `voids.vendor_fiscal_module` and `voids.happened_at`"
)
_UNMAPPED_FIX = (
    "counted as an article: if this kind of the vendor's own is none, map it by a setting"
    " (docs/receipts.md)"
)


def list_refused_events(
    settings: Settings, session: Session, chosen: DeadLetterFilter, store: str = ""
) -> list[RefusedEvents]:
    """All events that do not count, by store, the most frequent reason first."""
    # Conflicts are reported by day and till instead, because some of them were accepted.
    letters = (
        letter
        for letter in dead_letters(settings).values()
        if chosen.matches(letter) and letter.reason != CONFLICT
    )
    found = [*group_letters(letters)]
    if not chosen.topic:
        others = (*_read_master(settings), *_conflicts(session))
        found += [refused for refused in others if chosen.reason in ("", refused.reason)]
    selected = (refused for refused in found if store in ("", refused.store))
    return sorted(selected, key=lambda refused: (refused.store, -refused.events, refused.reason))


def _read_master(settings: Settings) -> Iterator[RefusedEvents]:
    # Without a master dataset nothing was rebuilt, so no event waits.
    if not settings.master_path.exists():
        return
    master = Master(settings)
    for name in FAMILIES:
        for store, word, count, day in master.count_unmapped_words(name):
            yield RefusedEvents(store, UNMAPPED, "", count, str(day), word, word, _UNMAPPED_FIX)
    by_store: dict[str, list[tuple[str, date]]] = {}
    for name in FAMILIES:
        for store, event_id, day in master.waiting_voids(name):
            by_store.setdefault(store, []).append((event_id, day))
    # The newest void is the example: its receipt may be under way.
    for store, voids in by_store.items():
        event_id, day = max(voids, key=lambda void: void[1])
        yield RefusedEvents(store, WAITS, "/voids", len(voids), str(day), event_id, "", _WAITS_FIX)


def _conflicts(session: Session) -> Iterator[RefusedEvents]:
    fix = loader.dead_letter_fixes()[CONFLICT]
    for till in till_conflicts(session):
        if till.is_open:
            count = till.conflicts - till.accepted
            message = f"till {till.till_id}: {count} of its {till.records} records"
            yield RefusedEvents(till.store_id, CONFLICT, "", count, till.day, "", message, fix)

"""The registry of stores: its changes by a new stores file, and the replacement of the file."""

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from stat import S_IMODE
from typing import Any

from runtime.process.files import write_atomically
from runtime.registry.store_fields import FIXED_FIELDS, RECORD_FIELDS, VisitEntry
from runtime.registry.stores import CHANGES, StoreEntry
from tally.errors import BadSettings, TallyError

_FieldValues = Mapping[str, Any]
_COLLECTIONS = ("networks", "sensors")


@dataclass(frozen=True)
class FieldChange:
    """A changed field of a store, with its values as in the file; None: the file has no value.

    `from_day`: the local day from which on the value applies; None: always.
    """

    store: str
    field: str
    from_day: str | None
    before: Any
    after: Any

    def warning(self, today: date) -> str | None:
        """Why the change does harm if records of the store were accepted, None if it does none."""
        has_begun = self.from_day is None or date.fromisoformat(self.from_day) <= today
        if self.field in RECORD_FIELDS and has_begun:
            return f"store {self.store}: {self.field}: {RECORD_FIELDS[self.field]}"
        if self.field not in FIXED_FIELDS:
            return None
        # An added entry does no harm: only a removed entry may have affected records.
        if self.field in _COLLECTIONS and _keeps_identities(self.before or {}, self.after or {}):
            return None
        return f"store {self.store}: {self.field}: {FIXED_FIELDS[self.field]}"


def _keeps_identities(before: Collection[str], after: Collection[str]) -> bool:
    """Whether all entries are still listed, and produce the same identities."""
    if not all(entry in after for entry in before):
        return False
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return True
    # The identity has the sensor's name and the instants of its intervals, which are shifted by the
    # seconds that its clock is ahead.
    names = ("device_id", "clock_ahead_seconds")
    for key, name in itertools.product(before, names):
        if before[key].get(name) != after[key].get(name):
            return False
    return True


@dataclass(frozen=True)
class RegistryChange:
    """The changes of a registry: ids of stores, and changed fields of stores in both versions.

    `warnings`: changes that do harm if records were accepted; an added store had the defaults
    before, a removed store gets them.
    """

    added: Sequence[str]
    removed: Sequence[str]
    changed: Sequence[FieldChange]
    warnings: Sequence[str] = field(default=(), compare=False)

    @property
    def is_none(self) -> bool:
        """Whether both versions are equal."""
        return not (self.added or self.removed or self.changed)


def registry_change(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> RegistryChange:
    """The change from one content to another by store; later ones than `today` do no harm."""
    changed: list[FieldChange] = []
    for store in sorted(before.keys() & after.keys()):
        changed += _changes(store, before[store], after[store])
    added, removed = after.keys() - before, before.keys() - after
    defaults = StoreEntry()
    moved: list[FieldChange] = []
    # Before a first file its stores have no records, or all records were taken with the defaults.
    for store in sorted(added) if before else ():
        moved += _changes(store, defaults, after[store])
    for store in sorted(removed):
        moved += _changes(store, before[store], defaults)
    texts = (change.warning(today) for change in (*changed, *moved))
    warnings = [text for text in texts if text is not None]
    return RegistryChange(sorted(added), sorted(removed), changed, warnings)


def replace_registry(registry: Path, content: bytes) -> None:
    """Replace the registry's content atomically. Raises TallyError if it cannot be written."""
    # A symbolic link stays, and its target is replaced: it may point into a repository.
    file = registry.resolve()
    try:
        before = file.stat() if file.exists() else None
        write_atomically(file, content, is_durable=True)
        # Services may run as another user: they can still read a file of the same mode and owner.
        if before is not None:
            file.chmod(S_IMODE(before.st_mode))
            owners = before.st_uid, before.st_gid
            now = file.stat()
            if (now.st_uid, now.st_gid) != owners:
                os.chown(file, *owners)
    except OSError as error:
        raise TallyError(
            f"stores: {file} cannot be written ({error.strerror});"
            " make its folder, or set TALLY_STORES_FILE to a file in one that can be written"
        ) from error


def _changes(store: str, before: StoreEntry, after: StoreEntry) -> Iterator[FieldChange]:
    was, is_now = before.to_fields(), after.to_fields()
    old = was.pop(CHANGES, {})
    new = is_now.pop(CHANGES, {})
    yield from _fields(store, None, was, is_now)
    # Compared as written, not as evaluated, so that the same file again changes nothing.
    for day in sorted(old | new):
        before_day, after_day = (changes.get(day, {}) for changes in (old, new))
        yield from _fields(store, day, before_day, after_day)


def _fields(
    store: str, day: str | None, was: _FieldValues, is_now: _FieldValues
) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*was, *is_now)):
        before, after = was.get(name), is_now.get(name)
        if before != after:
            yield FieldChange(store, name, day, before, after)


# The fields that answers about past days depend on, at any time of the query.
CHANGING_FIELDS = (
    *("tz", "day_starts", "opening_hours", "sensors", "access_points", "visits"),
    *("country", "subdivision", "groups"),
)


@dataclass(frozen=True)
class ChangedSpan:
    """Past local days of a store, from `first` (None: its first) to `last`, that change."""

    store: str
    field: str
    first: date | None
    last: date


def find_changed_spans(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> list[ChangedSpan]:
    """The past days that change, by store and field, for the stores that are in both files."""
    return [
        span
        for store in sorted(before.keys() & after.keys())
        for name in CHANGING_FIELDS
        for span in _spans(store, name, before[store], after[store], today)
    ]


def check_visit_revisions(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> None:
    """Raise BadSettings for changed visit rules of begun days without a higher revision."""
    for store in sorted(before.keys() & after.keys()):
        both = before[store], after[store]
        for day in _borders(*both):
            was, is_now = (entry.valid_on(day).visits or VisitEntry() for entry in both)
            if day <= today and was.rules != is_now.rules and is_now.revision <= was.revision:
                since = "" if day == date.min else f" from {day} on"
                raise BadSettings(
                    f"stores: store {store}: visits{since} change, and windows of these days are"
                    f" counted already; give them `revision: {was.revision + 1}`, and they are"
                    " counted again"
                )


def _spans(
    store: str, name: str, before: StoreEntry, after: StoreEntry, today: date
) -> Iterator[ChangedSpan]:
    borders = _borders(before, after)
    first: date | None = None
    # Between two borders neither entry changes. Today is added as the last border, at which nothing
    # differs any more: past days end yesterday.
    for day in (*(border for border in borders if border < today), today):
        was, is_now = (_value(entry.valid_on(day), name) for entry in (before, after))
        differs = day < today and was != is_now
        if differs and first is None:
            first = day
        elif not differs and first is not None:
            begins = None if first == date.min else first
            yield ChangedSpan(store, name, begins, day - timedelta(days=1))
            first = None


def _value(entry: StoreEntry, name: str) -> object:
    # The same rules under another revision are recounted, with the same result.
    return (entry.visits or VisitEntry()).rules if name == "visits" else getattr(entry, name)


def _borders(before: StoreEntry, after: StoreEntry) -> list[date]:
    return sorted({date.min, *before.changes, *after.changes})

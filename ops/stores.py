"""The registry of stores: its changes by a new stores file, and the replacement of the file."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from stat import S_IMODE
from typing import Any

from runtime.process.files import write_atomically
from runtime.registry.store_fields import FIXED_FIELDS, RECORD_FIELDS
from runtime.registry.stores import CHANGES, StoreEntry
from tally.errors import TallyError

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
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        common = [entry for entry in before if entry in after]
        same = [entry for entry in common if _names(before[entry]) == _names(after[entry])]
        return len(same) == len(before)
    return all(entry in after for entry in before)


def _names(sensor: _FieldValues) -> list[Any]:
    # The identity has the sensor's name and the instants of its intervals, which are shifted by the
    # seconds that its clock is ahead.
    return [sensor.get(field) for field in ("device_id", "clock_ahead_seconds")]


_Changes = Iterator[FieldChange]


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
    """The change from one content to another, by store in ascending order.

    Changes that begin after `today` do no harm.
    """
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
    """Replace the registry's content atomically; concurrent readers see the old content.

    Raises TallyError when the file cannot be written.
    """
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


def _changes(store: str, before: StoreEntry, after: StoreEntry) -> _Changes:
    was, is_now = before.to_fields(), after.to_fields()
    old = was.pop(CHANGES, {})
    new = is_now.pop(CHANGES, {})
    yield from _fields(store, None, was, is_now)
    # Compared as written, not as evaluated, so that the same file again changes nothing.
    for day in sorted(old | new):
        before_day, after_day = (changes.get(day, {}) for changes in (old, new))
        yield from _fields(store, day, before_day, after_day)


def _fields(store: str, day: str | None, was: _FieldValues, is_now: _FieldValues) -> _Changes:
    for name in dict.fromkeys((*was, *is_now)):
        before, after = was.get(name), is_now.get(name)
        if before != after:
            yield FieldChange(store, name, day, before, after)

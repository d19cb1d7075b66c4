"""The registry of stores: what a stores file would change in it, and the file put in its place."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from stat import S_IMODE
from typing import Any

from runtime.store_fields import FIXED, RECORDED
from runtime.stores import CHANGES, StoreEntry
from runtime.whole_file import keep_whole
from tally.errors import TallyError

_Told = Mapping[str, Any]
_COLLECTIONS = ("networks", "sensors")


@dataclass(frozen=True)
class FieldChange:
    """A field of a store that gets another value, as the file has it; None: it says nothing.

    `from_day`: the local day from which on; None: ever since.
    """

    store: str
    field: str
    from_day: str | None
    before: Any
    after: Any

    def warning(self, today: date) -> str | None:
        """Why it does harm if records of the store have been taken, None if it does none."""
        has_begun = self.from_day is None or date.fromisoformat(self.from_day) <= today
        if self.field in RECORDED and has_begun:
            return f"store {self.store}: {self.field}: {RECORDED[self.field]}"
        if self.field not in FIXED:
            return None
        # It does no harm to gain one: only what is gone may have decided something.
        if self.field in _COLLECTIONS and _is_kept(self.before or {}, self.after or {}):
            return None
        return f"store {self.store}: {self.field}: {FIXED[self.field]}"


def _is_kept(before: Collection[str], after: Collection[str]) -> bool:
    """Whether all that was listed is, and makes the identities that it made."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        kept = [one for one in before if one in after]
        same = [one for one in kept if _names(before[one]) == _names(after[one])]
        return len(same) == len(before)
    return all(one in after for one in before)


def _names(sensor: _Told) -> list[Any]:
    # Its name and the instants of its intervals, which are moved by what its clock is fast.
    return [sensor.get(field) for field in ("device_id", "clock_ahead_seconds")]


_Changes = Iterator[FieldChange]


@dataclass(frozen=True)
class RegistryChange:
    """What becomes of a registry: ids of stores, and fields of those that were there and stay.

    `warnings`: what does harm if records have been taken; a store that comes or goes had or gets
    the defaults.
    """

    added: Sequence[str]
    removed: Sequence[str]
    changed: Sequence[FieldChange]
    warnings: Sequence[str] = field(default=(), compare=False)

    @property
    def is_none(self) -> bool:
        """Whether both say the same."""
        return not (self.added or self.removed or self.changed)


def registry_change(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> RegistryChange:
    """From one content to another, by store ascending; `today`: what begins later does no harm."""
    changed: list[FieldChange] = []
    for store in sorted(before.keys() & after.keys()):
        changed += _changes(store, before[store], after[store])
    added, removed = after.keys() - before, before.keys() - after
    defaults = StoreEntry()
    moved: list[FieldChange] = []
    # A first file finds no records of its stores, or all of them under the defaults.
    for store in sorted(added) if before else ():
        moved += _changes(store, defaults, after[store])
    for store in sorted(removed):
        moved += _changes(store, before[store], defaults)
    told = (one.warning(today) for one in (*changed, *moved))
    warnings = [one for one in told if one is not None]
    return RegistryChange(sorted(added), sorted(removed), changed, warnings)


def replace_registry(registry: Path, content: bytes) -> None:
    """The registry has this content, whole; who reads it meanwhile finds the old one.

    Raises TallyError where it cannot be written.
    """
    # A link is kept, and what it names replaced: it may lead into a repository.
    file = registry.resolve()
    try:
        before = file.stat() if file.exists() else None
        keep_whole(file, content, is_durable=True)
        # Services may run as somebody else: who could read it before still can.
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
    was, is_now = before.told(), after.told()
    old = was.pop(CHANGES, {})
    new = is_now.pop(CHANGES, {})
    yield from _fields(store, None, was, is_now)
    # As they are written and not as they work out: the same file again changes nothing.
    for day in sorted(old | new):
        before_day, after_day = (told.get(day, {}) for told in (old, new))
        yield from _fields(store, day, before_day, after_day)


def _fields(store: str, day: str | None, was: _Told, is_now: _Told) -> _Changes:
    for name in dict.fromkeys((*was, *is_now)):
        before, after = was.get(name), is_now.get(name)
        if before != after:
            yield FieldChange(store, name, day, before, after)

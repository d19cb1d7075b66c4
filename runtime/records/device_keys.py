"""Keys that make a store's devices recognisable within one key period, and not after it.

A key is drawn at random and lies in a file of its own, in a folder beside the data and never in
it: destroying a master secret does not destroy the keys derived from it, and deleting a key in
Kafka, Cassandra or Parquet does not destroy all copies. Gateways of one system share the folder.
"""

import os
import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tally.errors import KeysUnreachable
from tally.time.day_clock import DatedPeriod

KEY_BYTES = 32
HASH_BYTES = 16
_UNTIL = "%Y%m%dT%H%M%SZ"
# Prefix of a file that is about to become a key, beside the stores' folders; an older file than
# this was abandoned.
_TEMPORARY_PREFIX = ".arriving-"
_ABANDONED_AFTER = timedelta(hours=1)


class _Key(NamedTuple):
    key: bytes
    until: datetime


class DeviceKeys:
    """The keys in a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Only keys in use are cached; a key past its time leaves the cache in destroy(), even if
        # another process destroys the file.
        self._cached: dict[tuple[str, date], _Key] = {}

    def hash_address(
        self, address: bytes, store_id: str, period: DatedPeriod, kept: timedelta
    ) -> str:
        """The hash of a device address (6 bytes) in a key period of a store: 32 hex digits.

        The first call of any process makes the key, to be destroyed `kept` after the period.
        Raises KeysUnreachable when it cannot be read or made.
        """
        try:
            key = self._key(store_id, period, period.end + kept)
        except OSError as error:
            raise KeysUnreachable(
                f"{error.filename or self._folder}: no key to hash devices with:"
                f" {error.strerror}; see TALLY_KEY_FOLDER"
            ) from error
        return blake2b(address, key=key, digest_size=HASH_BYTES).hexdigest()

    def destroy(self, now: datetime) -> int:
        """Destroy all keys whose time is over and return their count; `now` in UTC.

        They are overwritten before they are unlinked: a disk keeps the content of an unlinked file.
        Raises OSError for the first that cannot be destroyed, once all others are.
        """
        for key_id, known in list(self._cached.items()):
            if known.until <= now:
                self._cached.pop(key_id, None)
        over = [file for file, until in self._files() if until <= now]
        failed: OSError | None = None
        for file in (*over, *self._find_abandoned_files(now)):
            try:
                _destroy(file)
            except FileNotFoundError:
                # Another gateway has destroyed it.
                continue
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return len(over)

    def _key(self, store_id: str, period: DatedPeriod, until: datetime) -> bytes:
        key_id = store_id, period.first_day
        known = self._cached.get(key_id)
        if known is None:
            known = self._cached[key_id] = self._find_or_create(store_id, period.first_day, until)
        return known.key

    def _find_or_create(self, store_id: str, first_day: date, until: datetime) -> _Key:
        # A store whose zone has changed meanwhile keeps the key that its devices have.
        for file, ends in self._files(store_id):
            if file.name.startswith(f"{first_day.isoformat()}."):
                return _Key(_read(file), ends)
        # The name has the key's end: destroying it needs no setting, which may have changed.
        file = self._folder / store_id / f"{first_day.isoformat()}.{until:{_UNTIL}}"
        self._make(file)
        return _Key(_read(file), until)

    def _files(self, store_id: str = "*") -> Iterator[tuple[Path, datetime]]:
        """The keys and their ends; other files in the folder are ignored."""
        for file in self._folder.glob(f"{store_id}/*"):
            try:
                ends = datetime.strptime(file.name.rpartition(".")[2], _UNTIL)
            except ValueError:
                continue
            yield file, ends.replace(tzinfo=UTC)

    def _find_abandoned_files(self, now: datetime) -> Iterator[Path]:
        """Unfinished key files of processes that were killed."""
        for file in self._folder.glob(f"{_TEMPORARY_PREFIX}*"):
            try:
                made_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            except FileNotFoundError:
                # It has become a key meanwhile.
                continue
            if made_at <= now - _ABANDONED_AFTER:
                yield file

    def _make(self, file: Path) -> None:
        for folder in (self._folder, file.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._folder / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(secrets.token_bytes(KEY_BYTES))
                opened.flush()
                # Synced before it gets its name: after a power failure the name could otherwise
                # belong to an empty file, and a hash have no key.
                os.fsync(opened.fileno())
            # A link is created atomically: two gateways that start together share one key.
            os.link(temporary, file)
            _sync(file.parent)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)


def _read(file: Path) -> bytes:
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(0, f"a key of {len(key)} bytes, not {KEY_BYTES}; remove it", str(file))
    return key


def _destroy(file: Path) -> None:
    with file.open("r+b") as opened:
        # Random bytes: a process that still reads the file gets a key that cannot be guessed.
        opened.write(secrets.token_bytes(KEY_BYTES))
        opened.flush()
        os.fsync(opened.fileno())
    file.unlink()
    _sync(file.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

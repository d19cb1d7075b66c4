"""Keys that make a store's devices the same devices for one key period, and nobody's after it.

A key is drawn at random and lies in a file of its own, in a folder beside the data and never in
it: what is derived from a master secret is not destroyed with it, and what lay in Kafka, Cassandra
or Parquet once is not destroyed by deleting it. Gateways of one system share the folder.
"""

import os
import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tally.errors import KeysUnreachable
from tally.key_periods import DatedPeriod

KEY_BYTES = 32
HASH_BYTES = 16
_UNTIL = "%Y%m%dT%H%M%SZ"
# What is on its way to be a key, beside the stores' folders; older than this it was left behind.
_ARRIVING = ".arriving-"
_LEFT_BEHIND = timedelta(hours=1)


class _Key(NamedTuple):
    key: bytes
    until: datetime


class DeviceKeys:
    """The keys of a folder, which its owner alone can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Of the keys in use only: one that is destroyed by another process is forgotten with it.
        self._known: dict[tuple[str, date], _Key] = {}

    def hashed(self, address: bytes, store_id: str, period: DatedPeriod, kept: timedelta) -> str:
        """The device of this address (6 bytes) in a key period of a store: 32 hex digits.

        The key is made at the first call of whichever process, to be destroyed `kept` after the
        period. Raises KeysUnreachable when it cannot be had.
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
        """How many keys were destroyed, all whose time is over; `now` in UTC.

        They are overwritten before their names go: a disk keeps what a name pointed at. Raises
        OSError for the first that cannot be destroyed, once all others are.
        """
        for of, known in list(self._known.items()):
            if known.until <= now:
                self._known.pop(of, None)
        over = [file for file, until in self._files() if until <= now]
        failed: OSError | None = None
        for file in (*over, *self._left_behind(now)):
            try:
                _destroy(file)
            except FileNotFoundError:
                # Another gateway was first.
                continue
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return len(over)

    def _key(self, store_id: str, period: DatedPeriod, until: datetime) -> bytes:
        of = store_id, period.first_day
        known = self._known.get(of)
        if known is None:
            known = self._known[of] = self._living(store_id, period.first_day, until)
        return known.key

    def _living(self, store_id: str, first_day: date, until: datetime) -> _Key:
        # A store whose zone has changed meanwhile keeps the key that its devices have.
        for file, ends in self._files(store_id):
            if file.name.startswith(f"{first_day.isoformat()}."):
                return _Key(_read(file), ends)
        # When it ends is in its name: who destroys it needs no setting that may have changed.
        file = self._folder / store_id / f"{first_day.isoformat()}.{until:{_UNTIL}}"
        self._make(file)
        return _Key(_read(file), until)

    def _files(self, store_id: str = "*") -> Iterator[tuple[Path, datetime]]:
        """The keys and when they end; whatever else lies there is none of ours."""
        for file in self._folder.glob(f"{store_id}/*"):
            try:
                ends = datetime.strptime(file.name.rpartition(".")[2], _UNTIL)
            except ValueError:
                continue
            yield file, ends.replace(tzinfo=UTC)

    def _left_behind(self, now: datetime) -> Iterator[Path]:
        """What was to be a key of somebody who was killed then."""
        for file in self._folder.glob(f"{_ARRIVING}*"):
            try:
                made_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            except FileNotFoundError:
                # It is a key by now.
                continue
            if made_at <= now - _LEFT_BEHIND:
                yield file

    def _make(self, file: Path) -> None:
        for folder in (self._folder, file.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = self._folder / f"{_ARRIVING}{secrets.token_hex(8)}"
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(secrets.token_bytes(KEY_BYTES))
                opened.flush()
                # Before its name is there: after a loss of power that would else be of an empty
                # file, and a hash without a key.
                os.fsync(opened.fileno())
            # A link is made once or not at all: two gateways that begin together have one key.
            os.link(own, file)
            _sync(file.parent)
        except FileExistsError:
            pass
        finally:
            own.unlink(missing_ok=True)


def _read(file: Path) -> bytes:
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(0, f"a key of {len(key)} bytes, not {KEY_BYTES}; remove it", str(file))
    return key


def _destroy(file: Path) -> None:
    with file.open("r+b") as opened:
        # At random: whoever still reads it has a key that nobody can guess.
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

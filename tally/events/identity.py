"""The identity of an event, (source, store_id, event_id), its fingerprint, and the fields and the
partition of its canonical record, which the normaliser writes and both layers read.

Other content under one identity is a conflict.
"""

import re
from hashlib import blake2b
from typing import Annotated, Any
from zlib import crc32

import msgspec
from msgspec import Meta

from tally.algebra.parts import MAX_PART, KeyedSum

SCHEMA_VERSION = 1


class CanonicalEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One normalised event, with instants as UTC text.

    A source's own type extends it by its axes (text), its additive parts (whole numbers) and other
    fields worth keeping. `extra` are unknown fields of the message, without personal data; `repeat`
    marks an exact copy of a record that lies before it in the topic; `sender` is who sent the
    message, where senders sign in.
    """

    schema_version: int
    event_id: str
    store_id: str
    happened_at: str
    received_at: str
    fingerprint: str
    raw_partition: int
    raw_offset: int
    extra: dict[str, Any] | None = None
    repeat: bool = False
    sender: str | None = None


StoreId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}\Z")]

# `.` and `..` are no ids: as names of folders they would lead to other folders.
IDENTIFIER = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:-]{1,64}", re.ASCII)
# Prefixes of the identity of an event that takes another one back, and of a later version of one.
REVERSAL = "void:"
VERSION = "version:"
# The separator of the two digests of a fingerprint.
CONTENT = "."
# The end of the identity of an interval's share: the instant of its begin, and the share's number.
# The first share is an exception, for it has the interval's own identity.
SHARE = r"([0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z):[1-9]$"
# The word before the id by which a reversal names an event whose identity its sender does not know.
REFERENCE = "reference"
_ADDRESS = re.compile(r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}", re.ASCII)
_BARE_ADDRESS = re.compile(r"[0-9a-f]{12}", re.ASCII)
_BETWEEN_OCTETS = re.compile(r"[:.-]")
_ORDERED = msgspec.json.Encoder(order="deterministic")


def event_id(source: str, *ids: str) -> str:
    """event_id of an event that these ids identify among all events of its source.

    No two events share one, for `%` and `:` inside an id are percent-escaped.

    >>> event_id("pos", "1", "123", "0:4", "2")
    'pos:1:123:0%3A4:2'
    """
    return ":".join([source, *map(_escape_part, ids)])


def reversal_id(target: str, until: int | None = None) -> str:
    """event_id of a reversal of the event `target` and all its versions, or those up to `until`.

    There is one identity for each, so that a second reversal takes nothing more.

    >>> reversal_id("pos:1:123:0:42"), reversal_id("pos:1:123:0:42", until=2)
    ('void:pos:1:123:0:42', 'void:2:pos:1:123:0:42')
    """
    return f"{REVERSAL}{target}" if until is None else f"{REVERSAL}{until}:{target}"


def version_id(target: str, revision: int) -> str:
    """event_id of a numbered version of the event `target`; version 0 is the event itself.

    >>> version_id("pos:1:123:0:42", 0), version_id("pos:1:123:0:42", 2)
    ('pos:1:123:0:42', 'version:2:pos:1:123:0:42')
    """
    return f"{VERSION}{revision}:{target}" if revision else target


def correction_id(target: str, digest: str) -> str:
    """event_id of a version without a number, which replaces those that were closed before it.

    `digest` (32 hex digits) separates it from other versions of the same event.

    >>> correction_id("pos:1:1:0:42", "0" * 32)
    'version:+00000000000000000000000000000000:pos:1:1:0:42'
    """
    return f"{VERSION}+{digest}:{target}"


def cancellation_id(target: str, digest: str) -> str:
    """event_id of an empty version: what was closed before it does not count any more.

    >>> cancellation_id("pos:1:1:0:42", "0" * 32)
    'version:-00000000000000000000000000000000:pos:1:1:0:42'
    """
    return f"{VERSION}-{digest}:{target}"


def interval_id(source: str, store_id: str, device_id: str, happened_at: str) -> str:
    """event_id of the interval that a device counted from an instant on.

    `happened_at` is UTC as tally.time.instants.format_utc writes it, and follows a third colon.
    """
    return f"{event_id(source, store_id, device_id)}:{happened_at}"


def share_id(interval: str, number: int) -> str:
    """event_id of a share of an interval: the first one has the interval's own.

    >>> share_id("traffic:1:door-1:2026-03-02T10:05:00.000Z", 1)
    'traffic:1:door-1:2026-03-02T10:05:00.000Z:1'
    """
    return f"{interval}:{number}" if number else interval


def is_address(name: str) -> bool:
    """Whether the name is a hardware address in the spelling of records, not a chosen name."""
    return _BARE_ADDRESS.fullmatch(name) is not None


def normalise_address(name: str) -> str:
    """An address in lower case, without separators of its octets; another name as it is.

    >>> normalise_address("0018.0A00.0001"), normalise_address("ap-7")
    ('00180a000001', 'ap-7')
    """
    bare = _BETWEEN_OCTETS.sub("", name).casefold()
    return bare if is_address(bare) else name


def normalise_serial(serial: str) -> str:
    """A device's serial in one spelling: lower case, and an address as bare digits.

    If it was written with colons, a dead letter would redact it like a phone's address, and it
    would not be clear which device is meant.

    >>> normalise_serial("00:6E:02:00:00:01:1"), normalise_serial("ACCC00000001")
    ('006e02000001:1', 'accc00000001')
    """
    return _ADDRESS.sub(lambda found: normalise_address(found[0]), serial.casefold())


def fingerprint(source_fields: object) -> str:
    """Digest (128 bits, hex) of the normalised source fields, before any enrichment.

    An honest resend has the same fingerprint for any arrival time, white space and field order.
    """
    return blake2b(_ORDERED.encode(source_fields), digest_size=16).hexdigest()


def content_fingerprint(source_fields: object, content: object) -> str:
    """fingerprint() of the source fields, and that of the fields that change a stored number.

    Two copies are the same if one of the two digests is equal: texts and means of payment may
    differ, and records that have the first alone are compared by it.

    >>> len(content_fingerprint(["a", "cash"], ["a"]))
    65
    """
    return f"{fingerprint(source_fields)}{CONTENT}{fingerprint(content)}"


def digest_number(text: str) -> int:
    """A subject's number, 0 to MAX_PART and evenly spread, by which a `uniques` part counts it.

    The digest has no key: where few texts are possible, as with a phone's address, the number
    gives the text away.

    >>> digest_number("camera-1") == digest_number("camera-1") != digest_number("camera-2")
    True
    """
    return int(digest_text(text), 16) % (MAX_PART + 1)


def digest_text(text: str) -> str:
    """Digest of a text: 128 bits, 32 hex digits, without a key."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def sensor_key(number: int) -> int:
    """The key of a sensor in a `keyed_sum`, from the number of its digest_text().

    Among a hundred sensors of one store, two share a key with a chance of 1 in 200,000.
    """
    return number % KeyedSum.KEYS


def _escape_part(text: str) -> str:
    if ":" not in text and "%" not in text:
        return text
    return text.replace("%", "%25").replace(":", "%3A")


def partition_number(store_id: str, partitions: int) -> int:
    """Canonical partition of a store, 0 to partitions - 1: crc32 of the UTF-8 id, modulo the count.

    Set explicitly by the normaliser, because client libraries hash keys differently.
    >>> partition_number("367", 4)
    1
    """
    # Clients' own hashes differ, and the records of a store in two partitions have no order.
    return crc32(store_id.encode()) % partitions


# Conflicts and their share in percent; both have to be reached. The first pair is for a till with
# many receipts, the second for a small till. Below, two receipts of one number are a mistake.
_LIMITS = ((20, 10), (3, 50))


def has_restarted_numbers(records: int, conflicts: int) -> bool:
    """Whether so many records of a till's day are conflicts that its numbers began again."""
    return any(
        conflicts >= least and conflicts * 100 >= percent * records for least, percent in _LIMITS
    )


def describe_conflicts(records: int, conflicts: int) -> str:
    """A text that says what has happened and what to do, as part of a line."""
    counted = f"{conflicts:,} of its {records:,} records of the day bear numbers used before"
    if has_restarted_numbers(records, conflicts):
        cure = "if its numbers begin again, give the store `numbering: daily` or `yearly`"
        return f"{counted}; {cure} in the stores file"
    return f"{counted}, with other content; `tally conflicts` shows and accepts them"

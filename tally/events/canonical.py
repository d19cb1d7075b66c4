"""The fields of all canonical events, which the normaliser writes and both layers read."""

from typing import Any

import msgspec

SCHEMA_VERSION = 1


class CanonicalEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One normalised event, with instants as UTC text.

    A source's own type extends it by its axes (text), its additive parts (whole numbers) and other
    fields worth keeping. `extra` are unknown fields of the message, without personal data; `repeat`
    marks an exact copy of a record that lies before it in the topic.
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

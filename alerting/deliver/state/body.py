"""Bodies and keys of messages, built once from stored records.

A body does not contain the time of sending, so every attempt has the same bytes. Its form is that
of the Standard Webhooks specification: `type`, `timestamp`, `data`. The `timestamp` of an alert is
that of the alert's first message, also when a later state or a retraction is sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from tally.alerts.message import Alert

# The limit that the specification recommends, for which receivers are built.
MAX_BYTES = 20_000
# Shortened from 64 digits, because key columns of receivers' tables rarely have room for more.
_ID_LENGTH = 40
# The order of the fields is fixed, so that every process encodes a record to the same bytes.
_ENCODER = msgspec.json.Encoder(order="deterministic")


def alert_message_id(alert: Alert) -> str:
    """The key of one state of an alert, the same for every channel and attempt.

    It has no dot, because dots separate the parts of the signed text.
    """
    return f"alrt_{alert.alert_id[:_ID_LENGTH]}_{alert.state}"


def hash_id(prefix: str, *names: str) -> str:
    """The key of a message about several things, computed from all names that identify it."""
    # Names are encoded as JSON, because names of stores may contain dots and separators.
    encoded = _ENCODER.encode(names)
    return f"{prefix}_{sha256(encoded).hexdigest()[:_ID_LENGTH]}"


def alert_body(alert: Alert) -> str:
    """The body of one state of an alert, of at most MAX_BYTES."""
    return encode_body(f"alert.{alert.state}", alert.raised_at, alert_fields(alert))


def alert_fields(alert: Alert) -> Mapping[str, Any]:
    """The alert as plain values; one that is too long keeps only its most important fields."""
    whole: dict[str, Any] = msgspec.to_builtins(alert)
    # Leaves room for the surrounding fields.
    if len(_ENCODER.encode(whole)) <= MAX_BYTES - 500:
        return whole
    identity = ("alert_id", "rule_id", "rule_version", "store_id", "window", "state", "severity")
    more = ("raised_at", "edge", "of", "episode")
    # Only the names of stores and rules are free texts among these fields, and both are bounded.
    return {name: whole[name] for name in (*identity, *more)} | {"shortened": True}


def split_alerts(alerts: Sequence[Alert]) -> Iterator[list[Alert]]:
    """The alerts in their order, in parts that fit into one body each."""
    part: list[Alert] = []
    size = 0
    for alert in alerts:
        # The comma after the alert counts too.
        alert_size = len(_ENCODER.encode(alert_fields(alert))) + 1
        if part and size + alert_size > MAX_BYTES - 500:
            yield part
            part, size = [], 0
        part, size = [*part, alert], size + alert_size
    if part:
        yield part


def repeat_body(alert: Alert, repeated_at: str) -> str:
    """The body of a repeated open alert, with the instant of the repeat (UTC)."""
    fields = {**alert_fields(alert), "repeated_at": repeated_at}
    return encode_body(f"alert.{alert.state}", alert.raised_at, fields)


def group_body(alerts: Sequence[Alert]) -> str:
    """The body of several alerts, each in the form of its own message."""
    # The timestamp comes from the alerts, not from now, so that later attempts have the same body.
    newest = max(alert.raised_at for alert in alerts)
    return encode_body("alert.group", newest, {"alerts": [alert_fields(alert) for alert in alerts]})


def json_size(value: object) -> int:
    """The size of a plain value in a body, in bytes."""
    return len(_ENCODER.encode(value))


def encode_body(kind: str, timestamp: str, data: Mapping[str, Any]) -> str:
    """The body of a message as JSON, with its fields in a fixed order."""
    return _ENCODER.encode({"type": kind, "timestamp": timestamp, "data": data}).decode()

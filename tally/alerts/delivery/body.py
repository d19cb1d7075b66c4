"""What a message says, and under which key: made once, of what is stored.

Nothing of the time at which it goes out is in it, so every attempt has the same bytes. The form is
that of the Standard Webhooks specification: `type`, `timestamp` of what it tells of, `data`.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from tally.alerts.message import Alert

# As the specification recommends; receivers are built for it.
MOST_BYTES = 20_000
# Of 64 digits: who has a key in a column of a table rarely has room for more.
_ID_LENGTH = 40
# One order of the fields: the same record has the same bytes, whoever encodes it.
_ENCODER = msgspec.json.Encoder(order="deterministic")


def alert_message_id(alert: Alert) -> str:
    """The key of one state of an alert, the same for every channel and attempt.

    Without a dot, which is what parts the signed text.
    """
    return f"alrt_{alert.alert_id[:_ID_LENGTH]}_{alert.state}"


def hashed_id(prefix: str, *names: str) -> str:
    """The key of a message that tells of several things, by all that makes it another one."""
    # Names of stores may have dots in them, and whatever parts names.
    told = _ENCODER.encode(names)
    return f"{prefix}_{sha256(told).hexdigest()[:_ID_LENGTH]}"


def alert_body(alert: Alert) -> str:
    """One state of an alert, in MOST_BYTES at most."""
    return body_text(f"alert.{alert.state}", alert.raised_at, fitting(alert))


def fitting(alert: Alert) -> Mapping[str, Any]:
    """The alert as plain values; too long, then without what can be asked for by its id."""
    whole: dict[str, Any] = msgspec.to_builtins(alert)
    # Room for what is around it.
    if len(_ENCODER.encode(whole)) <= MOST_BYTES - 500:
        return whole
    kept = ("alert_id", "rule_id", "rule_version", "store_id", "window", "state", "severity")
    more = ("raised_at", "edge", "of", "episode")
    # Of these only the names of a store and a rule are anybody's choice, and both are bounded.
    return {name: whole[name] for name in (*kept, *more)} | {"shortened": True}


def parted(alerts: Sequence[Alert]) -> Iterator[list[Alert]]:
    """The alerts in their order, in parts of which each goes into one body."""
    part: list[Alert] = []
    size = 0
    for alert in alerts:
        # With the comma behind it.
        own = len(_ENCODER.encode(fitting(alert))) + 1
        if part and size + own > MOST_BYTES - 500:
            yield part
            part, size = [], 0
        part, size = [*part, alert], size + own
    if part:
        yield part


def repeat_body(alert: Alert, repeated_at: str) -> str:
    """An open alert once more: as it was told, and when it is sent again (UTC)."""
    told = {**fitting(alert), "repeated_at": repeated_at}
    return body_text(f"alert.{alert.state}", alert.raised_at, told)


def group_body(alerts: Sequence[Alert]) -> str:
    """Several alerts in one body, each as it would be told alone."""
    # Of what it tells, and not of now: an attempt later on has the same body.
    newest = max(alert.raised_at for alert in alerts)
    return body_text("alert.group", newest, {"alerts": [fitting(alert) for alert in alerts]})


def encoded_size(value: object) -> int:
    """Bytes of a plain value in a body."""
    return len(_ENCODER.encode(value))


def body_text(kind: str, timestamp: str, told: Mapping[str, Any]) -> str:
    """The body of a message: JSON, its fields always in one order."""
    return _ENCODER.encode({"type": kind, "timestamp": timestamp, "data": told}).decode()

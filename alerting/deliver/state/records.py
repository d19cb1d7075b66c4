"""The records of deliveries in the topic `alert-deliveries`, their keys, and bodies of messages.

    channel|alert_id|state    the decision about one state of an alert on one channel
    channel|message_id        a message, the number of its attempts, and its outcome
    control|<its key>         a control as it was applied
    control|gone|channel      an address that has answered 410
    tick                      the newest tick

Instants are milliseconds since 1970 (UTC), by ticks.

A body does not contain the time of sending, so every attempt has the same bytes. Its form is that
of the Standard Webhooks specification: `type`, `timestamp`, `data`. The `timestamp` of an alert is
that of the alert's first message, also when a later state or a retraction is sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from alerting.deliver.state.controls import Acknowledgement, AlertChannel, Silence, Snooze
from runtime.outbound.engine import DroppedRecord, RecordCodec, TickTime
from tally.alerts.message import Alert

DeliveryVerdict: TypeAlias = Literal["send", "held", "suppressed"]
_NotSent: TypeAlias = Literal["late", "storm", "backfilled", "raise not sent"]
_HoldReason: TypeAlias = Literal["silence", "maintenance", "snooze", "quiet"]
_SentReason: TypeAlias = Literal["", "followed", "left out", "released", "escalated"]
DeliveryReason: TypeAlias = Literal[_SentReason, _HoldReason, _NotSent]
DeliveryOutcome: TypeAlias = Literal["waiting", "delivered", "dead", "unknown", "withdrawn"]
WebhookKind: TypeAlias = Literal["alert", "repeat", "group", "summary", "digest", "heartbeat"]
DeliveryGuarantee: TypeAlias = Literal["at_least_once", "at_most_once"]
# Prefix of the key of a control.
CONTROL_PREFIX = "control|"
# The limit that the specification recommends, for which receivers are built.
MAX_BYTES = 20_000
# Shortened from 64 digits, because key columns of receivers' tables rarely have room for more.
_ID_LENGTH = 40
# The order of the fields is fixed, so that every process encodes a record to the same bytes.
_ENCODER = msgspec.json.Encoder(order="deterministic")


class DeliveryDecision(Struct, frozen=True, kw_only=True, tag_field="is", tag="decision"):
    """What was decided about one state of an alert on a channel.

    `message`: id of the message that carries it, "" while none does; `at`, `tick`: the instant and
    the number of the tick by which it was decided; `repeated_at`: when the alert was sent again
    last, 0 for never.
    """

    channel: str
    alert: Alert
    verdict: DeliveryVerdict
    why: DeliveryReason
    message: str
    at: int
    tick: int
    repeated_at: int = 0

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{self.channel}|{self.alert.alert_id}|{self.alert.state}"

    @property
    def message_key(self) -> str:
        """The key of its message in the topic."""
        return f"{self.channel}|{self.message}"


class WebhookMessage(Struct, frozen=True, kw_only=True, tag_field="is", tag="message"):
    """One message to one address, made once: each attempt has its id and these bytes.

    `lanes`: of two messages of a channel that share one, the lower `order` has to come to an end
    first; `needs`: alerts of which something must have arrived before; `begun_at`: first attempt;
    `may_have_arrived`: false only while it is certain that the receiver has not taken it;
    `is_blocked`: the last attempt failed for a reason that people have to repair; `is_asked`:
    a person has requested it, so it is sent whatever holds alerts back now.
    """

    channel: str
    message_id: str
    kind: WebhookKind
    url: str
    body: str
    lanes: tuple[str, ...]
    order: int
    due_at: int
    needs: tuple[str, ...] = ()
    promise: DeliveryGuarantee = "at_least_once"
    expires_at: int | None = None
    begun_at: int | None = None
    attempts: int = 0
    refusals: int = 0
    was_in_doubt: bool = False
    may_have_arrived: bool = False
    is_blocked: bool = False
    is_asked: bool = False
    outcome: DeliveryOutcome = "waiting"
    status: int | None = None
    cause: str = ""

    @property
    def key(self) -> str:
        """Its key in the topic; a heartbeat replaces the previous one."""
        name = self.kind if self.kind == "heartbeat" else self.message_id
        return f"{self.channel}|{name}"

    @property
    def first_attempt_at(self) -> int:
        """The instant of the first attempt, which was made or is due."""
        return self.due_at if self.begun_at is None else self.begun_at

    @property
    def lane_keys(self) -> tuple[str, ...]:
        """Its lanes among those of all channels."""
        return tuple(f"{self.channel}|{lane}" for lane in self.lanes)


class GoneAddress(Struct, frozen=True, kw_only=True, tag_field="is", tag="gone"):
    """An address that has answered 410: nothing is called there until its channel is set again."""

    channel: str
    url: str
    at: int

    @property
    def key(self) -> str:
        """Its key in the topic, after the prefix of controls."""
        return f"gone|{self.channel}"


# The controls of people, stored beside decisions and messages.
StoredControl: TypeAlias = AlertChannel | Silence | Snooze | Acknowledgement
StoredDelivery: TypeAlias = (
    DeliveryDecision | WebhookMessage | GoneAddress | TickTime | StoredControl
)
DeliveryChange: TypeAlias = StoredDelivery | DroppedRecord


def _key_text(record: StoredDelivery) -> str:
    # Controls have a prefix, because a channel may have the name of another kind of record.
    is_control = isinstance(record, StoredControl | GoneAddress)
    return f"{CONTROL_PREFIX}{record.key}" if is_control else record.key


CODEC: RecordCodec[StoredDelivery] = RecordCodec(StoredDelivery, _key_text)
record_key, encode_record, decode_record = CODEC.key, CODEC.encode, CODEC.decode


def alert_message_id(alert: Alert) -> str:
    """The key of one state of an alert, without dots, which separate the parts of signed texts."""
    return f"alrt_{alert.alert_id[:_ID_LENGTH]}_{alert.state}"


def hash_id(prefix: str, *names: str) -> str:
    """The key of a message about several things, computed from all names that identify it."""
    # Names are encoded as JSON, because names of stores may contain dots and separators.
    return f"{prefix}_{sha256(_ENCODER.encode(names)).hexdigest()[:_ID_LENGTH]}"


def alert_body(alert: Alert, **more: str) -> str:
    """The body of one state of an alert, of at most MAX_BYTES; `more`: further fields."""
    fields = {**alert_fields(alert), **more}
    return encode_body(f"alert.{alert.state}", alert.raised_at, fields)


def alert_fields(alert: Alert) -> Mapping[str, Any]:
    """The alert as plain values; one that is too long keeps only its most important fields."""
    whole: dict[str, Any] = msgspec.to_builtins(alert)
    # Leaves room for the surrounding fields.
    if json_size(whole) <= MAX_BYTES - 500:
        return whole
    identity = ("alert_id", "rule_id", "rule_version", "store_id", "window", "state", "severity")
    more = ("raised_at", "edge", "of", "episode")
    # Only the names of stores and rules are free texts among these fields, and both are bounded.
    return {name: whole[name] for name in (*identity, *more)} | {"shortened": True}


def split_alerts(alerts: Sequence[Alert]) -> Iterator[list[Alert]]:
    """The alerts in their order, in parts that fit into one body each."""
    part, size = list[Alert](), 0
    for alert in alerts:
        # The comma after the alert counts too.
        alert_size = json_size(alert_fields(alert)) + 1
        if part and size + alert_size > MAX_BYTES - 500:
            yield part
            part, size = [], 0
        part, size = [*part, alert], size + alert_size
    if part:
        yield part


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

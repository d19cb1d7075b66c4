"""The records of deliveries in the topic `alert-deliveries`, and their keys.

    channel|alert_id|state    the decision about one state of an alert on one channel
    channel|message_id        a message, the number of its attempts, and its outcome
    control|<its key>         a control as it was applied
    control|gone|channel      an address that has answered 410
    tick                      the newest tick

Instants are milliseconds since 1970 (UTC), by ticks.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from alerting.deliver.state.controls import Acknowledgement, AlertChannel, Silence, Snooze
from runtime.outbound.records import DroppedRecord, RecordCodec, TickTime
from tally.alerts.message import Alert

DeliveryVerdict: TypeAlias = Literal["send", "held", "suppressed"]
DeliveryReason: TypeAlias = Literal[
    "",
    "followed",
    "left out",
    "released",
    "silence",
    "maintenance",
    "snooze",
    "quiet",
    "late",
    "storm",
    "backfilled",
    "raise not sent",
    "escalated",
]
DeliveryOutcome: TypeAlias = Literal["waiting", "delivered", "dead", "unknown", "withdrawn"]
WebhookKind: TypeAlias = Literal["alert", "repeat", "group", "summary", "digest", "heartbeat"]
DeliveryGuarantee: TypeAlias = Literal["at_least_once", "at_most_once"]
# Prefix of the key of a control.
CONTROL_PREFIX = "control|"


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

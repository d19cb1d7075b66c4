"""Controls that people set for deliveries: the records of the topic `alert-controls`.

Each is stored under its key in every partition whose deliveries it may affect. So the owner of a
partition has read the controls that apply to it, up to an offset of its own.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from alerting.alert.ids import AlertId
from alerting.deliver.state.clock_times import QuietHours, parse_quiet_spans
from alerting.rules.rule import ChannelId, RuleId, Severity
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.identity import StoreId, partition_number

TOPIC = "alert-controls"
_SECONDS = 30.0
SilenceId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
Item = TypeVar("Item")
Selection: TypeAlias = Literal["all"] | tuple[Item, ...]
# The severities in ascending order.
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Escalation(Struct, frozen=True, forbid_unknown_fields=True):
    """The channel that receives an alert without an acknowledgement `after` so many seconds."""

    after: Annotated[int, Meta(ge=60)]
    channel: ChannelId


class _Control(Struct, frozen=True, forbid_unknown_fields=True, tag_field="is"):
    """A control, whose tag and key fields are its key in the topic."""

    key_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """Its key in the topic."""
        names = (getattr(self, field) for field in self.key_fields)
        # None of these ids contains the separator.
        return "|".join((str(self.__struct_config__.tag), *names))


class AlertChannel(_Control, frozen=True, kw_only=True, tag="channel"):
    """A webhook, which alerts it takes, and when.

    `rules`: those whose alerts it takes beside the rules that name it; `leaves_out`: states that
    are not sent after an earlier one; `max_age`: seconds after which an alert is old;
    `most_a_minute`: so many raises one by one, further ones are counted; `quiet`, `digest`: by the
    clock of the alert's store; `secrets`: names of what signs its messages, never the secrets;
    `repeat_after`: seconds after which an open alert that was not acknowledged is sent again, 0 for
    never.
    """

    key_fields: ClassVar[tuple[str, ...]] = ("channel_id",)
    channel_id: ChannelId
    url: Annotated[str, Meta(max_length=2_000, pattern=r"^https?://\S+\Z")]
    secrets: Annotated[tuple[str, ...], Meta(min_length=1, max_length=2)]
    rules: Selection[RuleId] = ()
    stores: Selection[StoreId] = "all"
    least_severity: Severity = "info"
    leaves_out: tuple[Literal["confirmed"], ...] = ()
    max_age: Annotated[int, Meta(ge=0)] = 3_600
    most_a_minute: Annotated[int, Meta(ge=1)] = 30
    quiet: tuple[QuietHours, ...] = ()
    digest: Annotated[str, Meta(pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?\Z")] = ""
    promise: Literal["at_least_once", "at_most_once"] = "at_least_once"
    heartbeat: bool = False
    repeat_after: Annotated[int, Meta(ge=0)] = 0
    escalate: Escalation | None = None
    owner: str = ""
    enabled: bool = True


class Silence(_Control, frozen=True, kw_only=True, tag="silence"):
    """Alerts that are kept back from `starts` to `ends`, milliseconds since 1970 (UTC).

    To end it early, it is written again with the earlier end. A process that has not read the
    change yet holds alerts back for longer, but loses none.
    """

    key_fields: ClassVar[tuple[str, ...]] = ("silence_id",)
    silence_id: SilenceId
    starts: int
    ends: int
    kind: Literal["silence", "maintenance"] = "silence"
    rules: Selection[RuleId] = "all"
    stores: Selection[StoreId] = "all"
    by: str = ""
    comment: str = ""


class Snooze(_Control, frozen=True, kw_only=True, tag="snooze"):
    """An alert of which nothing more is to be heard until an instant, milliseconds since 1970."""

    key_fields: ClassVar[tuple[str, ...]] = ("alert_id",)
    alert_id: AlertId
    store_id: StoreId
    until: int
    by: str = ""


class Acknowledgement(_Control, frozen=True, kw_only=True, tag="ack"):
    """A person has acknowledged an alert, at an instant; it is sent as before."""

    key_fields: ClassVar[tuple[str, ...]] = ("alert_id",)
    alert_id: AlertId
    store_id: StoreId
    at: int
    by: str


class Redelivery(_Control, frozen=True, kw_only=True, tag="redeliver"):
    """A message that is to be called for again, under its key and with its bytes."""

    key_fields: ClassVar[tuple[str, ...]] = ("channel_id", "message_id")
    channel_id: ChannelId
    message_id: str
    asked_at: int
    by: str = ""


AlertControl: TypeAlias = AlertChannel | Silence | Snooze | Acknowledgement | Redelivery
_DECODER = msgspec.json.Decoder(AlertControl)


def decode_control(value: bytes) -> AlertControl:
    """The control in a record's value. Raises msgspec.DecodeError."""
    control: AlertControl = _DECODER.decode(value)
    if isinstance(control, AlertChannel):
        try:
            parse_quiet_spans(control.quiet)
        # Checked here, because at quiet hours the error would end the process that reads it.
        except BadSettings as error:
            raise msgspec.ValidationError(str(error)) from error
        if control.escalate and control.escalate.channel == control.channel_id:
            raise msgspec.ValidationError("escalate.channel is the channel itself; name another")
    return control


def control_partitions(control: AlertControl, partitions: int) -> list[int]:
    """The partitions of the topic to which a control is written: its store's, or all."""
    # A control of one alert is needed only in that alert's partition.
    if isinstance(control, Snooze | Acknowledgement):
        return [partition_number(control.store_id, partitions)]
    return [*range(partitions)]


def severity_rank(severity: str) -> int:
    """The place of a severity in SEVERITIES; an unknown one ranks above all."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def selects(chosen: Selection[str], chosen_id: str) -> bool:
    """Whether a choice includes this id."""
    return chosen == "all" or chosen_id in chosen


def write_controls(settings: Settings, controls: Iterable[AlertControl], prefix: str = "") -> None:
    """Write each control to every partition that it concerns; returns once all are acknowledged.

    `prefix` names a separate topic for a test. Writing a control again changes nothing, so a retry
    completes an interrupted write. Raises SendFailed when an unknown part was not stored.
    """
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    for control in controls:
        # One record per partition: a dispatcher reads only its own partitions.
        value = msgspec.json.encode(control)
        for number in control_partitions(control, settings.partitions):
            sender.send(prefix + TOPIC, value, control.key.encode(), number)
    sender.flush(f"topic {prefix}{TOPIC}", "settle it again")

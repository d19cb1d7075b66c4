"""Resolutions: a person ends an alert by hand. They are records of the topic `alert-resolutions`.

A record's key is the alert's id, and its partition is that of the store, so the evaluator of a
partition reads all resolutions that concern it. The JSON Schema is
schemas/topics/alert-resolutions.schema.json.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from alerting.alert.ids import AlertId
from alerting.rules.rule import RuleId
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tally.errors import AlertNotOpen, TallyError
from tally.events.identity import StoreId, partition_number

TOPIC = "alert-resolutions"
_SECONDS = 30.0
MAX_REASON, MAX_NAME = 500, 200
# The text must contain something other than blanks.
_ReasonText = Annotated[str, Meta(min_length=1, max_length=MAX_REASON, pattern=r"\S")]
_PersonText = Annotated[str, Meta(max_length=MAX_NAME)]
_MILLIS = {"x-unit": "ms since 1970, UTC"}


class AlertResolution(Struct, frozen=True, kw_only=True):
    """A manual end of an alert: which alert, when, by whom and why."""

    alert_id: Annotated[AlertId, Meta(description="the open raise, also the record's key")]
    rule_id: Annotated[RuleId, Meta(description="the rule of the alert")]
    store_id: Annotated[StoreId, Meta(description="its store, which chooses the partition")]
    subject: Annotated[str, Meta(description="what of the store, e.g. `item:7`; `none`: all of it")]
    at: Annotated[int, Meta(description="when it was resolved", extra_json_schema=_MILLIS)]
    by: Annotated[_PersonText, Meta(description="who resolved it; empty: not said")]
    because: Annotated[_ReasonText, Meta(description="why it needs no further attention")]

    @classmethod
    def from_alert(cls, alert: Alert, at: int, by: str, because: str) -> "AlertResolution":
        """The resolution of an alert at an instant in milliseconds since 1970 (UTC)."""
        names = ("alert_id", "rule_id", "store_id", "subject")
        named = {name: getattr(alert, name) for name in names}
        return cls(**named, at=at, by=by, because=because)

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return self.alert_id

    @property
    def value(self) -> bytes:
        """The resolution as a record's value: one JSON object."""
        return msgspec.json.encode(self)

    def partition(self, partitions: int) -> int:
        """Its partition of the topic, 0 to partitions - 1: the partition of the store's alerts."""
        return partition_number(self.store_id, partitions)

    @classmethod
    def decode(cls, value: bytes) -> "AlertResolution":
        """The resolution in a record's value, without unknown fields. Raises DecodeError."""
        return msgspec.json.decode(value, type=cls)


def require_open(alert_id: str, is_open: bool) -> None:
    """Raises AlertNotOpen for an alert that cannot be resolved; only open raises can be."""
    if not is_open:
        raise AlertNotOpen(
            f"alert {alert_id} is not open: it has ended, was taken back, or is itself an end;"
            " `tally alerts list` shows those that are open"
        )


def write_resolution(settings: Settings, resolution: AlertResolution, prefix: str = "") -> None:
    """Write the resolution to the partition of its store; returns once it is acknowledged.

    `prefix` names a separate topic for a test. Raises TallyError for a field that does not fit,
    SendFailed when it may not have been stored.
    """
    try:
        # A record that evaluators cannot read must not reach the topic.
        AlertResolution.decode(resolution.value)
    except msgspec.ValidationError as error:
        raise TallyError(f"resolution: {error}; correct that field") from error
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    partition = resolution.partition(settings.partitions)
    sender.send(prefix + TOPIC, resolution.value, resolution.key.encode(), partition)
    sender.flush(f"topic {prefix}{TOPIC}", "resolve it again")

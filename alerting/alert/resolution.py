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
from tally.alerts.message import Alert
from tally.errors import AlertNotOpen
from tally.events.identity import StoreId, partition_number

MAX_REASON = 500
MAX_NAME = 200
# The text must contain something other than blanks.
ReasonText = Annotated[str, Meta(min_length=1, max_length=MAX_REASON, pattern=r"\S")]
PersonText = Annotated[str, Meta(max_length=MAX_NAME)]
_MILLIS = {"x-unit": "ms since 1970, UTC"}


class AlertResolution(Struct, frozen=True, kw_only=True):
    """A manual end of an alert: which alert, when, by whom and why."""

    alert_id: Annotated[AlertId, Meta(description="the open raise, also the record's key")]
    rule_id: Annotated[RuleId, Meta(description="the rule of the alert")]
    store_id: Annotated[StoreId, Meta(description="its store, which chooses the partition")]
    subject: Annotated[str, Meta(description="what of the store, e.g. `item:7`; `none`: all of it")]
    at: Annotated[int, Meta(description="when it was resolved", extra_json_schema=_MILLIS)]
    by: Annotated[PersonText, Meta(description="who resolved it; empty: not said")]
    because: Annotated[ReasonText, Meta(description="why it needs no further attention")]

    @classmethod
    def from_alert(cls, alert: Alert, at: int, by: str, because: str) -> "AlertResolution":
        """The resolution of an alert at an instant in milliseconds since 1970 (UTC)."""
        return cls(
            alert_id=alert.alert_id,
            rule_id=alert.rule_id,
            store_id=alert.store_id,
            subject=alert.subject,
            at=at,
            by=by,
            because=because,
        )

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
        """The resolution in a record's value; unknown fields are ignored.

        Raises msgspec.DecodeError, whose subclass ValidationError is included.
        """
        return msgspec.json.decode(value, type=cls)


def require_open(alert_id: str, is_open: bool) -> None:
    """Raises AlertNotOpen for an alert that cannot be resolved; only open raises can be."""
    if not is_open:
        raise AlertNotOpen(
            f"alert {alert_id} is not open: it has ended, was taken back, or is itself an end;"
            " `tally alerts list` shows those that are open"
        )

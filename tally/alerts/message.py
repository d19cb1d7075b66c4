"""An alert as subscribers read it in the topic `alerts`.

Its JSON Schema, schemas/topics/alerts.schema.json, has the meanings and units of these fields.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

AlertState = Literal["provisional", "confirmed", "retracted"]
Edge = Literal["raise", "clear"]
Reason = Literal[
    "late_data",
    "conflict",
    "erasure",
    "definition",
    "merged",
    "rule",
    "closed",
    "delisted",
    "resolved",
]

_UTC = {"x-unit": "UTC, RFC 3339, Z"}
_OF_METRIC = {"x-unit": "unit of the metric"}
_NONE = {"x-unit": ""}


class AlertWindow(Struct, frozen=True):
    """The window for which the alert was first published, [start, end)."""

    start: Annotated[str, Meta(description="inclusive", extra_json_schema=_UTC)]
    end: Annotated[str, Meta(description="exclusive", extra_json_schema=_UTC)]


class EpisodeSpan(Struct, frozen=True):
    """Windows in which the condition held, as known at the message."""

    start: Annotated[str, Meta(description="start of its first window", extra_json_schema=_UTC)]
    ended: Annotated[
        str | None,
        Meta(description="start of the window that ended it; null: open", extra_json_schema=_UTC),
    ]
    # Messages of earlier versions of Tally do not have this field.
    judged: Annotated[
        str | None,
        Meta(
            description="start of the window that calls for the message now; `value` is of it",
            extra_json_schema=_UTC,
        ),
    ] = None


class AlertBaseline(Struct, frozen=True):
    """What is usual in the window, by the snapshot that said it when the window was judged."""

    snapshot: Annotated[
        int, Meta(description="its number; a later one has a higher one", extra_json_schema=_NONE)
    ]
    value: Annotated[float, Meta(description="mean of earlier weeks", extra_json_schema=_OF_METRIC)]
    days: Annotated[
        int, Meta(description="of which it is made", extra_json_schema={"x-unit": "days"})
    ]


class ReadRows(Struct, frozen=True):
    """Which rows were judged: of a generation, or of the speed layer, with their events."""

    family: Annotated[str, Meta(description="view family")]
    day: Annotated[str, Meta(description="UTC day", extra_json_schema={"x-unit": "YYYY-MM-DD"})]
    generation: Annotated[
        int | None, Meta(description="that served; null: none", extra_json_schema=_NONE)
    ]
    epoch: Annotated[int, Meta(description="definition epoch", extra_json_schema=_NONE)]
    events: Annotated[
        int,
        Meta(description="distinct events of the window", extra_json_schema={"x-unit": "events"}),
    ]
    source: Annotated[str, Meta(description="batch, speed, mixed or missing")]


class Evidence(Struct, frozen=True):
    """By which tick's time was judged, and what was read."""

    tick: Annotated[int, Meta(description="number of the tick", extra_json_schema=_NONE)]
    read: Annotated[tuple[ReadRows, ...], Meta(description="rows of the window, by family")]


class Alert(Struct, frozen=True, kw_only=True):
    """One state of one alert, and what called for it.

    `raised_at` is that of its first message in all of them: by it the alert is filed.
    """

    alert_id: Annotated[str, Meta(description="digest of rule, version, store, subject and window")]
    rule_id: Annotated[str, Meta(description="the rule that called for it")]
    rule_version: Annotated[int, Meta(description="version of it", extra_json_schema=_NONE)]
    store_id: Annotated[str, Meta(description="the store, also the record's key")]
    subject: Annotated[str, Meta(description="what of the store, e.g. `item:7`; `none`: all of it")]
    metric: Annotated[str, Meta(description="id of the catalogue, or family that was silent")]
    window: Annotated[AlertWindow, Meta(description="first published for it; never moves")]
    state: Annotated[
        AlertState, Meta(description="provisional, then confirmed or retracted by a generation")
    ]
    value: Annotated[
        float | None,
        Meta(description="of the window; null: silent or erased", extra_json_schema=_OF_METRIC),
    ]
    threshold: Annotated[
        float | None,
        Meta(description="that it was compared with; null: none", extra_json_schema=_OF_METRIC),
    ]
    baseline: Annotated[
        AlertBaseline | None, Meta(description="what is usual; null: of another rule, or not known")
    ]
    severity: Annotated[str, Meta(description="info, warning or critical")]
    raised_at: Annotated[
        str, Meta(description="of its first message, by the tick", extra_json_schema=_UTC)
    ]
    reason: Annotated[
        Reason | None,
        Meta(description="why it was taken back, or ended whatever its numbers are; else null"),
    ]
    edge: Annotated[Edge, Meta(description="raise: it begins; clear: the end of one")]
    of: Annotated[str | None, Meta(description="alert_id of the raise that a clear ends")]
    occurrence: Annotated[
        int, Meta(description="2 and more: again after a retraction", extra_json_schema=_NONE)
    ]
    supersedes: Annotated[str | None, Meta(description="alert_id of the occurrence before")]
    late: Annotated[bool, Meta(description="published long after the window's end")]
    backfilled: Annotated[bool, Meta(description="of a time before the rule; goes to no channel")]
    episode: Annotated[EpisodeSpan, Meta(description="the run of windows that it is of")]
    evidence: Annotated[Evidence, Meta(description="what it was judged by")]


# The decoder is not strict: fields are only ever added, and an older reader ignores them.
_DECODER = msgspec.json.Decoder(Alert)


def decode_alert(message: bytes | str) -> Alert:
    """The alert in a record's value; unknown fields are ignored.

    Raises msgspec.DecodeError, also for a field that is missing or of another type.
    """
    return _DECODER.decode(message)


def decode_alert_or_none(message: bytes) -> Alert | None:
    """The alert in a record's value, or None if the value is not an alert."""
    try:
        return decode_alert(message)
    except msgspec.DecodeError:
        return None


def encode_alert(alert: Alert) -> bytes:
    """The alert as a record's value: one JSON object."""
    return msgspec.json.encode(alert)

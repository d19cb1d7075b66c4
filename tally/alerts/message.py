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


def _says(text: str, unit: str | None = None) -> Meta:
    return Meta(description=text, extra_json_schema=None if unit is None else {"x-unit": unit})


def _instant(text: str) -> Meta:
    return _says(text, "UTC, RFC 3339, Z")


def _amount(text: str) -> Meta:
    return _says(text, "unit of the metric")


class AlertWindow(Struct, frozen=True):
    """The window for which the alert was first published, [start, end)."""

    start: Annotated[str, _instant("inclusive")]
    end: Annotated[str, _instant("exclusive")]


class EpisodeSpan(Struct, frozen=True):
    """Windows in which the condition held, as known at the message."""

    start: Annotated[str, _instant("start of its first window")]
    ended: Annotated[str | None, _instant("start of the window that ended it; null: open")]
    # Messages of earlier versions of Tally do not have this field.
    judged: Annotated[
        str | None,
        _instant("start of the window that calls for the message now; `value` is of it"),
    ] = None


class AlertBaseline(Struct, frozen=True):
    """What is usual in the window, by the snapshot that said it when the window was judged."""

    snapshot: Annotated[int, _says("its number; a later one has a higher one", "")]
    value: Annotated[float, _amount("mean of earlier weeks")]
    days: Annotated[int, _says("of which it is made", "days")]


class ReadRows(Struct, frozen=True):
    """Which rows were judged: of a generation, or of the speed layer, with their events."""

    family: Annotated[str, _says("view family")]
    day: Annotated[str, _says("UTC day", "YYYY-MM-DD")]
    generation: Annotated[int | None, _says("that served; null: none", "")]
    epoch: Annotated[int, _says("definition epoch", "")]
    events: Annotated[int, _says("distinct events of the window", "events")]
    source: Annotated[str, _says("batch, speed, mixed or missing")]


class Evidence(Struct, frozen=True):
    """By which tick's time was judged, and what was read."""

    tick: Annotated[int, _says("number of the tick", "")]
    read: Annotated[tuple[ReadRows, ...], _says("rows of the window, by family")]


class Alert(Struct, frozen=True, kw_only=True):
    """One state of one alert, and what called for it.

    `raised_at` is that of its first message in all of them: by it the alert is filed.
    """

    alert_id: Annotated[str, _says("digest of rule, version, store, subject and window")]
    rule_id: Annotated[str, _says("the rule that called for it")]
    rule_version: Annotated[int, _says("version of it", "")]
    store_id: Annotated[str, _says("the store, also the record's key")]
    subject: Annotated[str, _says("what of the store, e.g. `item:7`; `none`: all of it")]
    metric: Annotated[str, _says("id of the catalogue, or family that was silent")]
    window: Annotated[AlertWindow, _says("first published for it; never moves")]
    state: Annotated[AlertState, _says("provisional, then confirmed or retracted by a generation")]
    value: Annotated[float | None, _amount("of the window; null: silent or erased")]
    threshold: Annotated[float | None, _amount("that it was compared with; null: none")]
    baseline: Annotated[
        AlertBaseline | None, _says("what is usual; null: of another rule, or not known")
    ]
    severity: Annotated[str, _says("info, warning or critical")]
    raised_at: Annotated[str, _instant("of its first message, by the tick")]
    reason: Annotated[
        Reason | None, _says("why it was taken back, or ended whatever its numbers are; else null")
    ]
    edge: Annotated[Edge, _says("raise: it begins; clear: the end of one")]
    of: Annotated[str | None, _says("alert_id of the raise that a clear ends")]
    occurrence: Annotated[int, _says("2 and more: again after a retraction", "")]
    supersedes: Annotated[str | None, _says("alert_id of the occurrence before")]
    late: Annotated[bool, _says("published long after the window's end")]
    backfilled: Annotated[bool, _says("of a time before the rule; goes to no channel")]
    episode: Annotated[EpisodeSpan, _says("the run of windows that it is of")]
    evidence: Annotated[Evidence, _says("what it was judged by")]


# The decoder is not strict: fields are only ever added, and an older reader ignores them.
_DECODER = msgspec.json.Decoder(Alert)


def decode_alert(message: bytes | str) -> Alert:
    """The alert in a record's value; unknown fields are ignored. Raises msgspec.DecodeError."""
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

"""The shapes of the answers about alerts, as OpenAPI publishes them."""

from typing import Annotated, Literal

from msgspec import Meta

from alerting.queries.alerts import ListedAlert
from runtime.http.openapi import Shape
from tally.alerts.message import Alert, EpisodeSpan
from web.api.answers.answers import Instant, Next

AlertActionName = Literal["ack", "snooze", "resolve"]


class AlertList(Shape):
    """A page of alerts, each in its last state, newest first."""

    alerts: Annotated[
        list[ListedAlert],
        Meta(description="at most `limit`; fewer, even none, where `next` goes on"),
    ]
    next: Next


# The messages are the records of the topic, so a subscriber already knows their fields.
class AlertAnswer(Shape):
    """One alert with its whole life."""

    alert: Annotated[ListedAlert, Meta(description="in its last state")]
    episode: Annotated[EpisodeSpan, Meta(description="as it is known now, its end included")]
    states: Annotated[
        list[Alert],
        Meta(description="each message, by state; after an erasure the last one alone"),
    ]
    ends: Annotated[
        list[Alert], Meta(description="each message of the clears that end it, by when they began")
    ]


class AlertActionAnswer(Shape):
    """What was written about an alert; all brokers that have to have acknowledged it."""

    alert_id: Annotated[str, Meta(description="the alert")]
    store_id: Annotated[str, Meta(description="its store")]
    action: Annotated[AlertActionName, Meta(description="what was done")]
    by: Annotated[str, Meta(description="who did it; empty: not said")]
    at: Annotated[Instant | None, Meta(description="when it was done; null: of a snooze")]
    until: Annotated[
        Instant | None,
        Meta(description="until when no channel is sent the alert; null: of another action"),
    ]
    because: Annotated[str | None, Meta(description="why it was resolved; null: of another action")]

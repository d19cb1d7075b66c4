"""The shapes of what is answered about alerts, as OpenAPI publishes them."""

from typing import Annotated

from msgspec import Meta

from runtime.openapi import Shape
from serving.alerts.inquiry import ListedAlert
from serving.api.answers import Next
from tally.alerts.message import Alert, EpisodeSpan


class AlertList(Shape):
    """A page of alerts, each in its last state, newest first."""

    alerts: Annotated[
        list[ListedAlert],
        Meta(description="at most `limit`; fewer, even none, where `next` goes on"),
    ]
    next: Next


# The messages are the records of the topic: a subscriber knows their fields already.
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

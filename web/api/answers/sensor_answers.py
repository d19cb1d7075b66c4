"""The shapes of the answer about a store's sensors, as OpenAPI publishes them."""

from typing import Annotated

from msgspec import Meta, field

from runtime.http.openapi import Shape
from web.api.answers.answers import Instant

ExpectedSeconds = Annotated[
    int, Meta(description="seconds of the open hours, of windows with an answer")
]
ObservedSeconds = Annotated[int, Meta(description="those of them for which it was there")]
Share = Annotated[float | None, Meta(description="observed of expected; null: none is expected")]


class SensorStretch(Shape):
    """One stretch of time of one sensor."""

    start: Annotated[Instant, Meta(description="inclusive")]
    end: Annotated[Instant, Meta(description="exclusive")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share


class SensorCoverage(Shape):
    """One sensor: a people counter or an access point."""

    family: Annotated[str, Meta(description="view family that it tells of")]
    sensor: Annotated[str, Meta(description="its name in records")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share
    rows: Annotated[list[SensorStretch], Meta(description="by time ascending")]


class SensorAnswer(Shape):
    """For how long each sensor of a store was there, beside how long it should have been."""

    store: Annotated[str, Meta(description="its id")]
    from_: Annotated[Instant, Meta(description="inclusive")] = field(name="from")
    to: Annotated[Instant, Meta(description="exclusive")]
    tz: Annotated[str, Meta(description="IANA time zone of the instants")]
    grain: Annotated[str, Meta(description="length of a stretch")]
    threshold: Annotated[float, Meta(description="the share from which on a number is complete")]
    sensors: Annotated[list[SensorCoverage], Meta(description="by family and name")]

"""The shapes of a simulation's answer, as OpenAPI publishes them, and how they are filled."""

from datetime import date
from typing import Annotated

from msgspec import Meta, field

from alerting.simulate.findings import IncompleteDay, SimulatedPage, SimulationRequest
from runtime.http.openapi import Shape
from tally.time.instants import from_millis
from web.api.requests.shared import Instant


class SimulatedEpisodeAnswer(Shape):
    """One alert that would have been published, and its end."""

    # There is no alert_id, because an alert gets the id of its first message, and none was sent.
    store_id: Annotated[str, Meta(description="the store")]
    subject: Annotated[str, Meta(description="what of the store, e.g. `item:7`; `none`: all of it")]
    rule_version: Annotated[int, Meta(description="the version that raises it")]
    start: Annotated[Instant, Meta(description="start of its first quarter hour")]
    raised: Annotated[Instant, Meta(description="start of the quarter hour that raises it")]
    end: Annotated[
        Instant | None,
        Meta(description="start of the quarter hour that ends it; null: open at `to`"),
    ]
    value: Annotated[
        float | None,
        Meta(description="of the quarter hour that raises it; null: silent, or withheld"),
    ]
    threshold: Annotated[float | None, Meta(description="that it was compared with; null: none")]
    complete: Annotated[
        bool,
        Meta(description="all quarter hours from its day's begin to its end are served complete"),
    ]


class IncompleteDayAnswer(Shape):
    """A day of a store of which not all is served complete."""

    store_id: Annotated[str, Meta(description="the store")]
    day: Annotated[date, Meta(description="its local day")]
    # Given beside the local day, so that a client can draw it without knowing the store's zone.
    start: Annotated[Instant, Meta(description="of what was asked of it, inclusive")]
    end: Annotated[Instant, Meta(description="exclusive")]
    windows: Annotated[int, Meta(description="quarter hours that are not served complete")]
    of: Annotated[int, Meta(description="quarter hours of the day that were asked for")]


class SimulationAnswer(Shape):
    """What a rule calls for in some stores over some days."""

    rule_id: Annotated[str, Meta(description="the rule")]
    from_: Annotated[Instant, Meta(description="inclusive")] = field(name="from")
    to: Annotated[Instant, Meta(description="exclusive")]
    stores: Annotated[list[str], Meta(description="those of this page, judged whole")]
    episodes: Annotated[
        list[SimulatedEpisodeAnswer], Meta(description="by store and begin; one may begin earlier")
    ]
    complete: Annotated[
        bool, Meta(description="every quarter hour was served complete, and every begin is known")
    ]
    # The days are listed one by one, because a sum would not show which days to rebuild.
    incomplete: Annotated[
        list[IncompleteDayAnswer], Meta(description="of these days episodes may be missing")
    ]
    begun_before: Annotated[
        list[str],
        Meta(
            description="stores of which the quarter hours before `from` do not show where the rule"
            " stood: an episode of theirs may have begun earlier, or not be one"
        ),
    ]
    articles: Annotated[
        int, Meta(description="how many articles of these stores a rule of stock has looked at")
    ]
    next: Annotated[
        str | None, Meta(description="address to send the same body to for further stores")
    ]


def simulation_answer(
    request: SimulationRequest, page: SimulatedPage, following: str | None
) -> SimulationAnswer:
    """A simulation's page in the shape of the answer; `following`: address of the next page."""
    # On incomplete days an episode may be missing, even if the others are sure.
    incomplete = [_incomplete_day(day) for store in page.stores for day in store.incomplete_days]
    unsure = [result.store_id for result in page.stores if not result.is_certain]
    return SimulationAnswer(
        rule_id=request.rule_id,
        from_=from_millis(request.span.start),
        to=from_millis(request.span.end),
        stores=[result.store_id for result in page.stores],
        episodes=_episodes(page),
        complete=not (incomplete or unsure),
        incomplete=incomplete,
        begun_before=unsure,
        articles=sum(result.articles for result in page.stores),
        next=following,
    )


def _episodes(page: SimulatedPage) -> list[SimulatedEpisodeAnswer]:
    return [
        SimulatedEpisodeAnswer(
            store_id=simulated.store_id,
            subject=simulated.subject,
            rule_version=simulated.episode.version,
            start=from_millis(simulated.episode.start),
            raised=from_millis(simulated.episode.raised),
            end=None if simulated.episode.ended is None else from_millis(simulated.episode.ended),
            value=simulated.value,
            threshold=simulated.threshold,
            complete=simulated.is_complete,
        )
        for store in page.stores
        for simulated in store.episodes
    ]


def _incomplete_day(day: IncompleteDay) -> IncompleteDayAnswer:
    start, end = from_millis(day.start), from_millis(day.end)
    return IncompleteDayAnswer(
        day.store_id, day.day, start, end, day.incomplete_windows, day.requested_windows
    )

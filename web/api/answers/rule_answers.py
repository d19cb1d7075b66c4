"""The shapes of the answers about rules, as OpenAPI publishes them."""

from datetime import date
from typing import Annotated, Any

from msgspec import Meta, field

from alerting.health.store import UnevaluatedReason
from runtime.http.openapi import Shape
from web.api.answers.answers import Instant, Next


class RuleEntryAnswer(Shape):
    """One version of a rule."""

    rule_id: Annotated[str, Meta(description="the rule")]
    version: Annotated[int, Meta(description="number of the version, from 1 on")]
    revision: Annotated[
        int, Meta(description="how often the presentation of the version's alerts was changed")
    ]
    effective_from: Annotated[
        Instant, Meta(description="start of the first quarter hour that it judges")
    ]
    retired: Annotated[bool, Meta(description="from then on nothing is called for")]
    # A rule has no shape of its own here, because rule.schema.json, which checks rule files,
    # describes it in full.
    rule: Annotated[
        dict[str, Any],
        Meta(description="every field, as schemas/rules/rule.schema.json has them"),
    ]


class RuleList(Shape):
    """A page of rules, each in its newest version, by id."""

    rules: Annotated[list[RuleEntryAnswer], Meta(description="at most `limit`; retired ones too")]
    next: Next


class RuleVersionsAnswer(Shape):
    """All versions of one rule."""

    rule_id: Annotated[str, Meta(description="the rule")]
    versions: Annotated[list[RuleEntryAnswer], Meta(description="ascending")]


class StoreHealthAnswer(Shape):
    """Whether a rule is judged in one store, by its newest closed quarter hours."""

    store_id: Annotated[str, Meta(description="the store")]
    judged: Annotated[bool, Meta(description="whether the rule says something of the store now")]
    reason: Annotated[
        UnevaluatedReason | None,
        Meta(description="why it cannot be judged; null: it is. Each is in docs/alerts.md"),
    ]
    since: Annotated[
        Instant | None,
        Meta(description="since when it cannot be judged; null: it is, or always was so"),
    ]
    earlier: Annotated[
        bool,
        Meta(description="it may have begun before `since`: 14 days are looked at, of stock 2"),
    ]


class RuleHealthAnswer(Shape):
    """Whether a rule can be judged, by store."""

    rule_id: Annotated[str, Meta(description="the rule")]
    version: Annotated[
        int | None, Meta(description="the version in force; null: none is, and no store is listed")
    ]
    stores: Annotated[
        list[StoreHealthAnswer],
        Meta(description="those that the rule is about today, by id; at most 100 a page"),
    ]
    next: Next


class SimulatedEpisodeAnswer(Shape):
    """One alert that would have been published, and its end."""

    # There is no alert_id, because an alert gets the id of its first message, and none was sent.
    store_id: Annotated[str, Meta(description="the store")]
    subject: Annotated[str, Meta(description="what of the store, e.g. `item:7`; `none`: all of it")]
    rule_version: Annotated[int, Meta(description="the version that raises it")]
    start: Annotated[Instant, Meta(description="start of its first quarter hour")]
    raised: Annotated[
        Instant,
        Meta(description="start of the quarter hour that raises it"),
    ]
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

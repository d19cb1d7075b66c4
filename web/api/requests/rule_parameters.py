"""The parameters and bodies of the rule routes, as OpenAPI publishes them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from alerting.evaluate.snapshot.calendar import WindowSpan
from serving.questions.question import MetricQuestion, check_span
from tally.time.instants import UTC_CLOCK, UTC_ZONE, to_millis
from web.api.requests.parameters import NameList, PageQuery

# More than the body's fields, and few enough to answer each unknown field with its own error.
_MAX_FIELDS = 64


class RuleHealthQuery(PageQuery):
    """Parameters of a rule's health; any other is refused."""

    store: Annotated[
        list[str],
        Field(["all"], description="store ids, or `all`; of them those that the rule is about"),
    ]


class SimulationPageQuery(BaseModel):
    """Parameters of a page of a simulation; any other is refused."""

    model_config = ConfigDict(extra="forbid")
    after: Annotated[
        str,
        Field(
            "",
            max_length=1_000,
            description="cursor of a page; taken from `next`, and nothing else is one",
        ),
    ]


class SimulationBody(BaseModel):
    """What a rule is to be simulated over; any other field is refused."""

    model_config = ConfigDict(extra="forbid")
    from_: Annotated[
        str,
        Field(
            alias="from",
            max_length=100,
            description="inclusive: instant with offset, or YYYY-MM-DD (UTC); on a quarter hour",
        ),
    ]
    to: Annotated[
        str, Field(max_length=100, description="exclusive, as `from`; at most 400 days on")
    ]
    store: Annotated[
        NameList,
        Field(["all"], description="store ids, or `all`; of them those that the rule is about"),
    ]
    rule: Annotated[
        dict[str, Any] | None,
        Field(
            None,
            description="a rule in the place of all versions of the one of the address, as"
            " schemas/rules/rule.schema.json has it; null: as it was applied",
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and len(fields) > _MAX_FIELDS:
            raise ValueError(f"at most {_MAX_FIELDS} fields, got {len(fields):,}")
        return fields

    @property
    def span(self) -> WindowSpan:
        """The windows, milliseconds since 1970 (UTC). Raises BadQuery."""
        # Days are UTC days, as in the list of alerts, because each store has its own time zone.
        zone = UTC_ZONE.key
        # The span is checked like that of a metric: the grid, the years, at most 400 days.
        question = MetricQuestion(["all"], self.from_, self.to, "15m", zone, [], None)
        start, end = check_span(question, UTC_CLOCK)
        return WindowSpan(to_millis(start), to_millis(end))

"""The answers of each route by status, as OpenAPI publishes them."""

from runtime.http.openapi import (
    Health,
    Problem,
    Readiness,
    Responses,
    Shape,
    problem_entry,
    response_entry,
)
from web.api.answers.alert_answers import AlertActionAnswer, AlertAnswer, AlertList
from web.api.answers.answers import (
    GenerationChanged,
    MetricList,
    OneStoreAnswer,
    SeriesAnswer,
    StoreList,
)
from web.api.answers.calendar_answers import CalendarAnswer
from web.api.answers.explanation_answers import Explanation
from web.api.answers.report_answers import ReportAnswer, ReportList
from web.api.answers.rule_answers import (
    RuleHealthAnswer,
    RuleList,
    RuleVersionsAnswer,
    SimulationAnswer,
)
from web.api.answers.sensor_answers import SensorAnswer

SHAPES: tuple[type[Shape], ...] = (
    AlertActionAnswer,
    AlertAnswer,
    AlertList,
    CalendarAnswer,
    SensorAnswer,
    Explanation,
    Health,
    MetricList,
    GenerationChanged,
    Problem,
    Readiness,
    ReportAnswer,
    ReportList,
    RuleHealthAnswer,
    RuleList,
    RuleVersionsAnswer,
    SeriesAnswer,
    SimulationAnswer,
    OneStoreAnswer,
    StoreList,
)
_FAILED: Responses = {
    500: problem_entry("the answer could not be made; the API's log has the reason")
}
_REFUSED: Responses = {
    422: problem_entry("a parameter that cannot be answered, or is none; `errors` names it")
}
_UNREACHABLE: Responses = {
    503: problem_entry(
        "the views cannot be read, so there is no number; `Retry-After` says when to ask"
    )
}

HEALTH: Responses = {200: response_entry("the process answers", Health)}
READINESS: Responses = {
    200: response_entry("the views can be read", Readiness),
    # Not a problem document: a probe reads the same checks whether they pass or not.
    503: response_entry("they cannot", Readiness),
    **_FAILED,
}
STORES: Responses = {
    200: response_entry("a page of stores", StoreList),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
METRICS: Responses = {200: response_entry("a page of the catalogue", MetricList), **_REFUSED}
METRIC: Responses = {
    200: response_entry(
        "`rows` of one store that was named, else `series`", OneStoreAnswer, SeriesAnswer
    ),
    404: problem_entry("there is no such metric or store"),
    409: problem_entry(
        "a rebuild has published since the first page; its `next` is the address to begin again at",
        GenerationChanged,
    ),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
REPORTS: Responses = {200: response_entry("every report", ReportList), **_REFUSED}
REPORT: Responses = {
    200: response_entry("the report", ReportAnswer),
    404: problem_entry("there is no such report or store"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
CALENDAR: Responses = {
    200: response_entry("each of the days, ascending", CalendarAnswer),
    404: problem_entry("there is no such store"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
SENSORS: Responses = {
    200: response_entry("each sensor of the stores file, by family and name", SensorAnswer),
    404: problem_entry("there is no such store"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
EXPLANATION: Responses = {
    200: response_entry("both layers' rows, and which side won", Explanation),
    404: problem_entry("there is no such family or store"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
ALERTS: Responses = {
    200: response_entry("a page of alerts, each in its last state", AlertList),
    404: problem_entry("there is no such store"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
ALERT: Responses = {
    200: response_entry("the alert and all its published states", AlertAnswer),
    404: problem_entry("there is no such alert"),
    **_REFUSED,
    **_FAILED,
    **_UNREACHABLE,
}
ALERT_ACTION: Responses = {
    200: response_entry("what was written", AlertActionAnswer),
    403: problem_entry("the settings refuse it (TALLY_RULE_EDITS)"),
    404: problem_entry("there is no such alert"),
    **_REFUSED,
    **_FAILED,
    503: problem_entry(
        "the alert cannot be read, or the action stored; `Retry-After` says when to try"
    ),
}
RESOLUTION: Responses = {
    **ALERT_ACTION,
    409: problem_entry("the alert is not open: it has ended, was taken back, or is itself an end"),
}
ALERT_STREAM: Responses = {
    404: problem_entry("there is no such store"),
    **_REFUSED,
    **_FAILED,
    503: problem_entry(
        "the topic cannot be read, or too many streams are open; `Retry-After` says when"
    ),
}
# Rules are in Kafka, so they may be unreachable while the tables can be read.
_NO_RULES: Responses = {
    503: problem_entry("the rules or the views cannot be read; `Retry-After` says when to ask")
}
RULES: Responses = {
    200: response_entry("a page of rules, by id", RuleList),
    **_REFUSED,
    **_FAILED,
    **_NO_RULES,
}
RULE_VERSIONS: Responses = {
    200: response_entry("its versions, ascending", RuleVersionsAnswer),
    404: problem_entry("there is no such rule"),
    **_REFUSED,
    **_FAILED,
    **_NO_RULES,
}
RULE_HEALTH: Responses = {
    200: response_entry("some stores, each with the reason why it is not judged", RuleHealthAnswer),
    404: problem_entry("there is no such rule or store"),
    **_REFUSED,
    **_FAILED,
    **_NO_RULES,
}
SIMULATION: Responses = {
    200: response_entry("some stores, judged whole", SimulationAnswer),
    400: problem_entry("the body cannot be read"),
    404: problem_entry("there is no such rule or store"),
    413: problem_entry("the body has more than 65,536 bytes"),
    429: problem_entry("four simulations wait already; `Retry-After` says when to ask"),
    **_REFUSED,
    **_FAILED,
    **_NO_RULES,
}

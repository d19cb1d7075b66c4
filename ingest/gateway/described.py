"""What the gateway answers, by route and status, as OpenAPI publishes it."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from runtime.http.answers import (
    Health,
    Problem,
    Readiness,
    Responses,
    Shape,
    problem_entry,
    response_entry,
)

_REASON = "reason, as in a dead letter; `not_a_number` for a number's type"
_SKIPPED = "parts of a vendor's body that are no events, by reason"


class LineError(Shape):
    """What is wrong with one field of a message."""

    field: Annotated[str, Meta(description="JSON pointer to it; cut at 250 characters")]
    code: Annotated[str, Meta(description=_REASON)]
    message: Annotated[str, Meta(description="what is wanted; cut at 250 characters")]


class RejectedLine(Shape):
    """A message that does not count.

    It was not stored; but of a vendor's body, whose sender reads no answers, it is a dead letter.
    """

    line: Annotated[int, Meta(description="its number in the body, from 1")]
    errors: Annotated[list[LineError], Meta(description="what is wrong with it")]


class Outcome(Shape):
    """What became of the messages of a body."""

    accepted: Annotated[int, Meta(description="messages that are stored")]
    rejected: Annotated[list[RejectedLine], Meta(description="the first hundred of the others")]
    rejected_count: Annotated[
        int | UnsetType, Meta(description="all of the others, where they are more than a hundred")
    ] = UNSET
    skipped: Annotated[dict[str, int] | UnsetType, Meta(description=_SKIPPED)] = UNSET


class Refusal(Problem):
    """No message of the body follows the contract; none was stored."""

    accepted: Annotated[int, Meta(description="always 0")]
    rejected: Annotated[list[RejectedLine], Meta(description="the first hundred messages")]
    rejected_count: Annotated[
        int | UnsetType, Meta(description="all messages, where they are more than a hundred")
    ] = UNSET


# The application's own answers: a connection refused before it gets a line of plain text.
RECEIVED: Responses = {
    202: response_entry("every good message is stored, and may be sent again at any time", Outcome),
    400: problem_entry("the body is empty, or not JSON in UTF-8"),
    413: problem_entry(
        "the body is too large, or of too many lines, stores or days; `detail` says which"
    ),
    415: problem_entry("neither JSON nor NDJSON, or encoded"),
    422: problem_entry("no message follows the contract; nothing was stored", Refusal),
    429: problem_entry(
        "too much is under way; nothing was stored; `Retry-After` says when to come back"
    ),
    503: problem_entry(
        "nothing is taken now, or not all was stored: send it all again after `Retry-After`"
    ),
}
# A device does not read the answer, and after a refusal it would send the same body for ever.
RECEIVED_FROM_DEVICES: Responses = {
    **{status: response for status, response in RECEIVED.items() if status != 422},
    200: response_entry(
        "there is no event in the body, as when a device tries its connection", Outcome
    ),
    202: response_entry(
        "what is right is stored, and what is wrong becomes a dead letter", Outcome
    ),
}
RECEIVED_WITH_SECRET: Responses = {
    **RECEIVED_FROM_DEVICES,
    403: problem_entry("the body does not name the secret of the path; nothing of it was stored"),
}
GREETING: Responses = {
    200: {
        "description": "the validator",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
    404: problem_entry("none is set"),
}
HEALTH: Responses = {
    200: response_entry("the process answers and can send", Health),
    503: response_entry("it is about to end, and to be started again", Health),
}
READINESS: Responses = {
    200: response_entry("messages would be stored now", Readiness),
    503: response_entry("they would not", Readiness),
}


def describe_request(schema: Mapping[str, Any], is_ours: bool) -> dict[str, Any]:
    """A path's request body in OpenAPI terms: messages of the schema, or a vendor's own body."""
    lines = {"schema": {"type": "string"}}
    ours = {"application/json": {"schema": schema}, "application/x-ndjson": lines}
    content: dict[str, Any] = ours if is_ours else {"*/*": {"schema": {}}}
    return {"requestBody": {"required": True, "content": content}}

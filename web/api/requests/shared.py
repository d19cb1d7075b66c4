"""What the routes share, as OpenAPI publishes it: refusals, fields of answers, and parameters."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, UnsetType
from pydantic import BaseModel, ConfigDict, FailFast, Field

from runtime.http.openapi import Responses, problem_entry
from serving.questions.known_stores import KnownStores
from serving.questions.question import MAX_ENTRIES, MAX_STORES, parse_stores

# The refusals of every route that reads the views; a route adds its own to them.
REFUSALS: Responses = {
    422: problem_entry("a parameter that cannot be answered, or is none; `errors` names it"),
    500: problem_entry("the answer could not be made; the API's log has the reason"),
    503: problem_entry(
        "the views cannot be read, so there is no number; `Retry-After` says when to ask"
    ),
}
NO_STORE = problem_entry("there is no such store")
StatusField = Annotated[
    Literal["final", "restated", "provisional", "not_measured"],
    Meta(
        description="how sure the number is; of several windows the weakest. `not_measured`: the"
        " store has never had a sensor that tells of it, and lists none: there is no number"
    ),
]
SourceField = Annotated[
    Literal["batch", "speed", "mixed", "missing"],
    Meta(description="the layer that it is from; `missing`: neither has it, and it is no zero"),
]
Complete = Annotated[
    bool,
    Meta(
        description="every record that had arrived by `through` is in it; never if provisional,"
        " or if sensors were silent"
    ),
]
CoverageField = Annotated[
    float | UnsetType,
    Meta(
        description="share of the open hours for which the sensors of the stores file were there;"
        " not there: none is listed for the metric, or the store was closed"
    ),
]
Next = Annotated[
    str | None, Meta(description="address of the page after this one; null on the last one")
]
# An instant with its offset, as in RFC 3339.
Instant = Annotated[datetime, Meta(tz=True)]
# Sums are exact integers and ratios are floats; JSON has one number type for both.
Number = int | float | None


# A list stops at its first error, and may not be longer than a list of all stores.
NameList = Annotated[list[str], FailFast(), Field(max_length=MAX_STORES)]
StoreNames = Annotated[NameList, Field(description="store ids, repeated or with commas, or `all`")]
After = Annotated[
    str,
    Field(
        "",
        max_length=1_000,
        description="cursor of a page; taken from `next`, and nothing else is one",
    ),
]


class Parameters(BaseModel):
    """The parameters of an address, or the fields of a body; by default there are none."""

    # A misspelt parameter is refused; if it were ignored, its default would answer another query
    # than the client meant.
    model_config = ConfigDict(extra="forbid")


class PageQuery(Parameters):
    """Parameters of a list."""

    limit: Annotated[
        int, Field(1_000, ge=1, le=MAX_ENTRIES, description="most entries of one answer")
    ]
    after: After


async def check_stores(stores: KnownStores, texts: Sequence[str]) -> list[str] | None:
    """The stores that the texts name, all of which exist; None for `all`.

    Raises BadQuery, UnknownName, ViewsUnreachable.
    """
    named = parse_stores(texts)
    if named is not None:
        await stores.check(named)
    return named


async def list_stores(stores: KnownStores, texts: Sequence[str]) -> list[str]:
    """The ids of the stores that the texts name. Raises BadQuery, UnknownName, ViewsUnreachable."""
    named = await check_stores(stores, texts)
    return await stores.all_ids() if named is None else named

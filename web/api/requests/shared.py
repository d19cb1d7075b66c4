"""What the routes share: refusals, fields of answers, parameters, and cursors.

A cursor says where the next page begins, as an opaque text that only this API writes and reads.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec
from fastapi import Query, Request
from msgspec import Meta, UnsetType
from pydantic import BaseModel, ConfigDict, FailFast, Field

from runtime.http.answers import Responses, Shape, problem_entry, response_entry
from serving.questions.known_stores import KnownStores
from serving.questions.question import MAX_ENTRIES, MAX_STORES, parse_stores
from tally.errors import BadQuery


def means(text: str) -> Meta:
    """The description of a field of an answer, as OpenAPI publishes it."""
    return Meta(description=text)


# The refusals of every route that reads the views; a route adds its own to them.
REFUSALS: Responses = {
    422: problem_entry("a parameter that cannot be answered, or is none; `errors` names it"),
    500: problem_entry("the answer could not be made; the API's log has the reason"),
    503: problem_entry(
        "the views cannot be read, so there is no number; `Retry-After` says when to ask"
    ),
}
NO_STORE = "there is no such store"


def declare(
    meaning: str, *shapes: type[Shape], unknown: str = "", refusals: Responses = REFUSALS
) -> Responses:
    """The responses of a route: refusals, the answer, and what 404 means, if it has that."""
    found = {**refusals, 200: response_entry(meaning, *shapes)}
    return {**found, 404: problem_entry(unknown)} if unknown else found


StatusField = Annotated[
    Literal["final", "restated", "provisional", "not_measured"],
    means(
        "how sure the number is; of several windows the weakest. `not_measured`: the"
        " store has never had a sensor that tells of it, and lists none: there is no number"
    ),
]
SourceField = Annotated[
    Literal["batch", "speed", "mixed", "missing"],
    means("the layer that it is from; `missing`: neither has it, and it is no zero"),
]
Complete = Annotated[
    bool,
    means(
        "every record that had arrived by `through` is in it; never if provisional,"
        " or if sensors were silent"
    ),
]
CoverageField = Annotated[
    float | UnsetType,
    means(
        "share of the open hours for which the sensors of the stores file were there;"
        " not there: none is listed for the metric, or the store was closed"
    ),
]
Next = Annotated[str | None, means("address of the page after this one; null on the last one")]
# An instant with its offset, as in RFC 3339.
Instant = Annotated[datetime, Meta(tz=True)]
# The fields of an answer by name.
JsonFields = dict[str, Any]
# Sums are exact integers and ratios are floats; JSON has one number type for both.
Number = int | float | None
# A list stops at its first error, and may not be longer than a list of all stores.
NameList = Annotated[list[str], FailFast(), Field(max_length=MAX_STORES)]
StoreNames = Annotated[NameList, Field(description="store ids, repeated or with commas, or `all`")]
_CURSOR = "cursor of a page; taken from `next`, and nothing else is one"
After = Annotated[str, Field("", max_length=1_000, description=_CURSOR)]


class Parameters(BaseModel):
    """The parameters of an address, or the fields of a body; by default there are none."""

    # A misspelt parameter is refused; if it were ignored, its default would answer another query
    # than the client meant.
    model_config = ConfigDict(extra="forbid")


NoQuery = Annotated[Parameters, Query()]


class PageQuery(Parameters):
    """Parameters of a list."""

    limit: Annotated[
        int, Field(1_000, ge=1, le=MAX_ENTRIES, description="most entries of one answer")
    ]
    after: After


async def check_stores(stores: KnownStores, texts: Sequence[str]) -> list[str] | None:
    """The named stores; None: `all`. Raises BadQuery, UnknownName, ViewsUnreachable."""
    named = parse_stores(texts)
    if named is not None:
        await stores.check(named)
    return named


async def list_stores(stores: KnownStores, texts: Sequence[str]) -> list[str]:
    """The ids of the stores that the texts name. Raises BadQuery, UnknownName, ViewsUnreachable."""
    named = await check_stores(stores, texts)
    return await stores.all_ids() if named is None else named


class MetricCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of the previous pages of a metric's answer, and their generation by family.

    The pages held everything up to `until`, the end of a slot (seconds since 1970), of `store`.
    """

    store: Annotated[str, Meta(max_length=64)]
    until: Annotated[int, Meta(ge=0, le=10**10)]
    # Kept because pages of different generations would mix two answers into one.
    generations: Mapping[str, int]


class EntryCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last entry of a list on the previous page."""

    entry: Annotated[str, Meta(max_length=64)]


class AlertCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last alert on the previous page: when it was raised (ms since 1970, UTC), and its id."""

    raised: Annotated[int, Meta(ge=0, le=10**13)]
    alert: Annotated[str, Meta(max_length=64)]


AnyCursor: TypeAlias = MetricCursor | EntryCursor | AlertCursor
_Cursor = TypeVar("_Cursor", MetricCursor, EntryCursor, AlertCursor)


def decode_cursor(text: str, kind: type[_Cursor]) -> _Cursor | None:
    """Decode a cursor; None for an empty text. Raises BadQuery if the text is not a cursor."""
    if not text:
        return None
    try:
        # Without validate, characters outside base64 would be skipped, and many texts would decode
        # to one cursor.
        padding = "=" * (-len(text) % 4)
        content = base64.b64decode(text + padding, b"-_", validate=True)
        return msgspec.json.decode(content, type=kind)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise wrong_cursor_error() from error


def wrong_cursor_error() -> BadQuery:
    """The error for a cursor that does not belong to the query."""
    return BadQuery(
        "after",
        "after: no cursor of this question;"
        " take the whole address from `next`, or leave `after` out to begin",
    )


def page_address(
    path: str, parameters: Iterable[tuple[str, str]], cursor: AnyCursor | None = None
) -> str:
    """The path and query of the page that begins at the cursor, or at the start without one."""
    query = [(name, value) for name, value in parameters if name != "after"]
    if cursor:
        text = base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()
        # The base64 padding is dropped, because an address would have to escape it.
        query.append(("after", text.rstrip("=")))
    return f"{path}?{urlencode(query)}"


def next_address(request: Request, cursor: AnyCursor | None) -> str | None:
    """The address of the page that begins at the cursor; None without one: this is the last."""
    if cursor is None:
        return None
    return page_address(request.url.path, request.query_params.multi_items(), cursor)


def last_entry(after: str) -> str:
    """The last entry before the page of a list; "" for its first page. Raises BadQuery."""
    last = decode_cursor(after, EntryCursor)
    return last.entry if last else ""


def cut_list(
    keys: Iterable[str], query: PageQuery, request: Request
) -> tuple[list[str], str | None]:
    """The keys of one page, ascending, and the address of the next page. Raises BadQuery."""
    # Pages are cut by key instead of by count, so that an entry added since the last page does not
    # shift the others.
    last = last_entry(query.after)
    remaining = sorted(key for key in keys if key > last)
    page = remaining[: query.limit]
    end = EntryCursor(page[-1]) if len(remaining) > len(page) else None
    return page, next_address(request, end)

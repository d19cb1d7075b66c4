"""Cursors: where the next page begins, as an opaque text that only this API writes and reads."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec
from fastapi import Request

from tally.errors import BadQuery
from web.api.requests.shared import PageQuery


class MetricCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of the previous pages of a metric's answer, and their generation by family.

    The pages held everything up to `until`, the end of a slot (seconds since 1970), of `store`.
    """

    store: Annotated[str, msgspec.Meta(max_length=64)]
    until: Annotated[int, msgspec.Meta(ge=0, le=10**10)]
    # Kept because pages of different generations would mix two answers into one.
    generations: Mapping[str, int]

    @property
    def instant(self) -> datetime:
        """The end of the last slot, UTC."""
        return datetime.fromtimestamp(self.until, UTC)


class EntryCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last entry of a list on the previous page."""

    entry: Annotated[str, msgspec.Meta(max_length=64)]


class AlertCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last alert on the previous page: when it was raised, and its id.

    `raised` is in milliseconds since 1970 (UTC).
    """

    raised: Annotated[int, msgspec.Meta(ge=0, le=10**13)]
    alert: Annotated[str, msgspec.Meta(max_length=64)]


AnyCursor: TypeAlias = MetricCursor | EntryCursor | AlertCursor
_Cursor = TypeVar("_Cursor", MetricCursor, EntryCursor, AlertCursor)


def encode(cursor: AnyCursor) -> str:
    """The cursor as text for an address."""
    # The base64 padding is dropped, because an address would have to escape it.
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def decode(text: str, kind: type[_Cursor]) -> _Cursor | None:
    """Decode a cursor; None for an empty text. Raises BadQuery if the text is not a cursor."""
    if not text:
        return None
    try:
        return msgspec.json.decode(
            # Without validate, characters outside base64 would be skipped, and many texts would
            # decode to one cursor.
            base64.b64decode(
                text + "=" * (-len(text) % 4),
                altchars=b"-_",
                validate=True,
            ),
            type=kind,
        )
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise wrong_cursor_error() from error


def wrong_cursor_error() -> BadQuery:
    """The error for a cursor that does not belong to the query."""
    return BadQuery(
        "after",
        "after: no cursor of this question;"
        " take the whole address from `next`, or leave `after` out to begin",
    )


def address(
    path: str,
    parameters: Sequence[tuple[str, str]],
    cursor: AnyCursor | None,
) -> str:
    """The path and query of the page that begins at the cursor, or at the start without one.

    The other parameters are unchanged.
    """
    others = [(name, value) for name, value in parameters if name != "after"]
    return f"{path}?{urlencode([*others, *([('after', encode(cursor))] if cursor else [])])}"


def next_address(request: Request, cursor: AnyCursor | None) -> str | None:
    """The address of the page that begins at the cursor; None without one: this is the last."""
    if cursor is None:
        return None
    return address(request.url.path, request.query_params.multi_items(), cursor)


def last_entry(after: str) -> str:
    """The last entry before the page of a list; "" for its first page. Raises BadQuery."""
    last = decode(after, EntryCursor)
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
    has_more = len(remaining) > len(page)
    return page, next_address(request, EntryCursor(page[-1]) if has_more else None)

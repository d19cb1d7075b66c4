"""Where the next page begins, as an opaque text that only this API makes and reads."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from tally.errors import BadQuery


class PagePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the pages before held, and of which generation by family.

    They held all up to a store and the end of a stretch (seconds since 1970).
    """

    store: Annotated[str, msgspec.Meta(max_length=64)]
    until: Annotated[int, msgspec.Meta(ge=0, le=10**10)]
    # A page of another generation than those before it would make one answer of two.
    generations: Mapping[str, int]

    @property
    def instant(self) -> datetime:
        """The end of the last stretch."""
        return datetime.fromtimestamp(self.until, UTC)


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last entry of a list that the page before held."""

    entry: Annotated[str, msgspec.Meta(max_length=64)]


class AlertEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Up to which alert the pages before went: when it was raised, and its id.

    Milliseconds since 1970 (UTC).
    """

    raised: Annotated[int, msgspec.Meta(ge=0, le=10**13)]
    alert: Annotated[str, msgspec.Meta(max_length=64)]


AnyCursor: TypeAlias = PagePlace | Entry | AlertEntry
_Cursor = TypeVar("_Cursor", PagePlace, Entry, AlertEntry)


def text_of(cursor: AnyCursor) -> str:
    """The cursor as text."""
    # Without padding, whose signs an address would have to escape.
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def cursor_of(text: str, kind: type[_Cursor]) -> _Cursor | None:
    """The cursor of a text, None of the empty one. Raises BadQuery for a text that is none."""
    if not text:
        return None
    try:
        return msgspec.json.decode(
            # validate: else what is no sign of base64 is passed over, and many texts are one
            # cursor.
            base64.b64decode(
                text + "=" * (-len(text) % 4),
                altchars=b"-_",
                validate=True,
            ),
            type=kind,
        )
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise not_of_this() from error


def not_of_this() -> BadQuery:
    """What is said of a cursor that does not belong to the question."""
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
    """Path and query of the page that begins at the cursor, at the start without one.

    The other parameters stay as they are.
    """
    kept = [(name, value) for name, value in parameters if name != "after"]
    return f"{path}?{urlencode([*kept, *([('after', text_of(cursor))] if cursor else [])])}"

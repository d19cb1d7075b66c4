"""HTTP questions to the API, one window at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from ops.audit.read.master import WindowKey
from tally.errors import ApiError, StackError, TallyError
from tally.time.instants import format_utc
from tally.time.windows import WINDOW
from web.client import ApiClient

# Concurrent questions.
READERS = 4
# The API returns at most this many rows in one answer.
_MAX_ROWS = "10000"
_SECONDS = 30

ApiRow: TypeAlias = dict[str, Any]
# A question as query_parameters() returns it, and the function that answers it with the rows of a
# metric by the dimensions.
QueryParameters: TypeAlias = Mapping[str, str]
FetchRows: TypeAlias = Callable[[str, QueryParameters, Sequence[str]], Iterable[ApiRow]]


def query_parameters(key: WindowKey) -> dict[str, str]:
    """The query parameters that ask the API for one window."""
    store, start = key
    span = {"from": format_utc(start), "to": format_utc(start + WINDOW)}
    return {"store": store, **span, "grain": "15m"}


@contextmanager
def open_client(api: str) -> Iterator[Callable[..., list[ApiRow]]]:
    """Yield a function: ask(metric, query_parameters(key), dimensions) is all rows of the API.

    It raises TallyError when the API refuses, StackError when the API does not answer.
    """
    with ApiClient(api, "audit", _SECONDS) as client:
        yield partial(_rows, client)


def _rows(
    client: ApiClient, metric: str, parameters: QueryParameters, by: Sequence[str]
) -> list[ApiRow]:
    more = {"by": ",".join(by), "limit": _MAX_ROWS} if by else {}
    pages = client.pages(f"/v1/metrics/{metric}", {**parameters, **more})
    try:
        return [*chain.from_iterable(page["rows"] for page in pages)]
    except ApiError as error:
        if error.status is None:
            raise StackError(f"{error}; --http 0 leaves it out") from error
        raise TallyError(f"audit: {error.url} answered {error.status}: {error.reason}") from error

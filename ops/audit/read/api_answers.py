"""HTTP questions to the API, one window at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import httpx

from ops.audit.read.master import WindowKey
from tally.errors import StackError, TallyError
from tally.time.instants import format_utc
from tally.time.windows import WINDOW

# Concurrent questions.
READERS = 4
# The API returns at most this many rows in one answer.
_MAX_ROWS = "10000"
_SECONDS = 30


def query_parameters(key: WindowKey) -> dict[str, str]:
    """The query parameters that ask the API for one window."""
    store, start = key
    return {
        "store": store,
        "from": format_utc(start),
        "to": format_utc(start + WINDOW),
        "grain": "15m",
    }


ApiRow: TypeAlias = dict[str, Any]
# A question as query_parameters() returns it, and the function that answers it with the rows of a
# metric by the dimensions.
QueryParameters: TypeAlias = Mapping[str, str]
FetchRows: TypeAlias = Callable[[str, QueryParameters, Sequence[str]], Iterable[ApiRow]]


@contextmanager
def open_client(api: str) -> Iterator[Callable[..., list[ApiRow]]]:
    """Yield a function that asks the API: ask(metric, question_of(key), dimensions) is all rows.

    It raises TallyError when the status is not 200, StackError when the API does not answer.
    """
    with httpx.Client(base_url=f"http://{api}", timeout=_SECONDS) as client:
        yield partial(_rows, client)


def _rows(
    client: httpx.Client, metric: str, asked: Mapping[str, str], by: Sequence[str]
) -> list[ApiRow]:
    more = {"by": ",".join(by), "limit": _MAX_ROWS} if by else {}
    page, parameters = f"/v1/metrics/{metric}", {**asked, **more}
    rows: list[ApiRow] = []
    while page:
        answer = _answer(client, page, parameters)
        rows += answer["rows"]
        # The address of the next page includes all parameters of the question.
        page, parameters = answer.get("next"), {}
    return rows


def _answer(client: httpx.Client, path: str, parameters: Mapping[str, str]) -> Any:
    try:
        answer = client.get(path, params=parameters or None)
    except httpx.TransportError as error:
        raise StackError(
            f"audit: the API at {client.base_url} does not answer ({error!r});"
            " `tally up api` starts it, --http 0 leaves it out"
        ) from error
    if answer.status_code != httpx.codes.OK:
        raise TallyError(
            f"audit: {answer.request.url} answered {answer.status_code}: {answer.text[:200]}"
        )
    return answer.json()

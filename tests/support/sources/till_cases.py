"""The cases of till_cases.yaml, of tills and of people counters, as bodies and as questions: each
case in a store of its own."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tally.time.instants import format_utc

CASES = yaml.safe_load(Path(__file__).with_name("till_cases.yaml").read_text("utf-8"))
_NAMESPACES = (
    'xmlns="http://www.nrf-arts.org/IXRetail/namespace/" xmlns:acs="urn:acs"'
    ' xmlns:VRExt="urn:vrext"'
)
# Minutes, and seconds behind them.
_PLACE = re.compile(r"<(date|clock )?(\d\d)?(?:\+(\d+))?>")


class Body(NamedTuple):
    """What is posted where, and how many events it has."""

    path: str
    media_type: str
    text: str
    events: int


class Question(NamedTuple):
    """A metric of a store from one instant to another; its rows are summed, unless by article."""

    store: str
    metric: str
    start: str
    end: str


def store_entries() -> dict[str, dict[str, Any]]:
    """What a stores file has to say of the stores of the cases."""
    return {store_of(number): case["store"] for number, case in enumerate(CASES) if "store" in case}


def store_of(number: int) -> str:
    return f"till-case-{number}"


def bodies(number: int, anchor: datetime) -> Iterator[Body]:
    """What the till of a case sends in the hour that begins at the anchor."""
    for step in CASES[number]["send"]:
        ((form, said),) = step.items()
        yield _FORMS[form](said, store_of(number), anchor)


def questions(number: int, anchor: datetime, layer: str) -> dict[Question, Any]:
    """The right numbers of a case; of the speed layer what it says until a rebuild: None for
    windows that are older than what it keeps."""
    case = CASES[number]
    instead = case.get("before") if layer == "speed" else None
    found = {}
    told = case["numbers"] if instead in (None, "missing") else instead
    for metric, span, value in told:
        start, end = (_instant(one, anchor) for one in span)
        asked = Question(store_of(number), metric, start, end)
        found[asked] = None if instead == "missing" else value
    return found


def _instant(said: int | str, anchor: datetime) -> str:
    return said if isinstance(said, str) else format_utc(anchor + timedelta(minutes=said))


def _filled(text: str, anchor: datetime) -> str:
    """The text with its instants."""

    def fill(place: re.Match[str]) -> str:
        since = timedelta(minutes=int(place[2] or 0), seconds=int(place[3] or 0))
        at = format_utc(anchor + since)
        parts = {"date": at[:10], "clock ": at[11:19]}
        return parts.get(place[1] or "", at)

    return _PLACE.sub(fill, text)


def _message(said: Mapping[str, Any], store: str, anchor: datetime) -> str:
    till = {"operation_id": store, "vendor_fiscal_module": 1}
    return _filled(json.dumps({**till, **said}), anchor)


def _json(said: Mapping[str, Any], store: str, anchor: datetime) -> Body:
    return Body("/v1/events/pos", "application/json", _message(said, store, anchor), 1)


def _ndjson(said: list[Mapping[str, Any]], store: str, anchor: datetime) -> Body:
    text = "\n".join(_message(one, store, anchor) for one in said)
    return Body("/v1/events/pos", "application/x-ndjson", text, len(said))


def _traffic(said: list[Mapping[str, Any]], store: str, anchor: datetime) -> Body:
    counter = {"store_id": store, "device_id": "door-1"}
    text = "\n".join(_filled(json.dumps({**counter, **one}), anchor) for one in said)
    return Body("/v1/events/traffic", "application/x-ndjson", text, len(said))


def _document(said: Mapping[str, Any], store: str, anchor: datetime) -> Body:
    text = _filled(json.dumps({"store_id": store, **said}), anchor)
    path = "/v1/events/inventory/document"
    return Body(path, "application/json", text, len(said["lines"]))


def _poslog(said: list[Mapping[str, Any]], store: str, anchor: datetime) -> Body:
    receipts = "".join(_transaction(one, store, anchor) for one in said)
    text = f"<POSLog {_NAMESPACES}>{receipts}</POSLog>"
    return Body("/v1/events/pos/poslog", "application/xml", text, len(said))


def _transaction(said: Mapping[str, Any], store: str, anchor: datetime) -> str:
    ends = said.get("ends") or _instant(said["minute"], anchor)
    return (
        f"<Transaction><BusinessUnit><UnitID>{store}</UnitID></BusinessUnit>"
        f"<WorkstationID>1</WorkstationID><SequenceNumber>{said['number']}</SequenceNumber>"
        f"{said.get('head', '')}<EndDateTime>{ends}</EndDateTime>"
        f"<CurrencyCode>EUR</CurrencyCode>"
        f'<RetailTransaction TransactionStatus="{said.get("status", "Finished")}">'
        f"{said['retail']}</RetailTransaction></Transaction>"
    )


_FORMS: Mapping[str, Callable[[Any, str, datetime], Body]] = {
    "json": _json,
    "ndjson": _ndjson,
    "document": _document,
    "traffic": _traffic,
    "poslog": _poslog,
}

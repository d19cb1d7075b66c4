"""Computes what a body would count as if it were sent, line by line. Nothing is sent."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.gateway.submission import Endpoint, endpoints
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales.record import CanonicalReceipt, sum_receipt_parts, sum_void_parts
from runtime.registry.sources import FAMILIES
from tally.errors import RejectedEvent, TallyError
from tally.events.identity import CanonicalEvent
from tally.events.receipt_rules import LineFacts, ReceiptKind

_PREFIX = "/v1/events/"
# The default form by a file's ending: receipts as most tills send them.
_DEFAULT_FORMS = {".xml": "pos/poslog"}
_NDJSON = (".ndjson", ".jsonl")


@dataclass(frozen=True)
class CheckedMessage:
    """A message of a body, numbered from 1.

    `adds` has what it adds to its window by part of its view family (minor units of `currency`,
    thousandths, or counts), `lines` the same for each line of a receipt. A refused message has
    `reason`, `at` (JSON pointer) and `message`; a part that is no event at all has `skipped`.
    """

    number: int
    event_id: str | None = None
    store_id: str | None = None
    happened_at: str | None = None
    currency: str | None = None
    rule: str | None = None
    adds: Mapping[str, int] = field(default_factory=dict)
    lines: tuple[Mapping[str, Any], ...] = ()
    reason: str | None = None
    at: str | None = None
    message: str | None = None
    skipped: str | None = None

    @classmethod
    def from_error(cls, number: int, error: RejectedEvent) -> Self:
        """A message that breaks its contract."""
        return cls(number, reason=error.reason, at=error.field, message=str(error))

    @classmethod
    def from_event(cls, number: int, event: CanonicalEvent) -> Self:
        """A message that becomes this event."""
        values = msgspec.to_builtins(event)
        parts = {name for family in FAMILIES.values() for name in family.part_names}
        numbers = {name: values[name] for name in values if type(values[name]) is int}
        return cls(
            number,
            event_id=event.event_id,
            store_id=event.store_id,
            happened_at=event.happened_at,
            currency=values.get("currency"),
            rule=values.get("rule"),
            adds={name: numbers[name] for name in numbers if name in parts and numbers[name]},
            lines=tuple(_lines(event)) if isinstance(event, CanonicalReceipt) else (),
        )


def check_file(file: Path, form: str | None, rules: Rules) -> Iterator[CheckedMessage]:
    """Check each message of a file as the gateway and the normaliser would take it now.

    `form` is the path behind /v1/events/; the default is that of receipts, for .xml that of POSLog.
    Raises TallyError for an unknown form, RejectedEvent for a body that does not follow the form.
    """
    endpoint = _find_endpoint(form or _DEFAULT_FORMS.get(file.suffix.lower(), "pos"))
    now = datetime.now(UTC)
    body = VendorBody(file.read_bytes(), now, rules)
    for number, message in endpoint.lines(body, file.suffix.lower() in _NDJSON):
        if isinstance(message, SkippedPart):
            yield CheckedMessage(number, skipped=message.reason)
            continue
        try:
            event = endpoint.check(message, Arrival(now, 0, 0), rules)
        except RejectedEvent as error:
            yield CheckedMessage.from_error(number, error)
        else:
            yield CheckedMessage.from_event(number, event)


def sum_parts(messages: Sequence[CheckedMessage]) -> dict[str, int]:
    """What all messages add together, by part in its unit; duplicates of an event count once."""
    first = {message.event_id: message for message in reversed(messages) if message.event_id}
    totals: Counter[str] = Counter()
    for message in first.values():
        totals.update(message.adds)
    return dict(totals)


def _find_endpoint(form: str) -> Endpoint:
    known = {endpoint.path.removeprefix(_PREFIX): endpoint for endpoint in endpoints()}
    if form not in known:
        raise TallyError(f"no form {form!r}; there are {', '.join(sorted(known))}")
    return known[form]


def _lines(receipt: CanonicalReceipt) -> Iterator[Mapping[str, Any]]:
    """Each line and what it adds by itself; nothing if a rule leaves the receipt out."""
    takes_back = receipt.kind == "void" and receipt.voids is not None
    for line in receipt.lines:
        facts = LineFacts(line.line_type, line.cancelled, line.amount_milli, line.total_minor)
        kind = cast(ReceiptKind, receipt.kind)
        sums = sum_void_parts([facts]) if takes_back else sum_receipt_parts(kind, [facts])
        # The counts of receipts depend on all lines together, so a single line has none.
        shown_parts = [] if receipt.rule else [name for name in sums if "receipts" not in name]
        yield {
            "item": line.item,
            "amount_milli": line.amount_milli,
            "total_minor": line.total_minor,
            "adds": {name: sums[name] for name in shown_parts if sums[name]},
        }

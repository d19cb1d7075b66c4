"""`python -m ingest.check`, the process behind `tally check`: what a body would count as."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self, cast

import msgspec
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.gateway.submission import endpoints
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales.record import CanonicalReceipt, sum_receipt_parts, sum_void_parts
from runtime.process.job import run_command
from runtime.process.output import print_json
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import RejectedEvent, TallyError
from tally.events.identity import CanonicalEvent
from tally.events.receipt_rules import LineFacts, ReceiptKind

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


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


@app.command("check")
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="a body to be sent")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", help="its path behind /v1/events/; by default receipts, of .xml POSLog"
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """What FILE would count as, message by message and line by line; nothing is sent.

    The stores file and the settings of the gateway hold here too. Ends with 1 if anything would be
    refused.

    \f
    Raises TallyError for a form that there is not; Exit with the code.
    """
    try:
        messages = [*_check_file(file, form, Rules.from_settings(Settings.load()))]
    except RejectedEvent as error:
        # Nothing of the body can be read.
        messages = [CheckedMessage.from_error(1, error)]
    if as_json:
        print_json({"messages": [*map(_to_json, messages)], "adds": _sum_parts(messages)})
    else:
        _print_table(messages)
    if any(message.reason for message in messages):
        raise typer.Exit(1)


def _check_file(file: Path, form: str, rules: Rules) -> Iterator[CheckedMessage]:
    """Check each message of a file as the gateway and the normaliser would take it now."""
    # By default receipts, which most tills send as POSLog where they send XML.
    form = form or ("pos/poslog" if file.suffix.lower() == ".xml" else "pos")
    known = {endpoint.path.removeprefix("/v1/events/"): endpoint for endpoint in endpoints()}
    if form not in known:
        raise TallyError(f"no form {form!r}; there are {', '.join(sorted(known))}")
    endpoint = known[form]
    now = datetime.now(UTC)
    body = VendorBody(file.read_bytes(), now, rules)
    is_ndjson = file.suffix.lower() in (".ndjson", ".jsonl")
    for number, message in endpoint.lines(body, is_ndjson):
        if isinstance(message, SkippedPart):
            yield CheckedMessage(number, skipped=message.reason)
            continue
        try:
            event = endpoint.check(message, Arrival(now, 0, 0), rules)
        except RejectedEvent as error:
            yield CheckedMessage.from_error(number, error)
        else:
            yield CheckedMessage.from_event(number, event)


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


def _sum_parts(messages: Sequence[CheckedMessage]) -> dict[str, int]:
    """What all messages add together, by part in its unit; duplicates of an event count once."""
    first = {message.event_id: message.adds for message in reversed(messages) if message.event_id}
    totals: Counter[str] = Counter()
    for adds in first.values():
        totals.update(adds)
    return dict(totals)


def _to_json(message: CheckedMessage) -> dict[str, object]:
    fields = asdict(message).items()
    return {name: value for name, value in fields if value not in (None, {}, ())}


def _print_table(messages: Sequence[CheckedMessage]) -> None:
    columns = Column("", justify="right"), "event or line", "amount", "total", "adds"
    table = Table(*columns)
    for message in messages:
        # Text, not markup: the content comes from an unknown sender.
        head = Text(message.event_id or message.skipped or message.message or "")
        table.add_row(str(message.number), head, "", "", Text(_describe_result(message)))
        for line in message.lines:
            amount = f"{line['amount_milli'] / 1000:g}"
            item, adds = Text(f"  {line['item']}"), Text(_as_text(line["adds"]))
            table.add_row("", item, amount, str(line["total_minor"]), adds)
    Console().print(table)
    refused = sum(message.reason is not None for message in messages)
    counted = sum(message.event_id is not None for message in messages)
    together = _as_text(_sum_parts(messages))
    print(f"{counted:,} would be taken, {refused:,} refused; together: {together}")


def _describe_result(message: CheckedMessage) -> str:
    if message.skipped:
        return "no event"
    return message.reason or message.rule or _as_text(message.adds)


def _as_text(adds: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in adds.items()) or "nothing"


def main() -> int:
    """Exit code: 0 all would be taken, 1 something would be refused, 2 wrong use."""
    return run_command("tally", lambda: app(prog_name="tally check"))


if __name__ == "__main__":
    sys.exit(main())

"""The whole audit: its parts, its verdict, and how it is shown to a person and to a machine."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from ops.audit.ledgers import Ledgers, read_ledgers
from ops.audit.oracle import Comparison, compare_http, compare_rows
from ops.audit.served import merged_windows
from ops.oracle.complete_journey import Scope, window_totals
from tally.connect import cassandra_session
from tally.settings import Settings

_SHOWN = 20


@dataclass(frozen=True)
class Wanted:
    """What to audit: the scope of the oracle, how many windows to ask by HTTP with which seed, and which halves."""

    scope: Scope
    http: int
    seed: int
    ledger: bool
    oracle: bool


@dataclass(frozen=True)
class Audit:
    """The findings; a half that was not asked for is None."""

    ledgers: Ledgers | None
    rows: Comparison | None
    http: Comparison | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether each half that was asked for holds."""
        return all(part.ok for part in (self.ledgers, self.rows, self.http) if part is not None)


def run_audit(settings: Settings, wanted: Wanted, say: Callable[[str], None]) -> Audit:
    """Audit what is served now; `say` gets one line before each step that takes seconds."""
    started = time.monotonic()
    ledgers = rows = http = None
    with cassandra_session(settings) as session:
        if wanted.ledger:
            say("audit: reading every committed record of Kafka and the master dataset")
            ledgers = read_ledgers(settings, session)
        if wanted.oracle:
            say("audit: comparing every served window with the oracle")
            expected = window_totals(wanted.scope)
            rows = compare_rows(expected, merged_windows(session, wanted.scope))
            if wanted.http:
                say(f"audit: asking the API for {wanted.http:,} random windows")
                http = compare_http(settings.api, expected, wanted.http, wanted.seed)
    return Audit(ledgers, rows, http, round(time.monotonic() - started, 1))


def as_json(audit: Audit) -> dict[str, Any]:
    """The audit in the shape of `--json`, with the HTTP comparison beside the oracle's."""
    answer: dict[str, Any] = {"ok": audit.ok, "ledgers": [], "oracle": None, "http": None, "seconds": audit.seconds}
    if audit.ledgers is not None:
        beside = asdict(audit.ledgers)
        answer["ledgers"] = [*beside["raw"], *beside["canonical"]]
        answer["beside"] = {name: beside[name] for name in ("dead_letters", "events", "windows", "late_pending", "unserved")}
    for name, comparison in (("oracle", audit.rows), ("http", audit.http)):
        answer[name] = asdict(comparison) if comparison is not None else None
    return answer


def show(audit: Audit, console: Console) -> None:
    """Print the ledgers, the comparisons with how many cells they compared, and the verdict."""
    if audit.ledgers is not None:
        _show_ledgers(audit.ledgers, console)
    for name, comparison in (("merge over all rows", audit.rows), ("random windows by HTTP", audit.http)):
        if comparison is not None:
            _show_comparison(name, comparison, console)
    console.print(f"audit {'holds' if audit.ok else 'FAILED'} after {audit.seconds} s")


def _show_ledgers(ledgers: Ledgers, console: Console) -> None:
    names = ("raw topic", "partition", "committed", "canonical", "dead letters", "difference")
    raw = Table(*names, title="committed = canonical + dead letters")
    for line in ledgers.raw:
        raw.add_row(line.topic, *_numbers(line.partition, line.committed, line.canonical, line.dead_letter, line.difference))
    console.print(raw)
    fates_of = ("topic", "partition", "committed", "master", "counted", "duplicate", "conflict", "erased", "difference")
    canonical = Table(*fates_of, title="committed = counted + duplicate + conflict + erased; master = committed")
    for entry in ledgers.canonical:
        fates = (entry.counted, entry.duplicate, entry.conflict, entry.erased, entry.difference)
        canonical.add_row(entry.topic, *_numbers(entry.partition, entry.committed, entry.master, *fates))
    console.print(canonical)
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in ledgers.dead_letters.items()) or "none"
    console.print(f"dead letters: {sum(ledgers.dead_letters.values()):,} ({reasons})")
    console.print(
        f"late_pending: {ledgers.late_pending:,} of {ledgers.events:,} events in {ledgers.windows:,} windows are not in the speed rows; "
        f"unserved: {ledgers.unserved:,}"
    )


def _numbers(*values: int) -> list[str]:
    return [f"{value:,}" for value in values]


def _show_comparison(name: str, comparison: Comparison, console: Console) -> None:
    console.print(
        f"oracle, {name}: {comparison.equal:,} of {comparison.windows:,} windows equal; "
        f"{comparison.receipts:,} receipts, {comparison.minor:,} cents"
    )
    for difference in comparison.differences[:_SHOWN]:
        where = f"store {difference.store} {difference.start} {difference.metric}"
        console.print(f"  {where}: expected {difference.expected}, got {difference.got}")
    if len(comparison.differences) > _SHOWN:
        console.print(f"  … and {len(comparison.differences) - _SHOWN:,} more")

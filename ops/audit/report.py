"""The whole audit: its parts, its verdict, and its output as text and as JSON."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cassandra.cluster import Session
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.audit.against_master import FamilyComparison, compare_with_master, compute_expected_values
from ops.audit.by_catalogue import ApiComparison, AuditedFamily, StoreDayStarts, compare_answers
from ops.audit.ledgers import Ledgers, read_ledgers
from ops.audit.master import Master
from ops.audit.oracle import Comparison, Sample, compare_http, compare_rows, open_client
from ops.audit.served import merge_windows, read_claims
from ops.oracle import Scope, window_totals
from runtime.connect import cassandra_session
from runtime.registry.sources import FAMILIES, SALES
from runtime.registry.stores import load_families, load_stores
from tally.algebra.parts import Value
from tally.config.settings import Settings
from tally.events.identity import describe_conflicts
from tally.events.ledger import CanonicalLedger, RawLedger
from tally.time.instants import format_utc

# How many differences are shown per comparison, and how many values of a list from where it
# begins to differ; --json has them all.
_SHOWN, _VALUES = 20, 3


@dataclass(frozen=True)
class AuditRequest:
    """What to audit: the scope, the checks, and the reference to compare with.

    `http` is the number of windows to ask by HTTP, `seed` draws them: a sample that found a
    difference can be drawn again.
    """

    scope: Scope
    http: int
    seed: int
    ledger: bool
    oracle: bool
    against_master: bool = False


@dataclass(frozen=True)
class Audit:
    """The findings; a check that was not requested is None."""

    ledgers: Ledgers | None
    rows: Comparison | None
    http: Comparison | ApiComparison | None
    seconds: float
    families: Mapping[str, FamilyComparison] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether each requested check holds, and compared something."""
        # A family without any records has no windows, which is not a failure.
        families = [family for family in self.families.values() if family.windows]
        parts = (self.ledgers, self.rows, self.http, *families)
        return not self.is_empty and all(part.ok for part in parts if part is not None)

    @property
    def is_empty(self) -> bool:
        """Whether families were to be compared and none of them has a window in the scope."""
        return bool(self.families) and not any(family.windows for family in self.families.values())


def run_audit(settings: Settings, request: AuditRequest, say: Callable[[str], None]) -> Audit:
    """Audit what is served now; `say` gets one line before each step that takes seconds."""
    started = time.monotonic()
    ledgers = rows = None
    http: Comparison | ApiComparison | None = None
    families: Mapping[str, FamilyComparison] = {}
    with cassandra_session(settings) as session:
        if request.ledger:
            say("audit: reading every committed record of Kafka and the master dataset")
            ledgers = read_ledgers(settings, session)
        # The oracle knows only the receipts of the package: any other data would be a
        # difference.
        if request.against_master:
            families, http = _compare_with_master(settings, session, request, say)
        elif request.oracle:
            rows, http = _compare_with_oracle(settings, session, request, say)
    return Audit(ledgers, rows, http, round(time.monotonic() - started, 1), families)


def _compare_with_oracle(
    settings: Settings, session: Session, request: AuditRequest, say: Callable[[str], None]
) -> tuple[Comparison, Comparison | None]:
    say("audit: comparing every served window with the oracle")
    expected = window_totals(request.scope)
    rows = compare_rows(expected, merge_windows(session, request.scope, SALES))
    if not request.http:
        return rows, None
    say(f"audit: asking the API for {request.http:,} random windows")
    sample = Sample(request.http, request.seed)
    return rows, compare_http(settings.api, expected, sample, read_claims(session, SALES))


def _compare_with_master(
    settings: Settings, session: Session, request: AuditRequest, say: Callable[[str], None]
) -> tuple[dict[str, FamilyComparison], ApiComparison | None]:
    say("audit: comparing every served window with the master dataset")
    families = load_families(settings)
    expected = compute_expected_values(Master(settings), families, request.scope)
    compared = compare_with_master(session, expected, request.scope)
    if not request.http:
        return compared, None
    say(f"audit: asking the API for {request.http:,} random windows")
    stores = load_stores(settings.stores_file)
    days = StoreDayStarts(settings.default_timezone, stores, request.scope)
    sampled = [
        AuditedFamily(family, expected[name], read_claims(session, family), days)
        for name, family in FAMILIES.items()
    ]
    with open_client(settings.api) as ask:
        return compared, compare_answers(ask, sampled, Sample(request.http, request.seed))


def as_json(audit: Audit) -> dict[str, Any]:
    """The audit as a dictionary in the shape of `--json`."""
    answer: dict[str, Any] = {"ok": audit.ok, "ledgers": []}
    answer |= {"oracle": None, "http": None, "seconds": audit.seconds}
    if audit.ledgers is not None:
        beside = asdict(audit.ledgers)
        answer["ledgers"] = [*beside.pop("raw"), *beside.pop("canonical")]
        beside["gaps"] = [gap.to_fields(format_utc) for gap in audit.ledgers.gaps]
        answer["beside"] = beside
    for name, comparison in (("oracle", audit.rows), ("http", audit.http)):
        answer[name] = asdict(comparison) if comparison is not None else None
    masters = {family: asdict(comparison) for family, comparison in audit.families.items()}
    answer["master"] = masters or None
    return answer


def show(audit: Audit, console: Console) -> None:
    """Print the ledgers, the comparisons with the number of cells compared, and the verdict."""
    if audit.ledgers is not None:
        _show_ledgers(audit.ledgers, console)
    if audit.rows is not None:
        _show_comparison("oracle, merge over all rows", audit.rows, _sums(audit.rows), console)
    for family, compared in audit.families.items():
        totals = (f"{part} {total:,}" for part, total in compared.totals.items())
        _show_comparison(f"master, {family}", compared, ", ".join(totals), console)
    if audit.http is not None:
        against = "oracle" if isinstance(audit.http, Comparison) else "master"
        name = f"{against}, random windows by HTTP"
        _show_comparison(name, audit.http, _sums(audit.http), console)
    if audit.is_empty:
        console.print("master: no window of any family in this scope; widen --days or --store")
    console.print(f"audit {'holds' if audit.ok else 'FAILED'} after {audit.seconds} s")


def format_difference(expected: Value, got: Value) -> tuple[str, str]:
    """Both values as text; lists are shown by their length and where they begin to differ."""
    if not isinstance(expected, list) or not isinstance(got, list):
        return str(expected), str(got)
    pairs = enumerate(zip(expected, got, strict=False))
    # If one list is a prefix of the other, they differ where the shorter one ends.
    end = min(len(expected), len(got))
    place = next((at for at, (left, right) in pairs if left != right), end)
    return _list_text(expected, place), _list_text(got, place)


def _list_text(values: list[Any], place: int) -> str:
    shown = [*map(str, values[place : place + _VALUES])]
    more = ["…"] if len(values) > place + _VALUES else []
    part = f", from number {place} [{', '.join(shown + more)}]" if shown else ""
    return f"{len(values):,} values{part}"


def _show_ledgers(ledgers: Ledgers, console: Console) -> None:
    counted = ("partition", "committed", "canonical", "dead_letter", "difference", "splits")
    heads = ("raw topic", *counted[:3], "dead letters", "difference", "further splits")
    table = Table(*heads, title="committed = canonical + dead letters")
    console.print(_add_lines(table, ledgers.raw, counted))
    fates = ("counted", "duplicate", "conflict", "erased", "unreadable")
    columns = ("partition", "committed", "master", *fates, "difference")
    table = Table("topic", *columns, title=f"committed = {' + '.join(fates)}; master = committed")
    console.print(_add_lines(table, ledgers.canonical, columns))
    by_reason = (f"{reason} {count:,}" for reason, count in ledgers.dead_letters.items())
    reasons = ", ".join(by_reason) or "none"
    console.print(f"dead letters: {sum(ledgers.dead_letters.values()):,} ({reasons})")
    console.print(
        f"late_pending: {ledgers.late_pending:,} of {ledgers.events:,} events in"
        f" {ledgers.windows:,} windows are not in the speed rows; unserved: {ledgers.unserved:,}"
        " differences between published generations and the master"
    )
    by_rule = ", ".join(f"{rule} {count:,}" for rule, count in ledgers.left_out.items()) or "none"
    console.print(
        f"left out by a rule: {sum(ledgers.left_out.values()):,} ({by_rule}); voids that wait for"
        f" their receipt: {ledgers.waiting:,}"
    )
    for gap in ledgers.gaps:
        span = f"offsets {gap.from_offset:,} to {gap.until_offset:,}"
        first, last = format_utc(gap.first_arrival), format_utc(gap.last_arrival)
        arrived = f"arrived {first} to {last}"
        console.print(f"gap: {gap.topic} partition {gap.partition} {span}, {arrived}: {gap.reason}")
    for till in ledgers.tills:
        where = f"store {till.store_id} till {till.till_id} {till.day}"
        console.print(f"conflicts: {where}, {describe_conflicts(till.records, till.conflicts)}")


def _add_lines(
    table: Table, lines: Iterable[RawLedger | CanonicalLedger], columns: Iterable[str]
) -> Table:
    for line in lines:
        table.add_row(line.topic, *(f"{getattr(line, column):,}" for column in columns))
    return table


def _sums(comparison: Comparison | ApiComparison) -> str:
    if isinstance(comparison, Comparison):
        return f"{comparison.receipts:,} receipts, {comparison.minor:,} cents"
    reason = "levels left out: their day is not wholly in the scope"
    left_out = f"; {comparison.left_out:,} {reason}" if comparison.left_out else ""
    return f"{comparison.rows:,} rows of the catalogue's sums and levels{left_out}"


def _show_comparison(
    name: str,
    comparison: Comparison | FamilyComparison | ApiComparison,
    sums: str,
    console: Console,
) -> None:
    console.print(f"{name}: {comparison.equal:,} of {comparison.windows:,} windows equal; {sums}")
    for difference in comparison.differences[:_SHOWN]:
        where = f"store {difference.store} {difference.start} {difference.metric}"
        expected, got = format_difference(difference.expected, difference.got)
        console.print(Text(f"  {where}: expected {expected}, got {got}"))
    if len(comparison.differences) > _SHOWN:
        console.print(f"  … and {len(comparison.differences) - _SHOWN:,} more")

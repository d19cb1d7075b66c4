"""Sweeps of tables and folders beside the versions of batch rows (schemas/retention.yaml)."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cassandra.cluster import Session

from batch_layer.views.publish.pointer import PointerTable
from runtime.cassandra.writes import write_rows
from runtime.records.history import note_history_begin
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings


def sweep_tables(session: Session, settings: Settings, now: datetime) -> dict[str, int]:
    """Remove what is kept no longer; counts of what has gone, by table or folder.

    now: by the brokers' clock. Each sweep can be repeated at any time.
    """
    removed = {
        "till_finding": sweep_findings(session),
        "answered_span": sweep_spans(session),
        "checkpoints": sweep_checkpoints(settings, now),
    }
    if settings.history_days:
        removed |= sweep_history(session, now - timedelta(days=settings.history_days))
    return removed


def sweep_findings(session: Session) -> int:
    """Remove findings that no record shows any more and nobody has accepted."""
    text = (
        "SELECT family, day, store_id, till_id, conflicts, accepted, generation FROM till_finding"
    )
    gone = [
        # At the finding's own write time: a later one is not hidden.
        (row.generation, row.family, row.day, row.store_id, row.till_id)
        for row in session.execute(text)
        if row.conflicts == 0 and row.accepted is None
    ]
    delete = (
        "DELETE FROM till_finding USING TIMESTAMP ?"
        " WHERE family = ? AND day = ? AND store_id = ? AND till_id = ?"
    )
    write_rows(session, delete, gone)
    return len(gone)


def sweep_spans(session: Session) -> int:
    """Remove the spans of generations that neither serve, nor will, nor are in the history."""
    served = {name: PointerTable(session, name).current() for name in FAMILIES}
    known = {
        (row.family, row.day.date(), row.generation)
        for row in session.execute("SELECT family, day, generation FROM batch_pointer_history")
    }
    gone = []
    for row in session.execute("SELECT store_id, family, day, generation FROM answered_span"):
        serving = served.get(row.family, {}).get(row.day.date())
        # A higher one is of a run that may be about to publish.
        is_over = serving is not None and row.generation < serving.generation
        if is_over and (row.family, row.day.date(), row.generation) not in known:
            gone.append((row.store_id, row.family, row.day, row.generation))
    delete = (
        "DELETE FROM answered_span WHERE store_id = ? AND family = ? AND day = ? AND generation = ?"
    )
    write_rows(session, delete, gone)
    return len(gone)


def sweep_checkpoints(settings: Settings, now: datetime) -> int:
    """Remove checkpoints that were set aside longer ago than `as_of` reaches back."""
    oldest = (now - timedelta(days=settings.as_of_days)).timestamp()
    folder = settings.checkpoint("views").parent
    gone = [aside for aside in folder.glob("*-before-*-*") if _set_aside_at(aside) < oldest]
    for aside in gone:
        shutil.rmtree(aside)
    return len(gone)


def _set_aside_at(folder: Path) -> float:
    """Seconds since 1970, which end the name of the folder; now for another name."""
    seconds = folder.name.rpartition("-")[2]
    return float(seconds) if seconds.isdigit() else float("inf")


def sweep_history(session: Session, begin: datetime) -> dict[str, int]:
    """Remove raw receipts and alerts of UTC days before the one of `begin`."""
    first = begin.date()
    # Before anything goes: a question about what was before is refused from now on.
    note_history_begin(session, datetime.combine(first, datetime.min.time(), begin.tzinfo))
    receipts = [
        (row.year_day, row.operation_id)
        for row in session.execute(
            "SELECT DISTINCT year_day, operation_id FROM raw_pos_transaction_byday"
        )
        if row.year_day < first.isoformat()
    ]
    delete = "DELETE FROM raw_pos_transaction_byday WHERE year_day = ? AND operation_id = ?"
    write_rows(session, delete, receipts)
    days = [
        (row.store_id, row.day)
        for row in session.execute("SELECT DISTINCT store_id, day FROM alerts_byday")
        if row.day.date() < first
    ]
    alerts = [(alert,) for day in days for alert in _read_ended_alerts(session, day)]
    # The day goes last: after a crash its alerts are found again.
    write_rows(session, "DELETE FROM alert_life WHERE alert_id = ?", alerts)
    write_rows(session, "DELETE FROM alerts_byday WHERE store_id = ? AND day = ?", days)
    return {
        "raw_pos_transaction_byday": len(receipts),
        "alerts_byday": len(days),
        "alert_life": len(alerts),
    }


def _read_ended_alerts(session: Session, day: tuple[Any, ...]) -> list[str]:
    select = session.prepare("SELECT alert_id FROM alerts_byday WHERE store_id = ? AND day = ?")
    opened = session.execute("SELECT alert_id FROM alerts_open WHERE store_id = %s", [day[0]])
    is_open = {row.alert_id for row in opened}
    raised = [row.alert_id for row in session.execute(select, day)]
    return [alert_id for alert_id in raised if alert_id not in is_open]

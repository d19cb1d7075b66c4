"""Alerts as subscribers read them: of what is to be told, and of the rows that were judged."""

from fractions import Fraction

from msgspec import structs

from serving.alerts.evaluator.facts import read_rows, value_of
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.judgements import WHOLE_STORE, DayWindow
from serving.alerts.evaluator.moment import JudgedCell
from serving.query.cells import source_of
from serving.query.formulas import StockAt
from tally.alerts.comparison import ExactValue, Usual, border
from tally.alerts.ids import window_text
from tally.alerts.judge import Transition
from tally.alerts.message import (
    Alert,
    AlertBaseline,
    AlertWindow,
    Edge,
    EpisodeSpan,
    Evidence,
    ReadRows,
)
from tally.alerts.rule import Condition, Rule
from tally.alerts.tick import Tick
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS


def alert_message(
    rule: JudgedRule, told: Transition, window: DayWindow | None, tick: Tick
) -> Alert:
    """The message of one transition; `window`: that which calls for it, as it is served now."""
    one = told.alert
    version = rule.version(one.version).rule
    # An episode goes on across versions: that of its end may be another one.
    judging = window.version.rule if window and window.version else version
    # What somebody had erased is not told once more by taking it back.
    seen = None if told.reason == "erasure" else window
    value = told_value(rule, seen, *_of(one))
    return Alert(
        alert_id=one.alert_id,
        rule_id=rule.rule_id,
        rule_version=one.version,
        store_id=one.chain.store_id,
        subject=one.chain.subject,
        metric=version.metric or version.family or "",
        window=AlertWindow(window_text(one.window), window_text(one.window + WINDOW_MILLIS)),
        state=one.state,
        value=value,
        threshold=told_threshold(judging, one.edge, usual_in(seen), value),
        baseline=_told_usual(usual_in(seen)),
        severity=version.severity,
        raised_at=window_text(one.raised_at),
        reason=told.reason,
        edge=one.edge,
        of=one.of,
        occurrence=one.occurrence,
        supersedes=one.supersedes,
        late=one.late,
        backfilled=False,
        episode=EpisodeSpan(
            window_text(one.start),
            None if one.ended is None else window_text(one.ended),
            window_text(told.judged),
        ),
        evidence=Evidence(tick.n, _rows_of(window, tick)),
    )


def number_of(value: ExactValue) -> int | float:
    """The value as JSON has it: whole where it is, else with 6 decimals.

    >>> number_of(Fraction(6, 2)), number_of(Fraction(1, 3))
    (3, 0.333333)
    """
    found = Fraction(value)
    return found.numerator if found.denominator == 1 else round(float(found), 6)


def told_value(
    rule: JudgedRule, window: DayWindow | None, subject: str = WHOLE_STORE, edge: Edge = "raise"
) -> int | float | None:
    """The window's value in the metric's unit; None of silence, and of what may not be told."""
    if window is None or window.cells is None or window.version is None:
        return None
    metrics = rule.metrics(window.version.version)
    if metrics is None or window.cells.metric.is_hidden:
        return None
    if metrics.metric.stock is not None:
        value = _shelf_value(metrics.metric.stock, (subject, edge), window.cells.metric)
    else:
        value = value_of(window.version.rule, metrics.metric, window.cells.metric.cell)
    return None if value is None else number_of(value)


def told_threshold(
    rule: Rule, edge: Edge = "raise", usual: Usual | None = None, value: float | None = None
) -> float | None:
    """What the value was compared with, in its unit; None where that is no number."""
    # Without a `clear` of its own the rule ends where its condition does not hold.
    ends = edge == "clear" and rule.clear is not None
    condition: Condition | None = rule.clear if ends else rule.condition
    return None if condition is None else border(condition, value, usual)


def usual_in(window: DayWindow | None) -> Usual | None:
    """What was usual in the window, of a baseline rule."""
    return window.cells.usual if window and window.cells else None


def _told_usual(usual: Usual | None) -> AlertBaseline | None:
    if usual is None:
        return None
    return AlertBaseline(usual.snapshot, number_of(usual.mean), usual.days)


def _of(told: ToldAlert) -> tuple[str, Edge]:
    return told.chain.subject, told.edge


def _shelf_value(stock: StockAt, told: tuple[str, Edge], cell: JudgedCell) -> ExactValue | None:
    """What it was judged by: the least of the window, at the end of an episode what there is."""
    subject, edge = told
    reached = cell.shelves.get(subject) if cell.shelves else None
    found = reached and (reached.lowest if edge == "raise" else reached.level)
    return None if found is None else stock.exactly(found)


def _rows_of(window: DayWindow | None, tick: Tick) -> tuple[ReadRows, ...]:
    if window is None or window.cells is None:
        return ()
    if not window.cells.parts:
        return read_rows(window.cells, tick)
    found: dict[tuple[str, str], ReadRows] = {}
    for part in window.cells.parts:
        for rows in read_rows(part, tick):
            place = rows.family, rows.day
            found[place] = _both(found[place], rows) if place in found else rows
    return tuple(found.values())


def _both(one: ReadRows, other: ReadRows) -> ReadRows:
    """Those of two windows of one UTC day."""
    return structs.replace(
        one,
        epoch=max(one.epoch, other.epoch),
        events=one.events + other.events,
        source=source_of((one.source, other.source)),
    )

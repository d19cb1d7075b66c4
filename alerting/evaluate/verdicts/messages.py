"""The alert messages for subscribers, made of transitions and of the rows that were evaluated."""

from fractions import Fraction

from msgspec import structs

from alerting.alert.ids import WHOLE_STORE, window_text
from alerting.alert.published import PublishedAlert
from alerting.episodes.alert_diff import Transition
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.window_facts import (
    DayWindow,
    MetricCell,
    cell_value,
    list_read_rows,
)
from alerting.rules.conditions import threshold_value
from alerting.rules.rule import Condition, Rule
from serving.cells.cells import common_source
from serving.metrics.formulas import StockAt
from tally.alerts.baseline import ExactValue, WindowBaseline
from tally.alerts.message import (
    Alert,
    AlertBaseline,
    AlertWindow,
    Edge,
    EpisodeSpan,
    Evidence,
    ReadRows,
)
from tally.alerts.tick import Tick
from tally.time.windows import WINDOW_MILLIS


def alert_message(
    rule: VersionedRule, transition: Transition, window: DayWindow | None, tick: Tick
) -> Alert:
    """The message of one transition; `window`: the window that calls for it, as served now."""
    alert = transition.alert
    version = rule.version(alert.version).rule
    # An episode goes on across versions, so another version may evaluate its end.
    evaluating_rule = window.version.rule if window and window.version else version
    # A retraction because of an erasure must not publish the erased number again.
    shown_window = None if transition.reason == "erasure" else window
    value = alert_value(rule, shown_window, *_subject_and_edge(alert))
    return Alert(
        alert_id=alert.alert_id,
        rule_id=rule.rule_id,
        rule_version=alert.version,
        store_id=alert.chain.store_id,
        subject=alert.chain.subject,
        metric=version.metric or version.family or "",
        window=AlertWindow(window_text(alert.window), window_text(alert.window + WINDOW_MILLIS)),
        state=alert.state,
        value=value,
        threshold=alert_threshold(evaluating_rule, alert.edge, find_baseline(shown_window), value),
        baseline=_alert_baseline(find_baseline(shown_window)),
        severity=version.severity,
        raised_at=window_text(alert.raised_at),
        reason=transition.reason,
        edge=alert.edge,
        of=alert.of,
        occurrence=alert.occurrence,
        supersedes=alert.supersedes,
        late=alert.late,
        backfilled=False,
        episode=EpisodeSpan(
            window_text(alert.start),
            None if alert.ended is None else window_text(alert.ended),
            window_text(transition.evaluated_window),
        ),
        evidence=Evidence(tick.n, _evidence_rows(window, tick)),
    )


def json_number(value: ExactValue) -> int | float:
    """The value as a JSON number: an integer if it is whole, else a float with 6 decimals.

    >>> json_number(Fraction(6, 2)), json_number(Fraction(1, 3))
    (3, 0.333333)
    """
    found = Fraction(value)
    return found.numerator if found.denominator == 1 else round(float(found), 6)


def alert_value(
    rule: VersionedRule, window: DayWindow | None, subject: str = WHOLE_STORE, edge: Edge = "raise"
) -> int | float | None:
    """The window's value in the metric's unit; None for silence, or if it may not be published."""
    if window is None or window.cells is None or window.version is None:
        return None
    metrics = rule.metrics(window.version.version)
    if metrics is None or window.cells.metric.is_hidden:
        return None
    if metrics.metric.stock is not None:
        value = _shelf_value(metrics.metric.stock, (subject, edge), window.cells.metric)
    else:
        value = cell_value(window.version.rule, metrics.metric, window.cells.metric.cell)
    return None if value is None else json_number(value)


def alert_threshold(
    rule: Rule,
    edge: Edge = "raise",
    baseline: WindowBaseline | None = None,
    value: float | None = None,
) -> float | None:
    """The number that the value was compared with, in its unit; None if it was no number."""
    # A rule without `clear` ends where its condition does not hold.
    ends = edge == "clear" and rule.clear is not None
    condition: Condition | None = rule.clear if ends else rule.condition
    return None if condition is None else threshold_value(condition, value, baseline)


def find_baseline(window: DayWindow | None) -> WindowBaseline | None:
    """The usual value of the window for a baseline rule, or None."""
    return window.cells.baseline if window and window.cells else None


def _alert_baseline(baseline: WindowBaseline | None) -> AlertBaseline | None:
    if baseline is None:
        return None
    return AlertBaseline(baseline.snapshot, json_number(baseline.mean), baseline.days)


def _subject_and_edge(alert: PublishedAlert) -> tuple[str, Edge]:
    return alert.chain.subject, alert.edge


def _shelf_value(stock: StockAt, alert: tuple[str, Edge], cell: MetricCell) -> ExactValue | None:
    """The evaluated stock: the lowest of the window, or the last for the end of an episode.

    `alert`: subject and edge.
    """
    subject, edge = alert
    reached = cell.shelves.levels(subject) if cell.shelves else None
    found = reached and (reached.lowest if edge == "raise" else reached.level)
    return None if found is None else stock.exactly(found)


def _evidence_rows(window: DayWindow | None, tick: Tick) -> tuple[ReadRows, ...]:
    if window is None or window.cells is None:
        return ()
    if not window.cells.parts:
        return list_read_rows(window.cells, tick)
    found: dict[tuple[str, str], ReadRows] = {}
    for part in window.cells.parts:
        for rows in list_read_rows(part, tick):
            place = rows.family, rows.day
            found[place] = _add_rows(found[place], rows) if place in found else rows
    return tuple(found.values())


def _add_rows(rows: ReadRows, other: ReadRows) -> ReadRows:
    """The rows of two windows of one UTC day together."""
    return structs.replace(
        rows,
        epoch=max(rows.epoch, other.epoch),
        events=rows.events + other.events,
        source=common_source((rows.source, other.source)),
    )

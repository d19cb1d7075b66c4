"""The articles of a store that a stock rule looks at, day by day."""

from collections.abc import Iterator

from alerting.alert.ids import subject_text
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.shelves import DayShelves
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.verdicts.verdicts import DayWindow
from serving.metrics.catalogue import Metric

# An article without any document: its windows are served as completely as those of any other.
NO_ARTICLE = subject_text("item")


def day_shelves(
    rule: VersionedRule, moment: SnapshotReader, store_id: str, day: WindowSpan
) -> Iterator[DayShelves]:
    """The articles that a stock rule looks at on a local day that was read."""
    for metric in _stock_metrics(rule, day):
        if shelves := moment.shelves(metric, store_id, day):
            yield shelves


def is_never_counted(window: DayWindow, subject: str) -> bool:
    """Whether the article was certainly never counted so far, so that no alert of it is open."""
    if window.cells is None or window.cells.metric.shelves is None:
        return False
    reached = window.cells.metric.shelves.levels(subject)
    # In a window that is not served complete, the receipts may be missing instead.
    return window.verdict.is_complete and (reached is None or reached.level is None)


def _stock_metrics(rule: VersionedRule, span: WindowSpan) -> Iterator[Metric]:
    """The stock metrics of the rule's versions on the span, once each."""
    judging = {version.version for version, _ in rule.split_by_version(span) if version is not None}
    read = (rule.metrics(number) for number in sorted(judging))
    metrics = [version_metrics.metric for version_metrics in read if version_metrics is not None]
    found = {metric.entry.id: metric for metric in metrics if metric.stock is not None}
    return iter(found.values())

"""Which articles of a store a rule of stock looks at, day by day."""

from collections.abc import Iterator

from serving.alerts.evaluator.calendar import WindowSpan
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.judgements import DayWindow
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.shelves import DayShelves
from serving.query.catalogue import Metric
from tally.alerts.ids import subject_text

# One that no document is about: its windows are served as completely as those of any other.
NO_ARTICLE = subject_text("item")


def day_shelves(
    rule: JudgedRule, moment: ViewsMoment, store_id: str, day: WindowSpan
) -> Iterator[DayShelves]:
    """The articles that a rule of stock looks at on a local day that was read."""
    for metric in _stocks(rule, day):
        if shelves := moment.shelves(metric, store_id, day):
            yield shelves


def is_uncounted(one: DayWindow, subject: str) -> bool:
    """Whether nobody has counted the article so far, for sure: nothing can be open of it."""
    if one.cells is None or one.cells.metric.shelves is None:
        return False
    reached = one.cells.metric.shelves.get(subject)
    # Of one that is not served complete it may be the receipts that are lacking.
    return one.judgement.is_complete and (reached is None or reached.level is None)


def _stocks(rule: JudgedRule, span: WindowSpan) -> Iterator[Metric]:
    """The metrics of its versions that are about articles, once each."""
    judging = {one.version for one, _ in rule.judging(span) if one is not None}
    read = (rule.metrics(number) for number in sorted(judging))
    metrics = [one.metric for one in read if one is not None]
    found = {one.entry.id: one for one in metrics if one.stock is not None}
    return iter(found.values())

"""Which articles of a store a rule of stock looks at, day by day."""

from collections.abc import Iterator

from serving.alerts.evaluator.calendar import WindowSpan
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.judgements import DayWindow
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.stock import first_shelves
from serving.query.catalogue import Metric
from tally.alerts.ids import subject_text

# One that no document is about: its windows are served as completely as those of any other.
NO_ARTICLE = subject_text("item")


class SimulatedArticles:
    """The subjects that a rule has met; `left_out` are those that no evaluator looks at."""

    def __init__(self) -> None:
        self.looked_at: set[str] = set()
        self._all: set[str] = set()

    @property
    def left_out(self) -> set[str]:
        """Those behind the first of each day."""
        return self._all - self.looked_at

    def add(self, rule: JudgedRule, moment: ViewsMoment, store_id: str, day: WindowSpan) -> None:
        """The articles of windows of a local day that were read."""
        for metric in _stocks(rule, day):
            # The last one has all of them: who has come is there from then on.
            *_, last = moment.cells(metric, store_id, day)
            shelves = last.shelves or {}
            self._all.update(shelves)
            self.looked_at.update(subject for subject, _ in first_shelves(shelves))


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

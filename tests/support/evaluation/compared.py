"""Compares the episodes of a simulation with the alerts that an evaluator has published."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from alerting.simulate.service import SimulatedPage
from tally.alerts.message import Alert, Edge
from tally.time.instants import parse_instant, to_millis

# not_told: called for, and none stands confirmed. not_called_for: one does, and nothing calls for
# it.
Kind = Literal["not_told", "not_called_for"]


class Called(NamedTuple):
    """An episode that a simulation calls for, [start, end) in milliseconds since 1970 (UTC)."""

    store_id: str
    subject: str
    start: int
    end: int | None
    is_settled: bool

    def has(self, alert: Alert) -> bool:
        """Whether the alert is of a window of the episode, as an evaluator matches them."""
        window = parse_millis(alert.window.start)
        is_inside = self.start <= window and (self.end is None or window < self.end)
        return (alert.store_id, alert.subject) == (self.store_id, self.subject) and is_inside


class Difference(NamedTuple):
    kind: Kind
    edge: Edge
    subject: str


class Compared(NamedTuple):
    """How many begins and ends are confirmed as they are called for, and what is not.

    Of an episode that is not settled, as one that is still open, only the begin is compared.
    `left_out`: how many of these have no confirmed begin, which may still come.
    """

    equal: int
    differences: Sequence[Difference]
    left_out: int = 0


def of_page(page: SimulatedPage) -> list[Called]:
    return [
        Called(
            store.store_id,
            found.subject,
            found.episode.start,
            found.episode.ended,
            found.is_complete,
        )
        for store in page.stores
        for found in store.episodes
    ]


def of_answer(answer: Mapping[str, Any]) -> list[Called]:
    """The same of the JSON of the API."""
    return [
        Called(
            episode["store_id"],
            episode["subject"],
            parse_millis(episode["start"]),
            None if episode["end"] is None else parse_millis(episode["end"]),
            episode["complete"],
        )
        for episode in answer["episodes"]
    ]


def compare(
    called: Iterable[Called], alerts: Iterable[Alert], rule_id: str, span: tuple[int, int]
) -> Compared:
    """The last states of the alerts of the rule, against all that is called for in the span."""
    last = {alert.alert_id: alert for alert in alerts if alert.rule_id == rule_id}.values()
    standing = [alert for alert in last if alert.state == "confirmed"]
    raises = [alert for alert in standing if alert.edge == "raise"]
    ends = [alert for alert in standing if alert.edge == "clear"]
    equal, left_out, found = 0, 0, list[Difference]()
    for episode in called:
        own = [raised for raised in raises if episode.has(raised)]
        raises = [raised for raised in raises if raised not in own]
        ids = {raised.alert_id for raised in own}
        ended = [end for end in ends if end.of in ids]
        ends = [end for end in ends if end.of not in ids]
        if episode.is_settled:
            wanted = {"raise": 1, "clear": int(episode.end is not None)}
            for edge, told in (("raise", own), ("clear", _before(ended, span[1]))):
                equal += min(wanted[edge], len(told))
                found += _differences(edge, wanted[edge] - len(told), episode.subject)
        elif own:
            equal += 1
            found += _differences("raise", 1 - len(own), episode.subject)
        else:
            left_out += 1
    for left in (*raises, *ends):
        if span[0] <= parse_millis(left.window.start) < span[1]:
            found.append(Difference("not_called_for", left.edge, left.subject))
    return Compared(equal, found, left_out)


def _before(ended: Iterable[Alert], end: int) -> list[Alert]:
    return [alert for alert in ended if parse_millis(alert.window.start) < end]


def _differences(edge: Any, lacking: int, subject: str) -> Iterator[Difference]:
    kind: Kind = "not_told" if lacking > 0 else "not_called_for"
    yield from [Difference(kind, edge, subject)] * abs(lacking)


def parse_millis(text: str) -> int:
    return to_millis(parse_instant(text, "alert"))

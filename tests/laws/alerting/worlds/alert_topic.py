"""An evaluator of one rule, for laws of deliveries: raises, ends, and what becomes of them."""

from dataclasses import dataclass, field
from hashlib import sha256
from zoneinfo import ZoneInfo

from alerting.deliver.state.routing import StoreFacts
from tally.alerts.message import Alert, AlertState, AlertWindow, Edge, EpisodeSpan, Evidence

CHANNEL = "floor-tablet"
INSTANT = "2026-09-21T14:13:20.000Z"


class OneRule:
    """A rule that names the channel, and stores of one zone."""

    def rule_channels(self, _rule_id: str, _version: int) -> tuple[str, ...]:
        return (CHANNEL,)

    def store(self, _store_id: str) -> StoreFacts:
        return StoreFacts(ZoneInfo("Europe/Rome"), ("north",))


@dataclass
class Told:
    """An alert as its evaluator has told it last."""

    alert_id: str
    edge: Edge
    of: str | None = None
    state: AlertState = "provisional"


def alert_of(told: Told) -> Alert:
    """The message of an alert in its state."""
    return Alert(
        alert_id=told.alert_id,
        rule_id="queue-too-long",
        rule_version=1,
        store_id="367",
        subject="none",
        metric="queue_length_max",
        window=AlertWindow(INSTANT, INSTANT),
        state=told.state,
        value=8.0,
        threshold=6.0,
        baseline=None,
        severity="warning",
        raised_at=INSTANT,
        reason="late_data" if told.state == "retracted" else None,
        edge=told.edge,
        of=told.of,
        occurrence=1,
        supersedes=None,
        late=False,
        backfilled=False,
        episode=EpisodeSpan(INSTANT, None),
        evidence=Evidence(1, ()),
    )


@dataclass
class Evaluator:
    """Tells each state of an alert once, and none after a retraction."""

    topic: list[Alert] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def emit(self, which: int, how: int) -> None:
        """Another state of an alert, an end of a raise, or a new raise."""
        open_ones = [one for one in self.told if one.state != "retracted"]
        if not open_ones or how % 3 == 0:
            return self._tell(Told(self._new_id(), "raise", state=_first_state(how)))
        one = open_ones[which % len(open_ones)]
        if one.edge == "raise" and how % 3 == 1 and self.end_of(one) is None:
            return self._tell(Told(self._new_id(), "clear", one.alert_id, _first_state(how)))
        one.state = "retracted" if how % 2 or one.state == "confirmed" else "confirmed"
        self.topic.append(alert_of(one))
        if one.state == "retracted" and one.edge == "raise":
            end = self.end_of(one)
            if end is not None:
                end.state = "retracted"
                self.topic.append(alert_of(end))
        return None

    def _tell(self, told: Told) -> None:
        self.told.append(told)
        self.topic.append(alert_of(told))

    def end_of(self, raised: Told) -> Told | None:
        """The end of a raise that was not taken back."""
        ends = [one for one in self.told if one.of == raised.alert_id]
        return next((one for one in ends if one.state != "retracted"), None)

    def _new_id(self) -> str:
        return sha256(f"alert {len(self.told)}".encode()).hexdigest()


def _first_state(how: int) -> AlertState:
    # What comes late is told when a generation has it already.
    return "confirmed" if how & 4 else "provisional"

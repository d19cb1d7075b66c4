"""What is remembered of a partition's deliveries: the records of its state, by what is asked.

It is made of the records alone, taken in the order in which they were last written: so a memory
that was restored answers as the one that wrote them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tally.alerts.delivery.controls import (
    SEVERITIES,
    Acknowledgement,
    AlertChannel,
    Silence,
    Snooze,
    severity_rank,
)
from tally.alerts.delivery.deciding import Holds, plan
from tally.alerts.delivery.records import (
    DeliveryDecision,
    DeliveryVerdict,
    GoneAddress,
    KeptDelivery,
    TickTime,
    UndeliveredMessages,
    WebhookMessage,
)

MINUTE = 60_000
_STATES = ("provisional", "confirmed", "retracted")
# A channel, and an alert on it.
OnChannel = tuple[str, str]


class DeliveryMemory:
    """The newest record of each key."""

    def __init__(self) -> None:
        self.time = TickTime(n=0, at=0)
        self.channels: dict[str, AlertChannel] = {}
        self.messages: dict[str, WebhookMessage] = {}
        # Those that still have to come to an end.
        self.waiting: dict[str, WebhookMessage] = {}
        # Dicts and no sets: in the order in which they came. Held back, and may still go out; and
        # raises that went out and are not over.
        self.held: dict[OnChannel, None] = {}
        self.open: dict[OnChannel, None] = {}
        self.acknowledged: dict[str, Acknowledgement] = {}
        self._dead: Counter[str] = Counter()
        self.order = 0
        # Of which anything was ever decided.
        self.stores: set[str] = set()
        self._silences: dict[str, Silence] = {}
        self._snoozes: dict[str, Snooze] = {}
        self._gone: dict[str, GoneAddress] = {}
        self._told: dict[OnChannel, dict[str, DeliveryDecision]] = {}
        self._channels_of: dict[str, dict[str, None]] = defaultdict(dict)
        self._ends_of: dict[OnChannel, dict[str, None]] = defaultdict(dict)
        # By the message's key and the decision's.
        self._carried: dict[str, dict[str, DeliveryDecision]] = defaultdict(dict)
        # By channel, minute and rank of the severity.
        self._sent: Counter[tuple[str, int, int]] = Counter()
        # Suppressed, and not counted in a message yet.
        self.uncounted: dict[str, DeliveryDecision] = {}

    def remember(self, kept: KeptDelivery) -> None:
        """Take a record in place of the one before it."""
        match kept:
            case DeliveryDecision():
                self._remember_decision(kept)
            case WebhookMessage():
                self._remember_message(kept)
            case AlertChannel():
                # Who sets a channel anew has heard that its address was gone.
                self.channels[kept.channel_id] = kept
                self._gone.pop(kept.channel_id, None)
            case Silence():
                self._silences[kept.silence_id] = kept
            case Snooze():
                self._snoozes[kept.alert_id] = kept
            case Acknowledgement():
                self.acknowledged[kept.alert_id] = kept
            case GoneAddress():
                self._gone[kept.channel] = kept
            case TickTime():
                self.time = kept
                self._forget_minutes()

    def forget(self, kept: KeptDelivery) -> None:
        """Drop a record, as if it had never been."""
        match kept:
            case DeliveryDecision():
                self._forget_decision(kept)
            case WebhookMessage():
                self._count_dead(self.messages.pop(kept.key, None), -1)
                self._carried.pop(kept.key, None)
            case Silence():
                self._silences.pop(kept.silence_id, None)
            case Snooze():
                self._snoozes.pop(kept.alert_id, None)
            case Acknowledgement():
                self.acknowledged.pop(kept.alert_id, None)

    def told(self, channel: str, alert_id: str) -> list[DeliveryDecision]:
        """The decisions about the alert's states on the channel, in the order of the states."""
        return [*self._told.get((channel, alert_id), {}).values()]

    def taken(self, at: OnChannel) -> tuple[int, OnChannel]:
        """When an alert was decided about first, milliseconds since 1970 (UTC), and which one.

        By it alerts have an order.
        """
        return self.told(*at)[0].at, at

    def plan(self, channel: str, alert_id: str | None) -> DeliveryVerdict | None:
        """What was decided about the alert on the channel; None where nothing was."""
        return plan(self.told(channel, alert_id)) if alert_id else None

    def channels_of(self, alert_id: str) -> list[str]:
        """On which channels something was decided about the alert."""
        return [*self._channels_of.get(alert_id, ())]

    def has_end(self, channel: str, alert_id: str) -> bool:
        """Whether an end of this raise is known on the channel that was not taken back."""
        ends = self._ends_of.get((channel, alert_id), ())
        last = (self.told(channel, end)[-1] for end in ends)
        return any(one.alert.state != "retracted" for one in last)

    def ends_of(self, channel: str, alert_id: str) -> list[str]:
        """The ends of this raise that anything was decided about on the channel."""
        return [*self._ends_of.get((channel, alert_id), ())]

    def may_have_arrived(self, channel: str, alert_id: str) -> bool:
        """Whether anything of the alert may be known at the channel's address."""
        return any(message.may_have_arrived for message in self.carrying(channel, alert_id))

    def carrying(self, channel: str, alert_id: str) -> Iterator[WebhookMessage]:
        """The messages that tell the channel of the alert, ascending."""
        for one in self.told(channel, alert_id):
            if one.verdict == "send" and one.message:
                yield self.messages[f"{channel}|{one.message}"]

    def carried_by(self, message: WebhookMessage) -> list[DeliveryDecision]:
        """The decisions that a message carries, in the order in which they were taken."""
        if message.kind == "repeat":
            return self.told(message.channel, message.lanes[0])[-1:]
        return [*self._carried.get(message.key, {}).values()]

    def sent_in(self, channel: str, minute: int, severity: str) -> int:
        """How many raises, at least as severe, went out one by one in the minute since 1970."""
        ranks = range(severity_rank(severity), len(SEVERITIES) + 1)
        return sum(self._sent[channel, minute, rank] for rank in ranks)

    def undelivered(self, now: int) -> dict[str, UndeliveredMessages]:
        """By channel what has not arrived by now, milliseconds since 1970 (UTC)."""
        since: dict[str, int] = {}
        for one in self.waiting.values():
            # From its first attempt on: the next one is due later and later.
            due = one.due_at if one.begun_at is None else one.begun_at
            if due <= now:
                since[one.channel] = min(due, since.get(one.channel, due))
        blocked = Counter(one.channel for one in self.waiting.values() if one.is_blocked)
        named = sorted({*self.channels, *since, *self._dead})
        return {
            name: UndeliveredMessages(since.get(name), self._dead[name], blocked[name])
            for name in named
        }

    def is_gone(self, channel: str, url: str) -> bool:
        """Whether the address has said that it wants no more."""
        gone = self._gone.get(channel)
        return gone is not None and gone.url == url

    @property
    def holds(self) -> Holds:
        """What keeps alerts back, also what is over."""
        return Holds(self._silences.values(), self._snoozes)

    def decisions(self, channel: str) -> Iterator[DeliveryDecision]:
        """All decisions of a channel, by alert."""
        for own, alert_id in sorted(self._told):
            if own == channel:
                yield from self.told(own, alert_id)

    def episodes(self) -> Iterator[list[DeliveryDecision]]:
        """By episode and channel all decisions: about a raise, and about its ends."""
        for channel, alert_id in [*self._told]:
            told = self.told(channel, alert_id)
            # Of an end whose raise nothing was decided about there is no more.
            of = told[0].alert.of
            if of is None or (channel, of) not in self._told:
                ends = self._ends_of.get((channel, alert_id), ())
                yield [*told, *(one for end in ends for one in self.told(channel, end))]

    def _remember_decision(self, decision: DeliveryDecision) -> None:
        alert, at = decision.alert, (decision.channel, decision.alert.alert_id)
        self.stores.add(alert.store_id)
        told = self._told.setdefault(at, {})
        before = told.get(alert.state)
        told[alert.state] = decision
        # Restored records come in the order in which they were last written.
        self._told[at] = {state: told[state] for state in _STATES if state in told}
        self._channels_of[alert.alert_id][decision.channel] = None
        if alert.of is not None:
            self._ends_of[decision.channel, alert.of][alert.alert_id] = None
        if before is not None and before.message:
            self._carried[f"{before.channel}|{before.message}"].pop(decision.key, None)
        if decision.message:
            self._carried[f"{decision.channel}|{decision.message}"][decision.key] = decision
        self._count(decision, before)
        # What becomes of a raise hangs on its ends, and the other way round.
        others = [alert.of] if alert.of else self._ends_of.get(at, ())
        for alert_id in (alert.alert_id, *others):
            self._sort_in((decision.channel, alert_id))

    def _sort_in(self, at: OnChannel) -> None:
        """Note whether an alert is held and may still go out, or is open at its channel."""
        told = self.told(*at)
        if not told:
            return
        verdict, alert = plan(told), told[-1].alert
        is_raise = alert.edge == "raise"
        is_over = alert.state == "retracted" or (is_raise and self.has_end(*at))
        # An end follows its raise alone.
        follows = is_raise or self.plan(at[0], alert.of) == "send"
        _put(self.held, at, verdict == "held" and follows and not is_over)
        _put(self.open, at, verdict == "send" and is_raise and not is_over)

    def _forget_decision(self, decision: DeliveryDecision) -> None:
        alert_id, at = decision.alert.alert_id, (decision.channel, decision.alert.alert_id)
        told = self._told.get(at, {})
        told.pop(decision.alert.state, None)
        self._carried.get(f"{decision.channel}|{decision.message}", {}).pop(decision.key, None)
        if not told:
            self._told.pop(at, None)
            self.held.pop(at, None)
            self.open.pop(at, None)
            self._channels_of.get(alert_id, {}).pop(decision.channel, None)
        of = decision.alert.of
        if of is not None and not told:
            ends = self._ends_of.get((decision.channel, of), {})
            ends.pop(alert_id, None)
        self.uncounted.pop(decision.key, None)

    def _count(self, decision: DeliveryDecision, before: DeliveryDecision | None) -> None:
        if decision.why in ("storm", "late") and not decision.message:
            self.uncounted[decision.key] = decision
        else:
            self.uncounted.pop(decision.key, None)
        # Not what a hold released: that is one message, however many alerts.
        went_out = decision.verdict == "send" and not decision.why
        if went_out and before is None and decision.alert.edge == "raise":
            rank = severity_rank(decision.alert.severity)
            self._sent[decision.channel, decision.at // MINUTE, rank] += 1

    def _forget_minutes(self) -> None:
        # Nothing is decided any more in a minute that is over.
        minute = self.time.at // MINUTE
        for at in [at for at in self._sent if at[1] < minute]:
            del self._sent[at]

    def _remember_message(self, message: WebhookMessage) -> None:
        self._count_dead(self.messages.get(message.key), -1)
        self._count_dead(message, 1)
        self.messages[message.key] = message
        self.order = max(self.order, message.order)
        if message.outcome == "waiting":
            self.waiting[message.key] = message
        else:
            self.waiting.pop(message.key, None)

    def _count_dead(self, message: WebhookMessage | None, more: int) -> None:
        # A heartbeat that was late is followed by the next one.
        if message and message.outcome == "dead" and message.kind != "heartbeat":
            self._dead[message.channel] += more


def _put(into: dict[OnChannel, None], at: OnChannel, is_in: bool) -> None:
    if is_in:
        into[at] = None
    else:
        into.pop(at, None)

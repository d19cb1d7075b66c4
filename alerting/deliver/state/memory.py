"""The memory of a partition's deliveries: the records of its state, indexed for lookups.

It is built only from the records, in the order in which they were last written.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from alerting.alert.current_state import episode_ids
from alerting.deliver.state.controls import (
    SEVERITIES,
    Acknowledgement,
    AlertChannel,
    AlertControl,
    Silence,
    Snooze,
    selects,
    severity_rank,
)
from alerting.deliver.state.records import (
    DeliveryDecision,
    DeliveryReason,
    DeliveryVerdict,
    GoneAddress,
    StoredDelivery,
    WebhookMessage,
)
from alerting.deliver.state.routing import DeliveryContext, combine_verdicts, quiet_end
from runtime.outbound.engine import OutboundMemory, TickTime, UndeliveredMessages
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS

MINUTE = 60_000
# Records of what ended before that are deleted.
RETENTION_DAYS = 90
_STATES = ("provisional", "confirmed", "retracted")
# A channel id and the id of an alert on it.
ChannelAlert = tuple[str, str]


class DeliveryMemory(OutboundMemory[WebhookMessage]):
    """The newest record of each key, with indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.channels: dict[str, AlertChannel] = {}
        self.messages: dict[str, WebhookMessage] = {}
        # Dicts instead of sets keep the order of arrival. `held`: alerts that are held back and may
        # still be sent; `open`: raises that were sent and are not over.
        self.held: dict[ChannelAlert, None] = {}
        self.open: dict[ChannelAlert, None] = {}
        self.acknowledged: dict[str, Acknowledgement] = {}
        self._dead_counts: Counter[str] = Counter()
        # Stores with at least one decision.
        self.stores: set[str] = set()
        self.silences: dict[str, Silence] = {}
        self.snoozes: dict[str, Snooze] = {}
        self._gone_addresses: dict[str, GoneAddress] = {}
        self._decisions: dict[ChannelAlert, dict[str, DeliveryDecision]] = {}
        self._channels_by_alert: dict[str, dict[str, None]] = defaultdict(dict)
        self._ends_by_raise: dict[ChannelAlert, dict[str, None]] = defaultdict(dict)
        # Decisions by the message's key and the decision's key.
        self._decisions_by_message: dict[str, dict[str, DeliveryDecision]] = defaultdict(dict)
        # Number of sent raises by channel, minute and rank of the severity.
        self._sent_counts: Counter[tuple[str, int, int]] = Counter()
        # Suppressed decisions that no summary has counted yet.
        self.uncounted: dict[str, DeliveryDecision] = {}

    def remember(self, record: StoredDelivery) -> None:
        """Stores a record in place of the previous one with its key."""
        match record:
            case DeliveryDecision():
                self._remember_decision(record)
            case WebhookMessage():
                self._remember_message(record)
            case AlertChannel():
                # A re-created channel starts again, even if its address was gone.
                self.channels[record.channel_id] = record
                self._gone_addresses.pop(record.channel_id, None)
            case Silence():
                self.silences[record.silence_id] = record
            case Snooze():
                self.snoozes[record.alert_id] = record
            case Acknowledgement():
                self.acknowledged[record.alert_id] = record
            case GoneAddress():
                self._gone_addresses[record.channel] = record
            case TickTime():
                self.time = record
                # No decision can fall into a minute that is over.
                minute = record.at // MINUTE
                for key in [sent for sent in self._sent_counts if sent[1] < minute]:
                    del self._sent_counts[key]

    def forget(self, record: StoredDelivery) -> None:
        """Removes a record and its index entries."""
        match record:
            case DeliveryDecision():
                self._forget_decision(record)
            case WebhookMessage():
                self._count_dead(self.messages.pop(record.key, None), -1)
                self._decisions_by_message.pop(record.key, None)
            case Silence():
                self.silences.pop(record.silence_id, None)
            case Snooze():
                self.snoozes.pop(record.alert_id, None)
            case Acknowledgement():
                self.acknowledged.pop(record.alert_id, None)

    def decisions_for(self, channel: str, alert_id: str) -> list[DeliveryDecision]:
        """The decisions about the alert's states on the channel, in the order of the states."""
        return [*self._decisions.get((channel, alert_id), {}).values()]

    def sort_key(self, at: ChannelAlert) -> tuple[int, ChannelAlert]:
        """The sort key of an alert: milliseconds of its first decision, and the alert."""
        return self.decisions_for(*at)[0].at, at

    def alert_verdict(self, channel: str, alert_id: str | None) -> DeliveryVerdict | None:
        """The verdict on the alert on the channel; None without a decision."""
        return combine_verdicts(self.decisions_for(channel, alert_id)) if alert_id else None

    def channels_for(self, alert_id: str) -> list[str]:
        """The channels with a decision about the alert."""
        return [*self._channels_by_alert.get(alert_id, ())]

    def ends_for(self, channel: str, alert_id: str) -> list[str]:
        """The ends of this raise with a decision on the channel."""
        return [*self._ends_by_raise.get((channel, alert_id), ())]

    def may_have_arrived(self, channel: str, alert_id: str) -> bool:
        """Whether the channel's address may have received any message about the alert."""
        return any(message.may_have_arrived for message in self.messages_about(channel, alert_id))

    def messages_about(self, channel: str, alert_id: str) -> Iterator[WebhookMessage]:
        """The messages to the channel about the alert, in the order of the alert's states."""
        for decision in self.decisions_for(channel, alert_id):
            if decision.verdict == "send" and decision.message:
                yield self.messages[f"{channel}|{decision.message}"]

    def message_decisions(self, message: WebhookMessage) -> list[DeliveryDecision]:
        """The decisions that a message carries, in the order in which they were made."""
        if message.kind == "repeat":
            return self.decisions_for(message.channel, message.lanes[0])[-1:]
        return [*self._decisions_by_message.get(message.key, {}).values()]

    def count_sent(self, channel: str, minute: int, severity: str) -> int:
        """The number of raises, at least as severe, sent one by one in a minute since 1970."""
        ranks = range(severity_rank(severity), len(SEVERITIES) + 1)
        return sum(self._sent_counts[channel, minute, rank] for rank in ranks)

    def summarise_undelivered(self, now: int) -> dict[str, UndeliveredMessages]:
        """The undelivered messages by channel at an instant, milliseconds since 1970 (UTC)."""
        since: dict[str, int] = {}
        blocked: Counter[str] = Counter()
        for message in self.waiting.values():
            blocked[message.channel] += message.is_blocked
            # The first attempt counts, because each retry moves the due time further.
            due = message.first_attempt_at
            if due <= now:
                since[message.channel] = min(due, since.get(message.channel, due))
        return {
            name: UndeliveredMessages(since.get(name), self._dead_counts[name], blocked[name])
            for name in sorted({*self.channels, *since, *self._dead_counts})
        }

    def is_gone(self, channel: str, url: str) -> bool:
        """Whether the address has answered 410."""
        gone = self._gone_addresses.get(channel)
        return gone is not None and gone.url == url

    def hold_reason(
        self, alert: Alert, channel: AlertChannel, around: DeliveryContext
    ) -> DeliveryReason:
        """The reason that holds the alert back from the channel now; "" for none."""
        now = self.time.at
        for silence in self.silences.values():
            is_meant = selects(silence.rules, alert.rule_id)
            is_now = silence.starts <= now < silence.ends
            if is_now and is_meant and selects(silence.stores, alert.store_id):
                return silence.kind
        # The snooze of a raise also holds back its end.
        snoozed = (self.snoozes.get(alert_id) for alert_id in episode_ids(alert))
        if any(snooze is not None and now < snooze.until for snooze in snoozed):
            return "snooze"
        zone = around.store(alert.store_id).zone
        return "quiet" if quiet_end(channel.quiet, now, zone) is not None else ""

    def channel_decisions(self, channel: str) -> Iterator[DeliveryDecision]:
        """All decisions of a channel, sorted by alert."""
        for channel_id, alert_id in sorted(self._decisions):
            if channel_id == channel:
                yield from self.decisions_for(channel_id, alert_id)

    def episodes(self) -> Iterator[list[DeliveryDecision]]:
        """All decisions grouped by episode and channel: about a raise and about its ends."""
        for channel, alert_id in [*self._decisions]:
            decisions = self.decisions_for(channel, alert_id)
            # An end without a decision about its raise is a group of its own.
            raise_id = decisions[0].alert.of
            if raise_id is None or (channel, raise_id) not in self._decisions:
                for end in self.ends_for(channel, alert_id):
                    decisions += self.decisions_for(channel, end)
                yield decisions

    def _remember_decision(self, decision: DeliveryDecision) -> None:
        alert, at = decision.alert, (decision.channel, decision.alert.alert_id)
        self.stores.add(alert.store_id)
        by_state = self._decisions.setdefault(at, {})
        before = by_state.get(alert.state)
        by_state[alert.state] = decision
        # Restored records come in the order of their last write, not of the states.
        self._decisions[at] = {state: by_state[state] for state in _STATES if state in by_state}
        self._channels_by_alert[alert.alert_id][decision.channel] = None
        if alert.of is not None:
            self._ends_by_raise[decision.channel, alert.of][alert.alert_id] = None
        if before is not None and before.message:
            self._decisions_by_message[before.message_key].pop(decision.key, None)
        if decision.message:
            self._decisions_by_message[decision.message_key][decision.key] = decision
        self._count(decision, before)
        # The state of a raise depends on its ends, and the other way round.
        others = [alert.of] if alert.of else self._ends_by_raise.get(at, ())
        for alert_id in (alert.alert_id, *others):
            self._update_membership((decision.channel, alert_id))

    def _update_membership(self, at: ChannelAlert) -> None:
        """Updates whether an alert is held and may still be sent, or is open at its channel."""
        decisions = self.decisions_for(*at)
        if not decisions:
            return
        verdict, alert = combine_verdicts(decisions), decisions[-1].alert
        is_raise = alert.edge == "raise"
        channel, _alert_id = at
        ends = self.ends_for(*at)
        last = (self.decisions_for(channel, end)[-1] for end in ends)
        has_end = any(end.alert.state != "retracted" for end in last)
        is_over = alert.state == "retracted" or (is_raise and has_end)
        # An end is sent only after its raise.
        follows = is_raise or self.alert_verdict(channel, alert.of) == "send"
        is_held = verdict == "held" and follows and not is_over
        is_open = verdict == "send" and is_raise and not is_over
        for members, is_in in ((self.held, is_held), (self.open, is_open)):
            if is_in:
                members[at] = None
            else:
                members.pop(at, None)

    def _forget_decision(self, decision: DeliveryDecision) -> None:
        alert, at = decision.alert, (decision.channel, decision.alert.alert_id)
        by_state = self._decisions.get(at, {})
        by_state.pop(alert.state, None)
        self._decisions_by_message.get(decision.message_key, {}).pop(decision.key, None)
        self.uncounted.pop(decision.key, None)
        if by_state:
            return
        self._decisions.pop(at, None)
        self.held.pop(at, None)
        self.open.pop(at, None)
        self._channels_by_alert.get(alert.alert_id, {}).pop(decision.channel, None)
        if alert.of is not None:
            ends = self._ends_by_raise.get((decision.channel, alert.of), {})
            ends.pop(alert.alert_id, None)

    def _count(self, decision: DeliveryDecision, before: DeliveryDecision | None) -> None:
        if decision.why in ("storm", "late") and not decision.message:
            self.uncounted[decision.key] = decision
        else:
            self.uncounted.pop(decision.key, None)
        # Alerts released after a hold do not count, because a group of them is one message.
        went_out = decision.verdict == "send" and not decision.why
        if went_out and before is None and decision.alert.edge == "raise":
            rank = severity_rank(decision.alert.severity)
            self._sent_counts[decision.channel, decision.at // MINUTE, rank] += 1

    def _remember_message(self, message: WebhookMessage) -> None:
        self._count_dead(self.messages.get(message.key), -1)
        self._count_dead(message, 1)
        self.messages[message.key] = message
        self.order = max(self.order, message.order)
        if message.outcome == "waiting":
            self.waiting.put(message)
        else:
            self.waiting.remove(message.key)

    def _count_dead(self, message: WebhookMessage | None, more: int) -> None:
        # Dead heartbeats do not count, because the next one follows.
        if message and message.outcome == "dead" and message.kind != "heartbeat":
            self._dead_counts[message.channel] += more


def find_outdated(memory: DeliveryMemory) -> list[StoredDelivery]:
    """The records that ended more than RETENTION_DAYS days ago, by ticks.

    An open episode is kept at any age, because a receiver of its raise must get its end.
    """
    limit = memory.time.at - RETENTION_DAYS * DAY_MILLIS
    found: list[DeliveryDecision] = []
    named: set[str] = set()
    for decisions in memory.episodes():
        # An episode is deleted as a whole, because an end alone would look as if it had no raise.
        if _has_ended(decisions) and max(decision.at for decision in decisions) < limit:
            found += decisions
        else:
            named |= {decision.message_key for decision in decisions}
    ended = (
        message
        for message in memory.messages.values()
        if message.outcome != "waiting" and message.due_at < limit and message.key not in named
    )
    return [*found, *ended, *_find_ended_controls(memory)]


def is_over(control: AlertControl, now: int) -> bool:
    """Whether a silence or a snooze ended more than a day ago, so that it has no effect any more.

    The day leaves time for a late record that ends it early or extends it.
    """
    match control:
        case Silence():
            return control.ends < now - DAY_MILLIS
        case Snooze():
            return control.until < now - DAY_MILLIS
    return False


def _find_ended_controls(memory: DeliveryMemory) -> Iterator[StoredDelivery]:
    now = memory.time.at
    controls: list[Silence | Snooze] = [*memory.silences.values()]
    controls += memory.snoozes.values()
    yield from (control for control in controls if is_over(control, now))
    still_open = {alert_id for _, alert_id in (*memory.open, *memory.held)}
    for acknowledgement in memory.acknowledged.values():
        if acknowledgement.alert_id not in still_open and acknowledgement.at < now - DAY_MILLIS:
            yield acknowledgement


def _has_ended(decisions: Sequence[DeliveryDecision]) -> bool:
    last = {decision.alert.alert_id: decision.alert for decision in decisions}
    raised, *ends = last.values()
    is_ended = any(end.state != "retracted" for end in ends)
    return raised.state == "retracted" or raised.edge == "clear" or is_ended

"""The alerts of a partition on their way to channels: decisions, messages and their outcomes.

A decision may be outdated when the turn of its message comes: quiet hours or a silence have begun,
or the dispatcher was down and the alert is old. A message is withdrawn if the receiver certainly
has nothing of it, and its alerts are decided again: held until the hold is over, or left to a
summary. A message that may have arrived already waits until the hold is over.
"""

from collections.abc import Callable, Collection, Sequence

from msgspec import structs

from alerting.deliver.overviews import OverviewMessages
from alerting.deliver.releases import AlertMessages
from alerting.deliver.state.attempts import (
    GONE,
    WANTS_NO_MORE,
    CallCapacity,
    CircuitBreakers,
    apply_answer,
    begin_attempt,
    give_up_overdue,
)
from alerting.deliver.state.controls import (
    SEVERITIES,
    AlertChannel,
    AlertControl,
    Redelivery,
    severity_rank,
)
from alerting.deliver.state.memory import MINUTE, DeliveryMemory, find_outdated
from alerting.deliver.state.records import (
    DeliveryDecision,
    DeliveryReason,
    DeliveryVerdict,
    GoneAddress,
    StoredDelivery,
    WebhookMessage,
    record_key,
)
from alerting.deliver.state.routing import (
    DeliveryContext,
    DeliveryRules,
    FirstState,
    instant_millis,
    is_old,
    matches_channel,
    quiet_end,
)
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import DroppedRecord, OutboundEngine, TickTime
from tally.alerts.message import Alert

# The age of an alert counts again from a decision with one of these reasons.
_AGE_RESETS: tuple[DeliveryReason, ...] = ("released", "escalated")


class DeliveryEngine(
    OutboundEngine[DeliveryMemory, WebhookMessage, StoredDelivery, WebhookMessage, OutboundAnswer]
):
    """The deliveries of one partition, with their rules and the facts about rules and stores.

    `memories`: returns those of all partitions of this process; by default of this one alone.
    """

    def __init__(
        self,
        rules: DeliveryRules,
        around: DeliveryContext,
        partition: int = 0,
        memories: Callable[[], Collection[DeliveryMemory]] | None = None,
    ) -> None:
        super().__init__(DeliveryMemory())
        self._memories = memories or (lambda: [self.memory])
        self._rules = rules
        self._context = around
        self._partition = partition

    def process_alert(self, alert: Alert) -> list[StoredDelivery]:
        """The decisions about one state of an alert, each with its message if it has one.

        A state that was taken before changes nothing. Raises BadInstant for an alert with one.
        """
        memory = self.memory
        named = self._context.rule_channels(alert.rule_id, alert.rule_version)
        changed: list[StoredDelivery] = []
        # Before the very first tick, the alert has the only known instant.
        if not memory.time.at:
            changed += memory.remember_all([TickTime(n=0, at=instant_millis(alert.raised_at))])
        # A channel with the raise also gets its end, even if its routing has changed since.
        decided = {*memory.channels_for(alert.alert_id), *memory.channels_for(alert.of or "")}
        matching = {
            channel.channel_id
            for channel in memory.channels.values()
            if matches_channel(alert, channel, named)
        }
        # The order is fixed, so that two runs write the same records after any restore.
        for channel_id in sorted(decided | matching):
            changed += self._decide_on_channel(channel_id, alert)
        return changed

    # Held alerts are not checked here; the next tick releases them or keeps them.
    def apply_control(self, control: AlertControl) -> list[StoredDelivery]:
        """The records that a control changes."""
        memory = self.memory
        if not isinstance(control, Redelivery):
            return memory.remember_all([control])
        message = memory.messages.get(f"{control.channel_id}|{control.message_id}")
        if message is None or message.outcome == "waiting":
            return []
        asked = structs.replace(message, outcome="waiting", due_at=memory.time.at, is_asked=True)
        # The request of a person overrides the alerts that it needs and its earlier failures.
        reset = structs.replace(asked, begun_at=None, attempts=0, refusals=0, needs=())
        return memory.remember_all([reset])

    def apply_control_early(self, control: AlertControl) -> None:
        """Applies a control ahead of its turn, unless it is known already or a redelivery."""
        known = isinstance(control, AlertChannel) and (
            self.memory.channels.get(control.channel_id) == control
        )
        # A re-created channel may have a new URL; without this the old 410 would still apply.
        if not known and not isinstance(control, Redelivery):
            self.memory.remember(control)

    @property
    def _messages(self) -> AlertMessages:
        # Not stored: after a restore the memory is another one.
        return AlertMessages(self.memory, self._rules, self._context)

    def _pass_time(self, before: int) -> list[StoredDelivery]:
        overviews = OverviewMessages(self.memory, self._context, self._partition)
        changed = self._messages.release_alerts()
        changed += overviews.build_summaries()
        changed += overviews.build_digests(before)
        changed += overviews.build_heartbeats()
        if self.memory.time.at // MINUTE != before // MINUTE:
            changed += self._messages.build_reminders()
        return changed

    def _drop_outdated(self) -> list[DroppedRecord]:
        outdated = find_outdated(self.memory)
        for record in outdated:
            self.memory.forget(record)
        return [DroppedRecord(record_key(record)) for record in outdated]

    def _own_room(self, under_way: Collection[WebhookMessage]) -> Callable[[WebhookMessage], bool]:
        return CallCapacity((message.url for message in under_way), CircuitBreakers()).reserve

    def _urgency(self, message: WebhookMessage) -> tuple[int, bool, int]:
        """Ascending: the most severe first, then untried ones, then by their order."""
        decisions = self.memory.message_decisions(message)
        severities = (decision.alert.severity for decision in decisions)
        rank = max(map(severity_rank, severities), default=0)
        # A heartbeat that waits behind alerts would look as if the dispatcher were down.
        if message.kind == "heartbeat":
            rank = len(SEVERITIES)
        return -rank, message.attempts > 0, message.order

    def _end_turn(self, message: WebhookMessage) -> list[StoredDelivery] | None:
        memory = self.memory
        if over := give_up_overdue(message, memory.time.at):
            return [over]
        if cause := self._end_cause(message):
            return [structs.replace(message, outcome="dead", cause=cause)]
        if message.kind == "repeat":
            alert_id = message.lanes[0]
            # An alert that is over, or acknowledged, needs no repetition.
            if (message.channel, alert_id) not in memory.open or alert_id in memory.acknowledged:
                return [structs.replace(message, outcome="withdrawn")]
        why = self._obstacle(message)
        return self._hold_back(message, why) if why else None

    def _end_cause(self, message: WebhookMessage) -> str:
        """The reason why the message is never sent again; "" for none."""
        memory, channel = self.memory, message.channel
        # An expired heartbeat would report that all is well for a time of which this is unknown.
        if message.expires_at is not None and memory.time.at >= message.expires_at:
            return "its time is over"
        # This applies to messages of every kind and age.
        if memory.is_gone(channel, message.url):
            return WANTS_NO_MORE
        if not all(memory.may_have_arrived(channel, alert_id) for alert_id in message.needs):
            return "what it follows was refused"
        return ""

    def _obstacle(self, message: WebhookMessage) -> DeliveryReason:
        """The reason why the message may not be sent now; "" for none.

        A summary is held back by a reason that applies to all its alerts, any other message by one
        that applies to any of them. A requested redelivery is never held back.
        """
        channel = self.memory.channels.get(message.channel)
        # An unknown channel has no settings that could hold it back; the call is refused later.
        if message.is_asked or channel is None:
            return ""
        decisions = self.memory.message_decisions(message)
        reasons = [self._hold_reason(decision.alert, channel) for decision in decisions]
        if message.kind == "summary":
            # Old alerts do not hold a summary back, because they are a reason for its existence.
            is_held = all(reason and reason != "late" for reason in reasons)
            return reasons[0] if reasons and is_held else ""
        return next(filter(None, reasons), "")

    def _hold_reason(self, alert: Alert, channel: AlertChannel) -> DeliveryReason:
        # A retraction passes silences, so that no receiver of the raise keeps a false alert.
        if alert.state == "retracted":
            return "" if self._quiet_end(alert, channel) is None else "quiet"
        if reason := self.memory.hold_reason(alert, channel, self._context):
            return reason
        return "late" if self._is_too_old(alert, channel) else ""

    def _is_too_old(self, alert: Alert, channel: AlertChannel) -> bool:
        """Whether a message would be the channel's first one about an alert beyond its max_age."""
        memory, channel_id = self.memory, channel.channel_id
        if alert.edge != "raise" or memory.may_have_arrived(channel_id, alert.alert_id):
            return False
        decisions = memory.decisions_for(channel_id, alert.alert_id)
        resets = [earlier.at for earlier in decisions if earlier.why in _AGE_RESETS]
        if resets:
            return max(resets) < memory.time.at - channel.max_age * 1_000
        return is_old(alert, channel, memory.time.at)

    def _quiet_end(self, alert: Alert, channel: AlertChannel) -> int | None:
        zone = self._context.store(alert.store_id).zone
        return quiet_end(channel.quiet, self.memory.time.at, zone)

    def _hold_back(self, message: WebhookMessage, why: DeliveryReason) -> list[StoredDelivery]:
        """The records that withdraw a message that may not be sent now, and those that follow it.

        Their alerts are held, or suppressed if they are "late"; the next tick releases those that
        nothing holds back. There are no records if the receiver may have any alert of the message,
        which stays until it may be sent.
        """
        memory, channel = self.memory, message.channel
        decisions = memory.message_decisions(message)
        alerts = dict.fromkeys(carried.alert.alert_id for carried in decisions)
        may_have_arrived = any(memory.may_have_arrived(channel, alert_id) for alert_id in alerts)
        if may_have_arrived or message.kind not in ("alert", "group"):
            return []
        ends = [end for alert_id in alerts for end in memory.ends_for(channel, alert_id)]
        verdict: DeliveryVerdict = "suppressed" if why == "late" else "held"
        changed: dict[str, StoredDelivery] = {}
        for alert_id in dict.fromkeys((*alerts, *ends)):
            for number, decision in enumerate(memory.decisions_for(channel, alert_id)):
                sent = memory.waiting.get(decision.message_key)
                if sent is not None:
                    changed[sent.key] = structs.replace(sent, outcome="withdrawn", cause=why)
                reason: DeliveryReason = "followed" if number else why
                if alert_id in ends:
                    reason = "raise not sent"
                kept = structs.replace(decision, verdict=verdict, why=reason, message="")
                changed[decision.key] = kept
        return [*changed.values()]

    def _begin_attempt(self, message: WebhookMessage) -> WebhookMessage:
        return begin_attempt(message, self.memory.time.at)

    def _get_message(self, call: WebhookMessage) -> WebhookMessage:
        return call

    def _find_open(self, called: WebhookMessage) -> WebhookMessage | None:
        known = self.memory.messages.get(called.key)
        if known is None or known.message_id != called.message_id:
            return None
        # A late answer does not revive a message that was given up with its address meanwhile.
        return known if known.outcome in ("waiting", "unknown") else None

    def _apply_answer(self, call: WebhookMessage, answer: OutboundAnswer) -> list[StoredDelivery]:
        now = self.memory.time.at
        after = apply_answer(self.memory.messages[call.key], answer, now)
        if answer.status != GONE:
            return [after]
        gone = GoneAddress(channel=after.channel, url=after.url, at=now)
        # The message itself is one of the waiting ones, and its own record is written last.
        others = [
            structs.replace(message, outcome="dead", cause=after.cause)
            for message in self.memory.waiting.values()
            if (message.channel, message.url) == (after.channel, after.url)
        ]
        return [gone, *others, after]

    def _decide_on_channel(self, channel_id: str, alert: Alert) -> list[StoredDelivery]:
        decisions = self.memory.decisions_for(channel_id, alert.alert_id)
        is_known = any(earlier.alert.state == alert.state for earlier in decisions)
        # Without an earlier decision on this channel there is nothing to retract.
        if is_known or (not decisions and alert.state == "retracted"):
            return []
        channel, time = self.memory.channels[channel_id], self.memory.time
        verdict, why = self._decide(alert, channel, decisions)
        message = None
        if verdict == "send" and why != "left out":
            # Quiet hours delay a message that follows a raise; the raise itself would be held.
            due_at = self._quiet_end(alert, channel) or time.at
            message = self._messages.build_message(alert, channel, due_at)
        decision = DeliveryDecision(
            channel=channel_id,
            alert=alert,
            verdict=verdict,
            why=why,
            message=message.message_id if message else "",
            at=time.at,
            tick=time.n,
        )
        # The message comes first, so that a decision never names a missing message.
        return self.memory.remember_all([message, decision] if message else [decision])

    def _decide(
        self, alert: Alert, channel: AlertChannel, earlier: Sequence[DeliveryDecision]
    ) -> tuple[DeliveryVerdict, DeliveryReason]:
        reason = self.memory.hold_reason(alert, channel, self._context)
        channel_id, now = channel.channel_id, self.memory.time.at
        if not earlier:
            # The rate limit holds for a channel over all partitions of this process.
            place = channel_id, now // MINUTE, alert.severity
            state = FirstState(
                alert=alert,
                channel=channel,
                now=now,
                hold_reason=reason,
                raise_verdict=self.memory.alert_verdict(channel_id, alert.of),
                sent_count=sum(memory.count_sent(*place) for memory in self._memories()),
            )
            return self._rules.decide_first(state)
        verdict = self._rules.decide_later(earlier, reason)
        has_gone_out = any(self.memory.messages_about(channel_id, alert.alert_id))
        is_left_out = verdict == "send" and alert.state in channel.leaves_out and has_gone_out
        return verdict, "left out" if is_left_out else "followed"

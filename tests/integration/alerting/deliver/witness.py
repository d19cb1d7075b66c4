"""What a receiver may be told, judged by the alerts that were told and the calls that came: nothing
of the dispatcher is asked."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tally.alerts.message import Alert
from tests.integration.alerting.deliver.failing_receiver import ReceivedCall
from tests.integration.alerting.deliver.town import Told

# One channel is called until it answers, the other one once.
AT_LEAST_ONCE, AT_MOST_ONCE = "/alerts", "/pager"
FAR = 10**9


@dataclass(frozen=True)
class Witness:
    """What has happened, of one town.

    `held`: by raise how many calls had come when a silence ended that had begun before it was told,
    and before any dispatcher was there that could have heard of one without the other.
    """

    alerts: Sequence[Alert]
    calls: Sequence[ReceivedCall]
    held: dict[str, int] = field(default_factory=dict)

    @cached_property
    def acted(self) -> list[Told]:
        """What who acts once for a key has acted on, in the order in which it came."""
        taken = (one for one in self.calls if one.path == AT_LEAST_ONCE and one.is_taken)
        first = {one.key: one for one in reversed([*taken])}
        return [told for one in reversed(first.values()) for told in one.told]

    def breaches(self) -> list[str]:
        """Each promise that was broken, in a line."""
        return [*self._of_messages(), *self._of_alerts(), *self._of_silences()]

    @property
    def refused_and_sent_otherwise(self) -> int:
        """How many states of alerts were refused for certain under one key, and came under another.

        That is allowed: an alert that a silence holds back after a 429 comes later, in a group with
        others.
        """
        every, counting = self._keys(self.calls), self._keys(self._not_refused)
        return sum(every[at] != keys for at, keys in counting.items())

    @property
    def _not_refused(self) -> list[ReceivedCall]:
        return [call for call in self.calls if not call.is_refused]

    @staticmethod
    def _keys(calls: Iterable[ReceivedCall]) -> dict[tuple[str, Told], set[str]]:
        keys: dict[tuple[str, Told], set[str]] = defaultdict(set)
        for call in calls:
            for told in call.told:
                keys[call.path, told].add(call.key)
        return keys

    def _of_messages(self) -> Iterator[str]:
        bodies: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        for call in self.calls:
            bodies[call.path, call.key].add(call.body)
        keys = self._keys(self._not_refused)
        yield from (f"other bytes under one key: {at}" for at in bodies if len(bodies[at]) > 1)
        yield from (f"under several keys: {at}" for at in keys if len(keys[at]) > 1)
        called = Counter(one.key for one in self.calls if one.path == AT_MOST_ONCE)
        yield from (f"called again: {key}" for key, times in called.items() if times > 1)
        yield from (f"not signed: {one.key}" for one in self.calls if not one.is_signed)

    def _of_alerts(self) -> Iterator[str]:
        told: dict[str, list[Alert]] = defaultdict(list)
        for one in self.alerts:
            told[one.alert_id].append(one)
        came = defaultdict[str, list[str]](list)
        first: dict[str, int] = {}
        for number, effect in enumerate(self.acted):
            came[effect.alert_id].append(effect.state)
            first.setdefault(effect.alert_id, number)
        ended = {one.of for one in self.alerts if one.of}
        for alert_id, states in told.items():
            said, of = [one.state for one in states], states[0].of
            for wrong in _of_states(came[alert_id], said):
                yield f"{wrong}: {alert_id[:40]}"
            if alert_id in first and of and first.get(of, FAR) > first[alert_id]:
                yield f"an end without its raise before it: {alert_id[:40]}"
            is_open = not of and said[-1] != "retracted" and alert_id not in ended
            if is_open and alert_id not in first:
                yield f"open and never told: {alert_id[:40]}"

    def _of_silences(self) -> Iterator[str]:
        first: dict[str, int] = {}
        for number, call in enumerate(self.calls):
            for told in call.told:
                first.setdefault(told.alert_id, number)
        for alert_id, until in self.held.items():
            if first.get(alert_id, FAR) < until:
                yield f"told within a silence: {alert_id[:40]}"


def _of_states(came: list[str], said: Sequence[str]) -> Iterator[str]:
    if came != [state for state in said if state in came]:
        yield f"out of order, {came} of {said}"
    if came == ["retracted"]:
        yield "a retraction without its raise"
    if came and said[-1] == "retracted" and came[-1] != "retracted":
        yield f"the retraction is missing behind {came}"

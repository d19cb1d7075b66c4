"""The evaluator's memory of the chains of one partition: alerts, folds and forced ends.

Each alert that may still change has a record of its own. Settled alerts share records (packs); a
pack is decoded only when a window that it reaches is evaluated again.
"""

from collections.abc import Collection, Iterator, Mapping, Set

import msgspec
from msgspec import Struct

from alerting.alert.ids import Chain
from alerting.alert.published import (
    MAX_ALERTS,
    PublishedAlert,
    SettledPack,
    decode_alerts,
    decode_last_window,
    encode_alerts,
    group_settled,
)
from alerting.episodes.affected_days import DayStates, FoldTimeline
from alerting.episodes.fold import FoldState
from tally.alerts.message import Reason

SEPARATOR = "|"


class ForcedEnd(Struct, frozen=True):
    """Why an episode ends with a window, whatever its numbers; who resolved it, and why."""

    reason: Reason
    by: str = ""
    because: str = ""


# Rule and store.
_RuleStore = tuple[str, str]
_NO_LINE = FoldTimeline()
_NOTHING: Set[str] = frozenset()


class ChainMemory:
    """Alerts, folds and forced ends by chain.

    `changes`: the records to write, by key; the value None deletes a record.
    """

    def __init__(self) -> None:
        self.changes: dict[str, bytes | None] = {}
        # Alerts that may still change, by id. A record that deletes an alert has only its id, so
        # `_chains` finds the chain.
        self._alerts: dict[Chain, dict[str, PublishedAlert]] = {}
        self._chains: dict[str, Chain] = {}
        self._packs: dict[_RuleStore, list[SettledPack]] = {}
        self._lines: dict[Chain, FoldTimeline] = {}
        self._forced_ends: dict[Chain, dict[int, ForcedEnd]] = {}
        # Subjects with an alert that may still change, a fold that is not at rest, or a forced end.
        self._live: dict[_RuleStore, set[str]] = {}

    def alerts_since(self, chain: Chain, instant: int) -> dict[str, PublishedAlert]:
        """The alerts by id of later windows (ms since 1970, UTC), with their raises and ends.

        Earlier alerts may be among them.
        """
        found: dict[str, PublishedAlert] = {}
        for _, alerts in self._read_packs(chain, instant):
            found |= alerts
        return found | self._alerts.get(chain, {})

    def fold_line(self, chain: Chain) -> FoldTimeline:
        """The states of the chain's fold at the starts of days."""
        return self._lines.get(chain, _NO_LINE)

    def find_forced_ends(self, chain: Chain) -> Mapping[int, ForcedEnd]:
        """The forced ends of the chain by the window's start (milliseconds since 1970, UTC)."""
        return self._forced_ends.get(chain, {})

    def subjects(self, rule_id: str, store_id: str, since: int) -> Set[str]:
        """The subjects that windows from `since` on may change (milliseconds since 1970, UTC)."""
        place = rule_id, store_id
        live = self._live.get(place, _NOTHING)
        packs = self._packs.get(place)
        return live | {pack.subject for pack in packs if pack.last >= since} if packs else live

    def open_raises(self) -> list[PublishedAlert]:
        """Every raise that stands and has no standing end."""
        found = []
        for alerts in self._alerts.values():
            ended = {alert.of for alert in alerts.values() if alert.is_unretracted}
            standing = (alert for alert in alerts.values() if alert.is_unretracted)
            raises = (alert for alert in standing if alert.edge == "raise")
            found += [alert for alert in raises if alert.alert_id not in ended]
        return found

    def find(self, alert_id: str) -> PublishedAlert | None:
        """The alert with this id if it may still change, else None."""
        chain = self._chains.get(alert_id)
        return None if chain is None else self._alerts[chain][alert_id]

    def store_alert(self, alert: PublishedAlert) -> None:
        """Store the alert's new state."""
        self._write_alert(alert)
        if alert.of is not None and alert.of not in self._chains:
            # The raise lies in a pack. It is open again if this alert does not end it any more.
            raised = self.alerts_since(alert.chain, 0).get(alert.of)
            if raised is not None:
                self._write_alert(raised)

    def set_days(self, chain: Chain, states: DayStates, until: int | None) -> None:
        """Store the fold's states at the starts of consecutive days (ms since 1970, UTC).

        `until`: start of the day after them, None if there is none.
        """
        line = self._lines.get(chain) or FoldTimeline()
        for start, state in line.set_days(states, until).items():
            value = None if state is None else msgspec.json.encode(state)
            self.changes[_key("f", chain, start)] = value
        self._set_line(chain, line)

    def force_end(self, chain: Chain, window: int, end: ForcedEnd) -> None:
        """End an episode with the window (its start, milliseconds since 1970, UTC)."""
        self.load_forced_end(chain, window, end)
        self.changes[_key("r", chain, window)] = msgspec.json.encode(end)

    def compact(self, horizon: int) -> None:
        """Pack settled alerts, and drop what concerns only windows before the horizon.

        `horizon`: milliseconds since 1970 (UTC). An open alert stays, however old it is.
        """
        for chain in [*self._alerts]:
            self._pack(chain)
        for place, packs in [*self._packs.items()]:
            for pack in packs:
                if pack.last < horizon:
                    self.changes[pack_key(Chain(*place, pack.subject), pack.number)] = None
            self._set_packs(place, [recent for recent in packs if recent.last >= horizon])
        for chain, line in [*self._lines.items()]:
            for start in line.forget_before(horizon):
                self.changes[_key("f", chain, start)] = None
            self._set_line(chain, line)
        for chain, ends in [*self._forced_ends.items()]:
            for window in [old for old in ends if old < horizon]:
                self.load_forced_end(chain, window, None)
                self.changes[_key("r", chain, window)] = None

    def load_alert(self, alert: PublishedAlert) -> None:
        """Load an alert from its record."""
        self._alerts.setdefault(alert.chain, {})[alert.alert_id] = alert
        self._chains[alert.alert_id] = alert.chain
        self._update_live(alert.chain)

    def drop_alert(self, alert_id: str) -> None:
        """Forget an alert whose record is deleted."""
        if chain := self._chains.pop(alert_id, None):
            del self._alerts[chain][alert_id]
            if not self._alerts[chain]:
                del self._alerts[chain]
            self._update_live(chain)

    def load_state(self, chain: Chain, start: int, state: FoldState | None) -> None:
        """Load one entry of the chain's fold line; None deletes it."""
        line = self._lines.get(chain) or FoldTimeline()
        line.set_entry(start, state)
        self._set_line(chain, line)

    def load_forced_end(self, chain: Chain, window: int, end: ForcedEnd | None) -> None:
        """Load one forced end; None deletes it."""
        ends = self._forced_ends.setdefault(chain, {})
        if end is None:
            ends.pop(window, None)
        else:
            ends[window] = end
        if not ends:
            del self._forced_ends[chain]
        self._update_live(chain)

    def load_pack(self, chain: Chain, number: int, value: bytes | None) -> None:
        """Load one pack, which stays encoded; None deletes it."""
        packs = self._packs.get(_place(chain), [])
        name = chain.subject, number
        remaining = [pack for pack in packs if (pack.subject, pack.number) != name]
        if value is not None:
            remaining.append(SettledPack(*name, decode_last_window(value), value))
        self._set_packs(_place(chain), remaining)

    def _write_alert(self, alert: PublishedAlert) -> None:
        self.load_alert(alert)
        self.changes[f"e|{alert.alert_id}"] = msgspec.json.encode(alert)

    def _pack(self, chain: Chain) -> None:
        groups = group_settled(self._alerts[chain].values())
        if not groups:
            return
        numbers = dict(self._read_packs(chain, 0))
        for group in groups:
            number = self._number_for(group, numbers)
            numbers.setdefault(number, {}).update((member.alert_id, member) for member in group)
            for alert in group:
                self.drop_alert(alert.alert_id)
                self.changes[f"e|{alert.alert_id}"] = None
        for number, alerts in numbers.items():
            value = encode_alerts([*alerts.values()])
            self.load_pack(chain, number, value)
            self.changes[pack_key(chain, number)] = value

    def _read_packs(
        self, chain: Chain, since: int
    ) -> Iterator[tuple[int, dict[str, PublishedAlert]]]:
        for pack in self._packs.get(_place(chain), ()):
            if pack.subject == chain.subject and pack.last >= since:
                alerts = decode_alerts(chain, pack.value)
                yield pack.number, {alert.alert_id: alert for alert in alerts}

    def _number_for(
        self, group: Collection[PublishedAlert], numbers: Mapping[int, Mapping[str, PublishedAlert]]
    ) -> int:
        """The number of the pack that has the group already, else of the last pack with room."""
        ids = {alert.alert_id for alert in group}
        for number, alerts in numbers.items():
            if ids & alerts.keys():
                return number
        last = max(numbers, default=0)
        count = len(numbers.get(last, ()))
        return last if count + len(group) <= MAX_ALERTS else last + 1

    def _set_packs(self, place: _RuleStore, packs: list[SettledPack]) -> None:
        if packs:
            self._packs[place] = packs
        else:
            self._packs.pop(place, None)

    def _set_line(self, chain: Chain, line: FoldTimeline) -> None:
        if line.entries:
            self._lines[chain] = line
        else:
            self._lines.pop(chain, None)
        self._update_live(chain)

    def _update_live(self, chain: Chain) -> None:
        """Note whether the chain is live, for subjects()."""
        place = _place(chain)
        is_moving = not self.fold_line(chain).is_idle
        if is_moving or chain in self._alerts or chain in self._forced_ends:
            self._live.setdefault(place, set()).add(chain.subject)
        elif place in self._live:
            self._live[place].discard(chain.subject)
            if not self._live[place]:
                del self._live[place]


def _place(chain: Chain) -> _RuleStore:
    return chain.rule_id, chain.store_id


def _key(kind: str, chain: Chain, number: int) -> str:
    names = chain.rule_id, chain.store_id, chain.subject
    return SEPARATOR.join((kind, *names, str(number)))


def pack_key(chain: Chain, number: int) -> str:
    """The record key of a pack of settled alerts."""
    return _key("h", chain, number)

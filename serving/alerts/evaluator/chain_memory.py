"""What an evaluator remembers of the chains of one partition: alerts, folds and forced ends.

Alerts that may still change lie apart, one in a record; settled ones lie in packs that are decoded
where a window that they reach is judged again.
"""

from collections.abc import Collection, Iterator, Mapping, Set

import msgspec
from msgspec import Struct

from tally.alerts.fold import FoldState
from tally.alerts.fold_line import DayStates, FoldLine
from tally.alerts.ids import Chain
from tally.alerts.message import Reason
from tally.alerts.settled import (
    MOST_ALERTS,
    SettledPack,
    decoded,
    encoded,
    last_of,
    settled_groups,
)
from tally.alerts.told import ToldAlert

SEPARATOR = "|"


class ForcedEnd(Struct, frozen=True):
    """Why an episode of a chain ends with a window, whatever the numbers of that window are.

    `by` and `because`: who resolved it, and the reason in words.
    """

    reason: Reason
    by: str = ""
    because: str = ""


# Rule and store.
_RuleStore = tuple[str, str]
_NO_LINE = FoldLine()
_NOTHING: Set[str] = frozenset()


class ChainMemory:
    """Alerts, folds and forced ends by chain; `changed`: records by key, None deletes one."""

    def __init__(self) -> None:
        self.changed: dict[str, bytes | None] = {}
        # Those that may still change, by id; a record that deletes one has its id alone.
        self._alerts: dict[Chain, dict[str, ToldAlert]] = {}
        self._chains: dict[str, Chain] = {}
        self._packs: dict[_RuleStore, list[SettledPack]] = {}
        self._lines: dict[Chain, FoldLine] = {}
        self._forced: dict[Chain, dict[int, ForcedEnd]] = {}
        # Subjects with an alert that may change, a fold that is not at rest, or a forced end.
        self._live: dict[_RuleStore, set[str]] = {}

    def alerts_since(self, chain: Chain, instant: int) -> dict[str, ToldAlert]:
        """By id the alerts that reach the instant (milliseconds since 1970, UTC): those of a later
        window with their raises and ends; earlier ones may be among them."""
        found: dict[str, ToldAlert] = {}
        for pack in self._packs.get(_place(chain), ()):
            if pack.subject == chain.subject and pack.last >= instant:
                found |= {alert.alert_id: alert for alert in decoded(chain, pack.value)}
        return found | self._alerts.get(chain, {})

    def line(self, chain: Chain) -> FoldLine:
        """Where the fold of the chain stands at the starts of days."""
        return self._lines.get(chain, _NO_LINE)

    def forced_ends(self, chain: Chain) -> Mapping[int, ForcedEnd]:
        """By the window's start (milliseconds since 1970, UTC)."""
        return self._forced.get(chain, {})

    @property
    def all_forced_ends(self) -> Mapping[Chain, Mapping[int, ForcedEnd]]:
        """Those of all chains, by the window's start (milliseconds since 1970, UTC)."""
        return self._forced

    def subjects(self, rule_id: str, store_id: str, since: int) -> Set[str]:
        """Those of which something may change by windows from an instant on, milliseconds since
        1970 (UTC)."""
        place = rule_id, store_id
        live = self._live.get(place, _NOTHING)
        packs = self._packs.get(place)
        return live | {one.subject for one in packs if one.last >= since} if packs else live

    def open_raises(self) -> list[ToldAlert]:
        """Every raise that stands and that nothing has ended."""
        found = []
        for alerts in self._alerts.values():
            ended = {one.of for one in alerts.values() if one.is_standing}
            standing = (one for one in alerts.values() if one.is_standing and one.edge == "raise")
            found += [one for one in standing if one.alert_id not in ended]
        return found

    def find(self, alert_id: str) -> ToldAlert | None:
        """The alert, where it may still change."""
        chain = self._chains.get(alert_id)
        return None if chain is None else self._alerts[chain][alert_id]

    def tell(self, alert: ToldAlert) -> None:
        """The alert stands like this from now on."""
        self._write_alert(alert)
        if alert.of is not None and alert.of not in self._chains:
            # Its raise lies in a pack, and is open again if that is no end of it any more.
            raised = self.alerts_since(alert.chain, 0).get(alert.of)
            if raised is not None:
                self._write_alert(raised)

    def set_days(self, chain: Chain, states: DayStates, until: int | None) -> None:
        """The fold stands there at the starts of consecutive days (milliseconds since 1970, UTC);
        `until`: start of the day behind them, None without one."""
        line = self._lines.get(chain) or FoldLine()
        for start, state in line.set_days(states, until).items():
            value = None if state is None else msgspec.json.encode(state)
            self.changed[_key("f", chain, start)] = value
        self._keep_line(chain, line)

    def force_end(self, chain: Chain, window: int, end: ForcedEnd) -> None:
        """An episode ends with the window (its start, milliseconds since 1970, UTC)."""
        self.recall_forced(chain, window, end)
        self.changed[_key("r", chain, window)] = msgspec.json.encode(end)

    def settle(self, horizon: int) -> None:
        """Packs what is settled, and drops what is only of windows before the horizon (milliseconds
        since 1970, UTC). An alert that is open is kept, however old it is."""
        for chain in [*self._alerts]:
            self._pack(chain)
        for place, packs in [*self._packs.items()]:
            for pack in packs:
                if pack.last < horizon:
                    self.changed[pack_key(Chain(*place, pack.subject), pack.number)] = None
            self._keep_packs(place, [one for one in packs if one.last >= horizon])
        for chain, line in [*self._lines.items()]:
            for start in line.forget_before(horizon):
                self.changed[_key("f", chain, start)] = None
            self._keep_line(chain, line)
        for chain, ends in [*self._forced.items()]:
            for window in [one for one in ends if one < horizon]:
                self.recall_forced(chain, window, None)
                self.changed[_key("r", chain, window)] = None

    def recall_alert(self, alert: ToldAlert) -> None:
        """As its record says."""
        self._alerts.setdefault(alert.chain, {})[alert.alert_id] = alert
        self._chains[alert.alert_id] = alert.chain
        self._note(alert.chain)

    def drop_alert(self, alert_id: str) -> None:
        """Its record is deleted."""
        if chain := self._chains.pop(alert_id, None):
            del self._alerts[chain][alert_id]
            if not self._alerts[chain]:
                del self._alerts[chain]
            self._note(chain)

    def recall_state(self, chain: Chain, start: int, state: FoldState | None) -> None:
        """One entry of the chain's line; None: it is deleted."""
        line = self._lines.get(chain) or FoldLine()
        line.set_entry(start, state)
        self._keep_line(chain, line)

    def recall_forced(self, chain: Chain, window: int, end: ForcedEnd | None) -> None:
        """One forced end; None: it is deleted."""
        ends = self._forced.setdefault(chain, {})
        if end is None:
            ends.pop(window, None)
        else:
            ends[window] = end
        if not ends:
            del self._forced[chain]
        self._note(chain)

    def recall_all_forced(self, forced: Mapping[Chain, Mapping[int, ForcedEnd]]) -> None:
        """As another memory has them."""
        for chain, ends in forced.items():
            for window, end in ends.items():
                self.recall_forced(chain, window, end)

    def recall_pack(self, chain: Chain, number: int, value: bytes | None) -> None:
        """One pack, which stays encoded; None: it is deleted."""
        packs = self._packs.get(_place(chain), [])
        of = chain.subject, number
        kept = [one for one in packs if (one.subject, one.number) != of]
        if value is not None:
            kept.append(SettledPack(*of, last_of(value), value))
        self._keep_packs(_place(chain), kept)

    def _write_alert(self, alert: ToldAlert) -> None:
        self.recall_alert(alert)
        self.changed[f"e|{alert.alert_id}"] = msgspec.json.encode(alert)

    def _pack(self, chain: Chain) -> None:
        groups = settled_groups(self._alerts[chain].values())
        if not groups:
            return
        numbers = dict(self._unpacked(chain))
        for group in groups:
            number = self._number_for(group, numbers)
            numbers.setdefault(number, {}).update((one.alert_id, one) for one in group)
            for alert in group:
                self.drop_alert(alert.alert_id)
                self.changed[f"e|{alert.alert_id}"] = None
        for number, alerts in numbers.items():
            value = encoded([*alerts.values()])
            self.recall_pack(chain, number, value)
            self.changed[pack_key(chain, number)] = value

    def _unpacked(self, chain: Chain) -> Iterator[tuple[int, dict[str, ToldAlert]]]:
        for pack in self._packs.get(_place(chain), ()):
            if pack.subject == chain.subject:
                yield pack.number, {one.alert_id: one for one in decoded(chain, pack.value)}

    def _number_for(
        self, group: Collection[ToldAlert], numbers: Mapping[int, Mapping[str, ToldAlert]]
    ) -> int:
        """Of the pack that has the group already, else of the last one while there is room."""
        ids = {one.alert_id for one in group}
        found = [number for number, alerts in numbers.items() if ids & alerts.keys()]
        if found:
            return found[0]
        last = max(numbers, default=0)
        count = len(numbers.get(last, ()))
        return last if count + len(group) <= MOST_ALERTS else last + 1

    def _keep_packs(self, place: _RuleStore, packs: list[SettledPack]) -> None:
        if packs:
            self._packs[place] = packs
        else:
            self._packs.pop(place, None)

    def _keep_line(self, chain: Chain, line: FoldLine) -> None:
        if line.entries:
            self._lines[chain] = line
        else:
            self._lines.pop(chain, None)
        self._note(chain)

    def _note(self, chain: Chain) -> None:
        """Whether the chain is live."""
        place = _place(chain)
        is_moving = not self.line(chain).is_at_rest
        if is_moving or chain in self._alerts or chain in self._forced:
            self._live.setdefault(place, set()).add(chain.subject)
        elif place in self._live:
            self._live[place].discard(chain.subject)
            if not self._live[place]:
                del self._live[place]


def _place(chain: Chain) -> _RuleStore:
    return chain.rule_id, chain.store_id


def _key(kind: str, chain: Chain, instant: int) -> str:
    of = chain.rule_id, chain.store_id, chain.subject
    return SEPARATOR.join((kind, *of, str(instant)))


def pack_key(chain: Chain, number: int) -> str:
    """The key of a record of settled alerts."""
    return _key("h", chain, number)

"""Versions of rules, made from the records of the topic of rules and from nothing else.

The changes of a rule have one order: each record names the change that it follows, and of several
that follow the same one the first by offset holds, for good. The others change nothing. What only
says how an alert is told makes no version, but a revision of the newest one; it holds as soon as it
is read.

Records of earlier versions of Tally name no change that they follow. Of those the first of a key
holds, and the order of their offsets does not matter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, structs

from tally.alerts.conditions import negated
from tally.alerts.rule import COSMETIC, Rule, RuleId, RuleVersion, told_rule, with_cosmetics
from tally.alerts.rule_shape import rule_of
from tally.errors import BadRule
from tally.windows import WINDOW_MILLIS

_MOST_PROBLEM = 300
_Ordinal = Annotated[int, Meta(ge=1, le=10**9)]


class RuleChangeNumber(Struct, frozen=True, forbid_unknown_fields=True):
    """Which change of a rule: its version, and which revision of that; both 0: before the first."""

    version: Annotated[int, Meta(ge=0, le=10**9)] = 0
    revision: Annotated[int, Meta(ge=0, le=10**9)] = 0


class _StoredShape(Struct, frozen=True):
    """A record's value, the rule in it unread; what else a later version writes is passed over."""

    rule_id: RuleId
    version: _Ordinal
    revision: _Ordinal
    retired: bool
    rule: dict[str, Any]
    after: RuleChangeNumber | None = None


class StoredRule(Struct, frozen=True, kw_only=True):
    """What a record of the topic says: a version of a rule, or a revision of one.

    `after`: the change that its writer had read as the newest; None in old records.
    """

    rule: Rule
    version: int
    revision: int = 1
    retired: bool = False
    after: RuleChangeNumber | None = None

    @property
    def key(self) -> str:
        """The record's key; no rule id holds a bar."""
        # The version itself has no further number: so the keys of old records have it.
        version = f"{self.rule.rule_id}|{self.version}"
        return version if self.revision == 1 else f"{version}|{self.revision}"

    @property
    def value(self) -> bytes:
        """The record's value in JSON, as schemas/topics/alert-rules.schema.json has it."""
        numbered = {"version": self.version, "revision": self.revision, "retired": self.retired}
        # All fields, defaults too: a default that changes later changes no rule that was applied.
        told = {"rule_id": self.rule.rule_id, **numbered, "rule": told_rule(self.rule)}
        after = {} if self.after is None else {"after": self.after}
        return msgspec.json.encode({**told, **after})


class RuleRecord(NamedTuple):
    """A record of the topic; `arrived_ms`: milliseconds since 1970 (UTC) by the brokers."""

    offset: int
    key: bytes
    value: bytes
    arrived_ms: int


class RuleEntry(NamedTuple):
    """A record that was read: what it says, or the problem because of which it says nothing."""

    offset: int
    arrived_ms: int
    stored: StoredRule | None
    problem: str = ""


@dataclass(frozen=True)
class RuleChains:
    """The versions of each rule by its id, ascending; `unread`: records that say nothing, and why.

    `held`: the changes that hold, by key.
    """

    chains: Mapping[str, tuple[RuleVersion, ...]]
    held: Mapping[str, StoredRule]
    unread: tuple[str, ...] = ()

    def newest(self, rule_id: str) -> RuleVersion | None:
        """The last version of a rule, in force or soon; None of a rule that nobody has written."""
        chain = self.chains.get(rule_id)
        return chain[-1] if chain else None

    def holds(self, stored: StoredRule) -> bool:
        """Whether the change is one of those that hold, also if others have followed it."""
        return self.held.get(stored.key) == stored

    def version(self, rule_id: str, number: int) -> RuleVersion | None:
        """One version of a rule by its number, None if there is none."""
        chain = self.chains.get(rule_id, ())
        return next((version for version in chain if version.version == number), None)

    def living(self) -> dict[str, Rule]:
        """By id the rules whose last version is not retired, as that one has them."""
        newest = ((rule_id, chain[-1]) for rule_id, chain in self.chains.items())
        return {rule_id: one.rule for rule_id, one in newest if not one.retired}


def effective_from(arrived_ms: int) -> int:
    """The first start of a window that is at least one window after the arrival of a version.

    Both in milliseconds since 1970 (UTC). Of the record alone: no window that had begun when it
    came is ever judged by it, whoever reads it when.

    >>> effective_from(0), effective_from(1), effective_from(900_000)
    (900000, 1800000, 1800000)
    """
    return -(-(arrived_ms + WINDOW_MILLIS) // WINDOW_MILLIS) * WINDOW_MILLIS


def meaning(rule: Rule) -> dict[str, Any]:
    """The fields that make a version by their names in a file: all but those of COSMETIC.

    What says the same is the same: an order that decides nothing is left out, and a `clear` that is
    the condition's negation is the default.
    """
    told = {name: value for name, value in told_rule(rule).items() if name not in COSMETIC}
    for name in ("stores", "unless", "within"):
        if isinstance(told[name], list):
            told[name] = sorted(told[name], key=str)
    # As numbers: 6 and 6.0 are one.
    told["condition"], told["clear"] = rule.condition, rule.clear
    told["and"] = frozenset(rule.and_)
    if rule.condition is not None and rule.clear == negated(rule.condition):
        told["clear"] = None
    return told


def entry_of(record: RuleRecord) -> RuleEntry:
    """What a record says. It raises nothing, whatever the bytes: no record may stop a reader."""
    try:
        stored = _stored(msgspec.json.decode(record.value))
        # Else a record could take the place of a version that it does not name.
        if stored.key.encode() != record.key:
            raise BadRule([f"its key is not {stored.key}"])
    except (BadRule, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = f"offset {record.offset}: {str(error)[:_MOST_PROBLEM]}"
        return RuleEntry(record.offset, record.arrived_ms, None, problem)
    return RuleEntry(record.offset, record.arrived_ms, stored)


def versions_of(records: Iterable[RuleRecord]) -> RuleChains:
    """The versions that the records of the topic make, in whatever order they are given."""
    return chains_of(map(entry_of, records))


def chains_of(entries: Iterable[RuleEntry]) -> RuleChains:
    """As versions_of(), of records that were read before."""
    unread: list[str] = []
    histories: dict[str, _History] = {}
    for entry in sorted(entries, key=attrgetter("offset")):
        # It takes no key either: garbage would block a version for ever.
        if entry.stored is None:
            unread.append(entry.problem)
        else:
            history = histories.setdefault(entry.stored.rule.rule_id, _History())
            history.add(entry.stored, entry.arrived_ms)
    chains = {rule_id: history.chain() for rule_id, history in histories.items()}
    held: dict[str, StoredRule] = {}
    for history in histories.values():
        held |= history.held()
    written = {rule_id: chain for rule_id, chain in chains.items() if chain}
    return RuleChains(written, held, tuple(unread))


def change_number(newest: RuleVersion | None) -> RuleChangeNumber:
    """The number of a rule's newest change, by which the next one names it."""
    if newest is None:
        return RuleChangeNumber()
    return RuleChangeNumber(newest.version, newest.revision)


@dataclass
class _History:
    """The changes of one rule, added in the order of their offsets.

    `_kept`: by key what may hold, with its arrival; `_versions`: what it makes, None until it is
    computed.
    """

    _kept: dict[str, tuple[StoredRule, int]] = field(default_factory=dict)
    _versions: dict[int, RuleVersion] | None = None

    def add(self, stored: StoredRule, arrived_ms: int) -> None:
        """Take the change, unless another one came before it."""
        if stored.after is None:
            # Old records: whatever their order, the first of a key holds.
            if stored.key not in self._kept:
                self._kept[stored.key] = stored, arrived_ms
                self._versions = None
            return
        versions = self._current()
        newest = versions[max(versions)] if versions else None
        if stored.after == change_number(newest) and _is_next(stored, newest):
            # An old record under this key has revised nothing, or it would be the newest.
            self._kept[stored.key] = stored, arrived_ms
            _apply(stored, arrived_ms, versions)

    def chain(self) -> tuple[RuleVersion, ...]:
        """The versions, ascending."""
        versions = self._current()
        return tuple(versions[number] for number in sorted(versions))

    def held(self) -> dict[str, StoredRule]:
        """By key the changes that hold."""
        return {key: stored for key, (stored, _) in self._kept.items()}

    def _current(self) -> dict[int, RuleVersion]:
        if self._versions is None:
            self._versions = {}
            # Versions first, the highest revision last: its writer knew the others.
            by_number = sorted(self._kept.values(), key=lambda kept: kept[0].revision)
            for stored, arrived_ms in by_number:
                _apply(stored, arrived_ms, self._versions)
        return self._versions


def _is_next(stored: StoredRule, newest: RuleVersion | None) -> bool:
    """Whether the change has the number behind the newest one's, and is one of its kind."""
    if stored.revision == 1:
        return stored.version == change_number(newest).version + 1
    return (
        newest is not None
        and (stored.version, stored.revision) == (newest.version, newest.revision + 1)
        and _revises(stored, newest)
    )


def _apply(stored: StoredRule, arrived_ms: int, versions: dict[int, RuleVersion]) -> None:
    """Put a version, or a revision of one that is there, into a rule's versions by number."""
    if stored.revision == 1:
        versions[stored.version] = _version(stored, arrived_ms)
        return
    base = versions.get(stored.version)
    # Of a version that nobody has written, or with another meaning, it revises nothing.
    if base is not None and _revises(stored, base):
        rule = with_cosmetics(base.rule, stored.rule)
        versions[stored.version] = structs.replace(base, rule=rule, revision=stored.revision)


def _version(stored: StoredRule, arrived_ms: int) -> RuleVersion:
    return RuleVersion(
        rule=stored.rule,
        version=stored.version,
        effective_from=effective_from(arrived_ms),
        retired=stored.retired,
    )


def _revises(stored: StoredRule, base: RuleVersion) -> bool:
    return not base.retired and meaning(stored.rule) == meaning(base.rule)


def _stored(told: object) -> StoredRule:
    """Raises BadRule and ValidationError."""
    shape = msgspec.convert(told, _StoredShape)
    rule = rule_of(shape.rule)
    if rule.rule_id != shape.rule_id:
        raise BadRule([f"rule_id: {shape.rule_id} is not that of the rule, {rule.rule_id}"])
    return StoredRule(
        rule=rule,
        version=shape.version,
        revision=shape.revision,
        retired=shape.retired,
        after=shape.after,
    )

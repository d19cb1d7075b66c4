"""Versions of rules, computed only from the records of the rules topic.

The changes of a rule have one order. Each record names the change that it follows; if several
records follow the same change, the one with the lowest offset holds for good, and the others change
nothing. A change of cosmetic fields alone makes no version, but a revision of the newest one, which
holds as soon as it is read.

Records of earlier versions of Tally do not name the change that they follow. The first such record
of a key holds, and the order of their offsets does not matter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct, structs

from alerting.rules.conditions import negate
from alerting.rules.rule import (
    COSMETIC_FIELDS,
    Rule,
    RuleId,
    RuleVersion,
    rule_to_fields,
    with_cosmetics,
)
from alerting.rules.rule_file import rule_from_fields
from tally.errors import BadRule
from tally.time.windows import WINDOW_MILLIS

_MAX_PROBLEM = 300
_Ordinal = Annotated[int, Meta(ge=1, le=10**9)]


class RuleChangeNumber(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of a rule's change: version and revision, both 0 before the first change."""

    version: Annotated[int, Meta(ge=0, le=10**9)] = 0
    revision: Annotated[int, Meta(ge=0, le=10**9)] = 0


class _StoredFields(Struct, frozen=True):
    """A record's value with the rule unparsed; unknown fields of later versions are ignored."""

    rule_id: RuleId
    version: _Ordinal
    revision: _Ordinal
    retired: bool
    rule: dict[str, Any]
    after: RuleChangeNumber | None = None


class StoredRule(Struct, frozen=True, kw_only=True):
    """The content of a record of the topic: a version of a rule, or a revision of a version.

    `after`: the change that its writer had read as the newest; None in old records.
    """

    rule: Rule
    version: int
    revision: int = 1
    retired: bool = False
    after: RuleChangeNumber | None = None

    @property
    def key(self) -> str:
        """The record's key; a rule id never contains a bar."""
        # The first revision has no number in the key, because the keys of old records have none.
        version = f"{self.rule.rule_id}|{self.version}"
        return version if self.revision == 1 else f"{version}|{self.revision}"

    @property
    def value(self) -> bytes:
        """The record's value in JSON, as schemas/topics/alert-rules.schema.json has it."""
        numbered = {"version": self.version, "revision": self.revision, "retired": self.retired}
        # Defaults are written too, so that a later change of a default changes no applied rule.
        fields = {"rule_id": self.rule.rule_id, **numbered, "rule": rule_to_fields(self.rule)}
        after = {} if self.after is None else {"after": self.after}
        return msgspec.json.encode({**fields, **after})


class RuleRecord(NamedTuple):
    """A record of the topic; `arrived_ms`: milliseconds since 1970 (UTC) by the brokers' clock."""

    offset: int
    key: bytes
    value: bytes
    arrived_ms: int


class RuleEntry(NamedTuple):
    """A parsed record: its content, or the problem because of which it has none."""

    offset: int
    arrived_ms: int
    stored: StoredRule | None
    problem: str = ""


@dataclass(frozen=True)
class RuleHistory:
    """The versions of each rule by its id, ascending.

    `effective_changes`: the changes that hold, by key. `problems`: the problems of records without
    valid content.
    """

    versions: Mapping[str, tuple[RuleVersion, ...]]
    effective_changes: Mapping[str, StoredRule]
    problems: tuple[str, ...] = ()

    def newest_version(self, rule_id: str) -> RuleVersion | None:
        """The last version of a rule, in force now or soon; None for an unknown rule."""
        chain = self.versions.get(rule_id)
        return chain[-1] if chain else None

    def is_effective(self, stored: StoredRule) -> bool:
        """Whether the change is one of those that hold, even if others have followed it."""
        return self.effective_changes.get(stored.key) == stored

    def find_version(self, rule_id: str, number: int) -> RuleVersion | None:
        """The version of a rule with this number, or None."""
        chain = self.versions.get(rule_id, ())
        return next((version for version in chain if version.version == number), None)

    def active_rules(self) -> dict[str, Rule]:
        """The rules whose last version is not retired, by id, as that version states them."""
        newest = ((rule_id, chain[-1]) for rule_id, chain in self.versions.items())
        return {rule_id: version.rule for rule_id, version in newest if not version.retired}


class RuleSource(Protocol):
    """The source from which rules are read."""

    def read(self, until: int | None = None) -> RuleHistory:
        """The rule versions below the offset `until`.

        Raises KafkaException or StackError when they cannot be read.
        """


def effective_from(arrived_ms: int) -> int:
    """The first start of a window that is at least one window after the arrival of a version.

    Both are in milliseconds since 1970 (UTC). The result depends on the record alone, so no reader
    ever evaluates a window by a version that arrived after the window had begun.

    >>> effective_from(0), effective_from(1), effective_from(900_000)
    (900000, 1800000, 1800000)
    """
    return -(-(arrived_ms + WINDOW_MILLIS) // WINDOW_MILLIS) * WINDOW_MILLIS


def meaning_fields(rule: Rule) -> dict[str, Any]:
    """The fields that make a version, by their names in a file: all but COSMETIC_FIELDS.

    Rules with the same meaning have equal results: an order that decides nothing is removed, and a
    `clear` that is the condition's negation counts as the default.
    """
    all_fields = rule_to_fields(rule).items()
    fields = {name: value for name, value in all_fields if name not in COSMETIC_FIELDS}
    for name in ("stores", "unless", "within"):
        if isinstance(fields[name], list):
            fields[name] = sorted(fields[name], key=str)
    # Conditions are compared as numbers: 6 and 6.0 are equal.
    fields["condition"], fields["clear"] = rule.condition, rule.clear
    fields["and"] = frozenset(rule.and_)
    if rule.condition is not None and rule.clear == negate(rule.condition):
        fields["clear"] = None
    return fields


def parse_entry(record: RuleRecord) -> RuleEntry:
    """The parsed record. Never raises, because no record may stop a reader."""
    try:
        stored = _parse_stored(msgspec.json.decode(record.value))
        # Without this check a record could replace a version that it does not name.
        if stored.key.encode() != record.key:
            raise BadRule([f"its key is not {stored.key}"])
    except (BadRule, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = f"offset {record.offset}: {str(error)[:_MAX_PROBLEM]}"
        return RuleEntry(record.offset, record.arrived_ms, None, problem)
    return RuleEntry(record.offset, record.arrived_ms, stored)


def build_history(entries: Iterable[RuleEntry]) -> RuleHistory:
    """The versions that the parsed records of the topic make, in any order of the argument."""
    unread: list[str] = []
    histories: dict[str, _ChangeHistory] = {}
    for entry in sorted(entries, key=attrgetter("offset")):
        # An invalid record also takes no key, or garbage would block a version for ever.
        if entry.stored is None:
            unread.append(entry.problem)
        else:
            history = histories.setdefault(entry.stored.rule.rule_id, _ChangeHistory())
            history.add(entry.stored, entry.arrived_ms)
    chains = {rule_id: history.to_versions() for rule_id, history in histories.items()}
    effective: dict[str, StoredRule] = {}
    for history in histories.values():
        effective |= history.effective_changes()
    written = {rule_id: chain for rule_id, chain in chains.items() if chain}
    return RuleHistory(written, effective, tuple(unread))


def change_number(newest: RuleVersion | None) -> RuleChangeNumber:
    """The number of a rule's newest change, which the next change names as `after`."""
    if newest is None:
        return RuleChangeNumber()
    return RuleChangeNumber(newest.version, newest.revision)


@dataclass
class _ChangeHistory:
    """The changes of one rule, added in the order of their offsets.

    `_stored`: the changes that may hold, with their arrival, by key; `_versions`: the versions that
    they make, None until computed.
    """

    _stored: dict[str, tuple[StoredRule, int]] = field(default_factory=dict)
    _versions: dict[int, RuleVersion] | None = None

    def add(self, stored: StoredRule, arrived_ms: int) -> None:
        """Adds the change, unless another one came before it."""
        if stored.after is None:
            # This is an old record; the first of a key holds in any order.
            if stored.key not in self._stored:
                self._stored[stored.key] = stored, arrived_ms
                self._versions = None
            return
        versions = self._compute_versions()
        newest = versions[max(versions)] if versions else None
        if stored.after == change_number(newest) and _is_next(stored, newest):
            # An old record under this key has revised nothing, or it would be the newest change.
            self._stored[stored.key] = stored, arrived_ms
            _apply_change(stored, arrived_ms, versions)

    def to_versions(self) -> tuple[RuleVersion, ...]:
        """The versions in ascending order."""
        versions = self._compute_versions()
        return tuple(versions[number] for number in sorted(versions))

    def effective_changes(self) -> dict[str, StoredRule]:
        """The changes that hold, by key."""
        return {key: stored for key, (stored, _) in self._stored.items()}

    def _compute_versions(self) -> dict[int, RuleVersion]:
        if self._versions is None:
            self._versions = {}
            # Versions come first and the highest revision last, because its writer knew the others.
            by_number = sorted(self._stored.values(), key=lambda entry: entry[0].revision)
            for stored, arrived_ms in by_number:
                _apply_change(stored, arrived_ms, self._versions)
        return self._versions


def _is_next(stored: StoredRule, newest: RuleVersion | None) -> bool:
    """Whether the change has the number after the newest one's, and may follow it."""
    if stored.revision == 1:
        return stored.version == change_number(newest).version + 1
    if newest is None or not _revises(stored, newest):
        return False
    return (stored.version, stored.revision) == (newest.version, newest.revision + 1)


def _apply_change(stored: StoredRule, arrived_ms: int, versions: dict[int, RuleVersion]) -> None:
    """Puts a version, or a revision of a known version, into a rule's versions by number."""
    if stored.revision == 1:
        since = effective_from(arrived_ms)
        versions[stored.version] = RuleVersion(
            rule=stored.rule, version=stored.version, effective_from=since, retired=stored.retired
        )
        return
    base = versions.get(stored.version)
    # A revision of an unknown version, or with another meaning, changes nothing.
    if base is not None and _revises(stored, base):
        rule = with_cosmetics(base.rule, stored.rule)
        versions[stored.version] = structs.replace(base, rule=rule, revision=stored.revision)


def _revises(stored: StoredRule, base: RuleVersion) -> bool:
    return not base.retired and meaning_fields(stored.rule) == meaning_fields(base.rule)


def _parse_stored(value: object) -> StoredRule:
    """The rule record from decoded JSON. Raises BadRule and ValidationError."""
    shape = msgspec.convert(value, _StoredFields)
    rule = rule_from_fields(shape.rule)
    if rule.rule_id != shape.rule_id:
        raise BadRule([f"rule_id: {shape.rule_id} is not that of the rule, {rule.rule_id}"])
    return StoredRule(
        rule=rule,
        version=shape.version,
        revision=shape.revision,
        retired=shape.retired,
        after=shape.after,
    )

"""Versions of rules, computed only from the records of the rules topic; and their changes.

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
from typing import Annotated, Any, Literal, NamedTuple, Protocol

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
from tally.errors import BadRule, TallyError
from tally.time.windows import WINDOW_MILLIS

RuleChange = Literal["new", "version", "revision", "same"]
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
        """The rule versions below the offset `until`. Raises KafkaException, StackError."""


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
        problem = f"offset {record.offset}: {str(error)[:300]}"
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
    chains: dict[str, tuple[RuleVersion, ...]] = {}
    effective: dict[str, StoredRule] = {}
    for rule_id, history in histories.items():
        effective |= {key: stored for key, (stored, _) in history.stored.items()}
        if versions := history.compute_versions():
            chains[rule_id] = tuple(versions[number] for number in sorted(versions))
    return RuleHistory(chains, effective, tuple(unread))


def change_number(newest: RuleVersion | None) -> RuleChangeNumber:
    """The number of a rule's newest change, which the next change names as `after`."""
    return RuleChangeNumber(newest.version, newest.revision) if newest else RuleChangeNumber()


@dataclass
class _ChangeHistory:
    """The changes of one rule, added in the order of their offsets.

    `stored`: the changes that may hold, with their arrival, by key; `_versions`: the versions that
    they make, None until computed.
    """

    stored: dict[str, tuple[StoredRule, int]] = field(default_factory=dict)
    _versions: dict[int, RuleVersion] | None = None

    def add(self, stored: StoredRule, arrived_ms: int) -> None:
        """Adds the change, unless another one came before it."""
        if stored.after is None:
            # This is an old record; the first of a key holds in any order.
            if stored.key not in self.stored:
                self.stored[stored.key] = stored, arrived_ms
                self._versions = None
            return
        versions = self.compute_versions()
        newest = versions[max(versions)] if versions else None
        if stored.after == change_number(newest) and _is_next(stored, newest):
            # An old record under this key has revised nothing, or it would be the newest change.
            self.stored[stored.key] = stored, arrived_ms
            _apply_change(stored, arrived_ms, versions)

    def compute_versions(self) -> dict[int, RuleVersion]:
        """The versions by number, which counts from 1 on; in any order."""
        if self._versions is None:
            self._versions = {}
            # Versions come first and the highest revision last, because its writer knew the others.
            changes = sorted(self.stored.values(), key=lambda change: change[0].revision)
            for stored, arrived_ms in changes:
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


class RuleFieldChange(NamedTuple):
    """A field that gets another value, as written in a file; None where it has no value."""

    field: str
    before: Any
    after: Any


class RulePlan(NamedTuple):
    """The plan for a rule: the record to write, None if nothing changes, and the changed fields."""

    rule_id: str
    change: RuleChange
    stored: StoredRule | None
    fields: tuple[RuleFieldChange, ...]


def plan_rule(rule: Rule, newest: RuleVersion | None) -> RulePlan:
    """The plan for applying a rule after its newest version, None where the rule does not exist.

    A retired rule comes back as a further version. The record to write names the newest version as
    the change that it follows.
    """
    after = change_number(newest)
    before = rule_to_fields(newest.rule) if newest else {}
    fields = tuple(
        RuleFieldChange(name, before.get(name), value)
        for name, value in rule_to_fields(rule).items()
        if before.get(name) != value
    )
    # A retired rule needs a version even with the same meaning: it raised nothing in between.
    if newest is None or newest.retired or meaning_fields(rule) != meaning_fields(newest.rule):
        stored = StoredRule(rule=rule, version=after.version + 1, after=after)
        return RulePlan(rule.rule_id, "version" if newest else "new", stored, fields)
    # Another order of stores changes only the file.
    cosmetic = tuple(change for change in fields if change.field in COSMETIC_FIELDS)
    if not cosmetic:
        return RulePlan(rule.rule_id, "same", None, ())
    revision = newest.revision + 1
    stored = StoredRule(rule=rule, version=newest.version, revision=revision, after=after)
    return RulePlan(rule.rule_id, "revision", stored, cosmetic)


def plan_retirement(rule_id: str, chains: RuleHistory) -> StoredRule:
    """The last version of a rule, from which on the rule raises no alerts.

    Raises TallyError for a rule that does not exist, is retired, or that other rules wait for.
    """
    newest = chains.newest_version(rule_id)
    if newest is None or newest.retired:
        known = ", ".join(sorted(chains.active_rules())) or "none"
        raise TallyError(f"rules: there is no rule {rule_id!r} in force; there are {known}")
    # The other rules would wait for a rule that never opens an episode again.
    waiting = [name for name, rule in chains.active_rules().items() if rule_id in rule.unless]
    if waiting:
        raise TallyError(
            f"rules: {', '.join(waiting)} names {rule_id} in `unless`; apply it without, then"
            f" retire {rule_id}"
        )
    after = change_number(newest)
    return StoredRule(rule=newest.rule, version=newest.version + 1, retired=True, after=after)

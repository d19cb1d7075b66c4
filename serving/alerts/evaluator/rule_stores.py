"""Which stores a rule is about, and which it says should send."""

from collections.abc import Iterable
from datetime import date

from serving.query.stores import Store
from tally.alerts.rule import InGroup, Rule, RuleVersion


def is_of(rule: Rule, store: Store, day: date) -> bool:
    """Whether the rule is about the store, as that is on a local day."""
    if rule.stores == "all":
        return True
    if isinstance(rule.stores, InGroup):
        return rule.stores.region in store.entry.on(day).groups
    return store.store_id in rule.stores


def names_stores(rule: Rule) -> bool:
    """Whether it is a silence rule that names its stores one by one."""
    return rule.kind == "silence" and isinstance(rule.stores, tuple)


def expected_stores(versions: Iterable[RuleVersion]) -> dict[str, frozenset[str]]:
    """By family the stores that should send of it, for a silence rule names them."""
    found: dict[str, frozenset[str]] = {}
    for one in versions:
        family, stores = one.rule.family, one.rule.stores
        if family and isinstance(stores, tuple) and names_stores(one.rule):
            found[family] = found.get(family, frozenset()).union(stores)
    return found

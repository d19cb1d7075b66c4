"""The stores that a rule is about, and the stores that it expects to send data."""

from collections.abc import Iterable
from datetime import date

from alerting.rules.rule import InGroup, Rule, RuleVersion
from serving.questions.stores import Store


def applies_to(rule: Rule, store: Store, day: date) -> bool:
    """Whether the rule is about the store, by the store's groups on a local day."""
    if rule.stores == "all":
        return True
    if isinstance(rule.stores, InGroup):
        return rule.stores.region in store.entry.valid_on(day).groups
    return store.store_id in rule.stores


def has_store_list(rule: Rule) -> bool:
    """Whether the rule is a silence rule that names its stores one by one."""
    return rule.kind == "silence" and isinstance(rule.stores, tuple)


def find_mandatory_stores(versions: Iterable[RuleVersion]) -> dict[str, frozenset[str]]:
    """The stores by family that should send data, because a silence rule names them."""
    found: dict[str, frozenset[str]] = {}
    for version in versions:
        family, stores = version.rule.family, version.rule.stores
        if family and isinstance(stores, tuple) and has_store_list(version.rule):
            found[family] = found.get(family, frozenset()).union(stores)
    return found

"""Wrong on purpose: a writer of rules whose records do not say which change they follow."""

from msgspec import structs

from alerting.rules.versions import StoredRule


def without_after(stored: StoredRule) -> StoredRule:
    """The record as earlier versions of Tally wrote it."""
    return structs.replace(stored, after=None)

"""The conservation ledger as `tally audit` tells it, in totals."""

from collections import Counter
from typing import Any

from tests.support.stack.loop import Loop

FATES = ("counted", "duplicate", "conflict", "erased", "unreadable")


def ledger_totals(loop: Loop) -> Counter[str]:
    """raw, canonical, splits and dead_letter of the raw topics; committed, master and every fate of
    the canonical ones. The ledger must hold."""
    found = loop.json("audit", "--only", "ledger")
    assert found["ok"], found["ledgers"]
    totals: Counter[str] = Counter()
    for line in found["ledgers"]:
        totals.update(_raw(line) if "dead_letter" in line else _canonical(line))
    return totals


def _raw(line: dict[str, Any]) -> dict[str, int]:
    return {
        "raw": line["committed"],
        "canonical": line["canonical"],
        "dead_letter": line["dead_letter"],
        "splits": line["splits"],
    }


def _canonical(line: dict[str, Any]) -> dict[str, int]:
    return {name: line.get(name, 0) for name in ("committed", "master", *FATES)}

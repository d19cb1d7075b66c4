"""The truth ledger: what happened in a twin store, for comparison with what its sensors report.

It is a file for each store and day; only comparisons read it.
"""

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from ingest.senders.twin.people import Person
from ingest.senders.twin.plan import TwinStore


class DayTruth(NamedTuple):
    """One store's day: persons, groups that paid, mean stay of visitors in seconds.

    `heard` are visitors with a phone that keeps its address, the most that WiFi can detect.
    """

    visitors: int
    passers: int
    groups: int
    buyers: int
    stay_seconds: float | None
    heard: int
    heard_stay_seconds: float | None


def day_truth(people: Sequence[Person]) -> DayTruth:
    """The truth of a day of one store."""
    visitors = [person for person in people if person.is_visitor]
    heard = [
        person
        for person in visitors
        if person.phone is not None and person.phone.mac_class != "random_probe"
    ]
    return DayTruth(
        visitors=len(visitors),
        passers=len(people) - len(visitors),
        groups=len({person.group for person in visitors}),
        buyers=sum(person.pays for person in visitors),
        stay_seconds=_mean_stay(visitors),
        heard=len(heard),
        heard_stay_seconds=_mean_stay(heard),
    )


def write_truth(folder: Path, store: TwinStore, day: date, people: Sequence[Person]) -> DayTruth:
    """Write the day's file, `<store>-<day>.json`, and return what it says."""
    truth = day_truth(people)
    ledger = {
        "store": store.store_id,
        "day": day.isoformat(),
        "tz": store.zone.key,
        **truth._asdict(),
        "people": [_person(person) for person in people],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{store.store_id}-{day}.json").write_text(json.dumps(ledger), "utf-8")
    return truth


def _mean_stay(people: Sequence[Person]) -> float | None:
    if not people:
        return None
    return round(sum(person.left - person.came for person in people) / len(people), 3)


def _person(person: Person) -> dict[str, Any]:
    # The phone's address is left out as personal data, even though these people do not exist.
    return person._asdict() | {
        "came": round(person.came, 3),
        "left": round(person.left, 3),
        "phone": person.phone.mac_class if person.phone else None,
    }

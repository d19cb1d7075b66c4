"""A day's own records and the headers that are linked to it give its records the fates that all
records together give them; and a day whose records' fates change is named."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import NoSuchExample

from batch_layer.links.header import RecordHeader
from batch_layer.links.linker import Links, link_records
from tests.controls.batch.links import WRONG_LINKERS, Linker
from tests.laws.master.receipts import Known, histories, placed
from tests.support.oracles.record_fates import Fate, Place, fates

History = list[list[RecordHeader]]
MANY = settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])


def explain_history(history: History, link: Linker = link_records) -> str:
    """What is wrong with the links of a history; empty for nothing."""
    known, noted = Known(), Links()
    held: list[RecordHeader] = []
    published: dict[int, dict[Place, Fate]] = {}
    for batch in placed(history):
        links = link(known, batch)
        held += batch
        noted.add(links)
        dirty = {record.day for record in batch} | {day for day, _ in links.until}
        for day, (alone, wanted) in fates_by_day(held, noted).items():
            if alone != wanted:
                return f"day {day}: {alone} and not {wanted}"
            if day not in dirty and published[day] != wanted:
                return f"day {day} has changed and is not dirty"
            published[day] = wanted
    return ""


def fates_by_day(
    held: Sequence[RecordHeader], noted: Links
) -> dict[int, tuple[dict[Place, Fate], dict[Place, Fate]]]:
    """The fates of each day's records, by the day alone and by all records."""
    whole, found = fates(held), {}
    for day in {record.day for record in held}:
        own = [record for record in held if record.day == day]
        alone = fates([*own, *among(noted.headers[day], held)])
        places = [record.place for record in own]
        found[day] = ({at: alone[at] for at in places}, {at: whole[at] for at in places})
    return found


def among(headers: Collection[RecordHeader], held: Sequence[RecordHeader]) -> list[RecordHeader]:
    """Those that are held: a rebuild leaves out what came after the version that it reads."""
    return [header for header in headers if header in held]


@MANY
@given(histories)
def test_day_alone_with_its_links_knows_its_fates(history: History) -> None:
    assert explain_history(history) == ""


@MANY
@given(histories)
def test_later_links_do_no_harm_to_an_earlier_version(history: History) -> None:
    known, noted = Known(), Links()
    batches = [*placed(history)]
    for batch in batches:
        noted.add(link_records(known, batch))

    for count in range(len(batches)):
        held = [record for batch in batches[: count + 1] for record in batch]
        for alone, wanted in fates_by_day(held, noted).values():
            assert alone == wanted


@MANY
@given(histories)
def test_records_that_come_again_bring_the_same_links(history: History) -> None:
    known, batches = Known(), [*placed(history)]
    links = [link_records(known, batch) for batch in batches]

    again = [link_records(known, batch) for batch in batches]

    assert again == links


@pytest.mark.parametrize("name", WRONG_LINKERS)
def test_a_wrong_linker_is_found(name: str) -> None:
    try:
        find(
            histories,
            lambda history: explain_history(history, WRONG_LINKERS[name]) != "",
            settings=settings(max_examples=5_000, database=None),
        )
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")

"""The newest dead letters as a page reads them from the real topic."""

import asyncio

from runtime.records.dead_letter import (
    TOPIC,
    Cause,
    UncountedRecord,
    encode_letter,
    read_newest_letters,
)
from serving.storage.dead_letters import LetterReader
from tally.config.settings import Settings
from tests.support.clients.producers import connected_producer


def tell(settings: Settings, first: int, count: int) -> None:
    """Letters of so many records of one store, all in one partition."""
    producer = connected_producer(settings)
    for offset in range(first, first + count):
        record = UncountedRecord("posTransactionTopic", 1, offset, b"letters-1", b"{}")
        cause = Cause("total_mismatch", "planted", "2026-03-02T10:00:00.000Z", "/net_total")
        letter = encode_letter(record, cause, b"key")
        producer.produce(TOPIC, letter.value, letter.key, partition=1, headers=[*letter.headers])
    assert producer.flush(30) == 0


def test_the_newest_of_a_partition_are_read_and_no_more(kafka: str, settings: Settings) -> None:
    tell(settings, 5_000_000, 30)

    newest = read_newest_letters(settings, 10).values()
    of_store = [letter for letter in newest if letter.key == "letters-1"]

    # Markers of transactions count as records: there may be fewer, never more.
    assert 0 < len(of_store) <= 10
    assert of_store[-1].id == "posTransactionTopic:1:5000029"


def test_a_page_reads_the_topic_once_in_some_seconds(kafka: str, settings: Settings) -> None:
    async def both() -> tuple[list[str], list[str]]:
        letters = LetterReader(settings)
        before = [letter.id for letter in await letters.newest()]
        await asyncio.to_thread(tell, settings, 6_000_000, 1)
        return before, [letter.id for letter in await letters.newest()]

    before, after = asyncio.run(both())

    assert before == after

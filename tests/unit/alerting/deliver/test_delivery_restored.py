"""A delivery engine restored from its records, and the keys of the records."""

from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import AlertChannel, Silence
from alerting.deliver.state.records import StoredDelivery, decode_record, encode_record, record_key
from runtime.outbound.engine import TickTime
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    NOON,
    alert,
    channel,
    end_of,
    engine_with,
    of_kind,
)

NIGHT = (QuietHours("mon-sun", "22:00", "06:00"),)


def test_a_restored_engine_continues_like_the_original() -> None:
    engine = engine_with(channel(), channel("night", quiet=NIGHT), at=NOON + 9 * HOUR)
    stored: dict[bytes, bytes] = {}

    def store(records: list[StoredDelivery]) -> None:
        stored.update({record_key(record): encode_record(record) or b"" for record in records})

    store([*engine.memory.channels.values(), engine.memory.time])
    for message in (alert(1, at=NOON + 9 * HOUR), alert(2), alert(1, state="confirmed")):
        store(engine.process_alert(message))
    store(engine.begin_attempts(()).records)
    restored = engine_with()
    restored.restore(decode_record(value) for value in reversed(stored.values()))

    for either in (engine, restored):
        either.advance_time(TickTime(n=9, at=NOON + 18 * HOUR))
    rest = (alert(3, at=NOON + 18 * HOUR), alert(1, state="retracted"), end_of(alert(2), 4))
    expected = [engine.process_alert(message) for message in rest]

    assert [restored.process_alert(message) for message in rest] == expected
    assert restored.begin_attempts(()) == engine.begin_attempts(())


def test_records_have_keys_independent_of_channel_names() -> None:
    channels = [channel(name) for name in ("control", "tick", "gone", "channel")]
    engine = engine_with(*channels)
    records = [
        *channels,
        Silence(silence_id="lunch", starts=NOON, ends=NOON + HOUR),
        *engine.process_alert(alert()),
        engine.memory.time,
    ]

    assert len({record_key(record) for record in records}) == len(records)
    assert [decode_record(encode_record(record) or b"") for record in records] == records
    assert of_kind(AlertChannel, records) == channels

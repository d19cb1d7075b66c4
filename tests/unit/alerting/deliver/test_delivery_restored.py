"""A desk that is made anew of its records, and the keys that tell them apart."""

from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import AlertChannel, Silence
from alerting.deliver.state.records import StoredDelivery, decode_record, encode_record, record_key
from runtime.outbound.records import TickTime
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    NOON,
    alert,
    channel,
    desk_with,
    end_of,
    of_kind,
)

NIGHT = (QuietHours("mon-sun", "22:00", "06:00"),)


def test_a_desk_that_is_restored_goes_on_as_the_one_before() -> None:
    desk = desk_with(channel(), channel("night", quiet=NIGHT), at=NOON + 9 * HOUR)
    stored: dict[bytes, bytes] = {}

    def keep(kept: list[StoredDelivery]) -> None:
        stored.update({record_key(one): encode_record(one) or b"" for one in kept})

    keep([*desk.memory.channels.values(), desk.memory.time, *()])
    for one in (alert(1, at=NOON + 9 * HOUR), alert(2), alert(1, state="confirmed")):
        keep(desk.process_alert(one))
    keep(desk.begin_attempts(()).records)
    restored = desk_with()
    restored.restore(decode_record(value) for value in reversed(stored.values()))

    for each in (desk, restored):
        each.advance_time(TickTime(n=9, at=NOON + 18 * HOUR))
    rest = (alert(3, at=NOON + 18 * HOUR), alert(1, state="retracted"), end_of(alert(2), 4))
    expected = [desk.process_alert(one) for one in rest]

    assert [restored.process_alert(one) for one in rest] == expected
    assert restored.begin_attempts(()) == desk.begin_attempts(())


def test_records_have_keys_of_their_own_whatever_channels_are_called() -> None:
    named = [channel(name) for name in ("control", "tick", "gone", "channel")]
    desk = desk_with(*named)
    kept = [
        *named,
        Silence(silence_id="lunch", starts=NOON, ends=NOON + HOUR),
        *desk.process_alert(alert()),
        desk.memory.time,
    ]

    assert len({record_key(one) for one in kept}) == len(kept)
    assert [decode_record(encode_record(one) or b"") for one in kept] == kept
    assert of_kind(AlertChannel, kept) == named

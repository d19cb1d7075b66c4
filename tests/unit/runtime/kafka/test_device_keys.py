"""The keys of devices: one for whoever asks, and nobody's once its time is over."""

import asyncio
import os
import threading
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

import pytest

from ingest.gateway.background import destroy_keys
from runtime.records.device_keys import HASH_BYTES, KEY_BYTES, DeviceKeys
from tally.errors import KeysUnreachable
from tally.time.day_clock import DatedPeriod

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
KEPT = timedelta(hours=6)
TODAY = DatedPeriod(
    date(2026, 3, 2), NOON.replace(hour=0), NOON.replace(hour=0) + timedelta(days=1)
)
TOMORROW = DatedPeriod(date(2026, 3, 3), TODAY.end, TODAY.end + timedelta(days=1))
OVER = TODAY.end + KEPT
MAKER = bytes.fromhex("3c0000")
DEVICE = MAKER + bytes.fromhex("00a5c3")


def hashed(keys: DeviceKeys, address: bytes = DEVICE, period: DatedPeriod = TODAY) -> str:
    return keys.hash_address(address, "367", period, KEPT)


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def found_by_a_walk(folder: Path, wanted: str) -> bool:
    """Whether any string of a key's length in the folder tells the device among its maker's."""
    contents = [file.read_bytes() for file in files(folder)]
    keys = [
        content[place : place + KEY_BYTES]
        for content in contents
        for place in range(len(content) - KEY_BYTES + 1)
    ]
    # The last two octets: the whole walk is in tests/e2e.
    addresses = [MAKER + bytes((0,)) + number.to_bytes(2) for number in range(2**16)]
    return any(
        blake2b(address, key=key, digest_size=HASH_BYTES).hexdigest() == wanted
        for key in keys
        for address in addresses
    )


def test_two_processes_have_one_key_of_a_store_and_period_and_no_other_is_it(
    tmp_path: Path,
) -> None:
    one, other = DeviceKeys(tmp_path), DeviceKeys(tmp_path)

    assert hashed(one) == hashed(other)
    assert len({hashed(one), hashed(one, period=TOMORROW), hashed(one, MAKER + b"123")}) == 3
    assert one.hash_address(DEVICE, "406", TODAY, KEPT) != hashed(one)


def test_gateways_that_begin_together_have_one_key(tmp_path: Path) -> None:
    told: list[str] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        keys = DeviceKeys(tmp_path)
        barrier.wait()
        told.append(hashed(keys))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told) == 8 and len(set(told)) == 1
    assert [file.parent.name for file in files(tmp_path)] == ["367"]


def test_key_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    before = os.umask(0)
    try:
        hashed(DeviceKeys(folder))
    finally:
        os.umask(before)

    (file,) = files(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder, file.parent, file)] == [
        0o700,
        0o700,
        0o600,
    ]


def test_after_its_time_no_walk_over_the_makers_addresses_finds_the_device(tmp_path: Path) -> None:
    keys = DeviceKeys(tmp_path)
    wanted = hashed(keys)
    assert found_by_a_walk(tmp_path, wanted)

    assert (keys.destroy(OVER - timedelta(seconds=1)), keys.destroy(OVER)) == (0, 1)

    assert files(tmp_path) == [] and not found_by_a_walk(tmp_path, wanted)
    assert hashed(keys) != wanted


def test_what_is_no_key_and_what_was_left_behind_stops_no_destruction(tmp_path: Path) -> None:
    keys = DeviceKeys(tmp_path)
    hashed(keys)
    (tmp_path / "367" / ".nfs0001").write_bytes(b"")
    (tmp_path / "367" / "2026-03-02.20260303T060000Z.a1b2c3d4").write_bytes(b"x" * KEY_BYTES)
    left = tmp_path / ".arriving-0011"
    left.write_bytes(b"y" * KEY_BYTES)
    long_ago = (OVER - timedelta(days=1)).timestamp()
    os.utime(left, (long_ago, long_ago))

    assert keys.destroy(OVER) == 1

    assert not left.exists() and len(files(tmp_path)) == 2


def test_key_that_cannot_be_destroyed_holds_up_no_other_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = DeviceKeys(tmp_path)
    for store in ("1", "2", "3"):
        keys.hash_address(DEVICE, store, TODAY, KEPT)
    opened = Path.open

    def open_but_the_second(file: Path, *arguments: str) -> object:
        if file.parent.name == "2":
            raise PermissionError(13, "Permission denied", str(file))
        return opened(file, *arguments)  # type: ignore[call-overload]

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_but_the_second)
        with pytest.raises(PermissionError):
            keys.destroy(OVER)

    assert [file.parent.name for file in files(tmp_path)] == ["2"]
    assert keys.destroy(OVER) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"x" * (KEY_BYTES + 1)])
def test_key_of_another_length_hashes_nothing(tmp_path: Path, content: bytes) -> None:
    hashed(DeviceKeys(tmp_path))
    (file,) = files(tmp_path)
    file.write_bytes(content)

    with pytest.raises(KeysUnreachable, match=f"a key of {len(content)} bytes"):
        hashed(DeviceKeys(tmp_path))


def test_folder_that_cannot_be_made_is_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")

    with pytest.raises(KeysUnreachable, match="TALLY_KEY_FOLDER"):
        hashed(DeviceKeys(tmp_path / "keys"))


def test_store_whose_zone_has_changed_keeps_the_key_of_its_day(tmp_path: Path) -> None:
    longer = TODAY._replace(end=TODAY.end + timedelta(hours=1))

    assert hashed(DeviceKeys(tmp_path)) == hashed(DeviceKeys(tmp_path), period=longer)


def test_gateway_destroys_what_is_over_again_and_again(tmp_path: Path) -> None:
    keys = DeviceKeys(tmp_path)
    hashed(keys)
    clock = iter([NOON, NOON, *[OVER] * 1000])

    async def until_none_is_left() -> None:
        task = asyncio.create_task(destroy_keys(keys, 0.001, lambda: next(clock)))
        while files(tmp_path):
            assert not task.done()
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(until_none_is_left(), 5))

"""A key that is destroyed: nobody finds the device any more, with whatever lies in the data.

Of a maker's addresses there are 2^24: each is hashed with every byte string of a key's length.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

import pytest
import yaml

from runtime.kafka.reader import read_to_end
from runtime.records.device_keys import HASH_BYTES, KEY_BYTES, DeviceKeys
from tests.support.clients.gateway_client import GatewayClient
from tests.support.sources import meraki
from tests.support.stack.loop import Loop, running_loop
from tests.support.twin import night

MAKER, SUFFIX = bytes.fromhex("3c22fb"), bytes.fromhex("9a7e02")
SUFFIXES = 1 << 24
_HEX = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# A file as large as this is a table's or a log's: of it only what is written as text is looked at.
SMALL_BYTES = 1 << 16


@dataclass(frozen=True)
class Heard:
    """The marked device as everybody downstream knows it."""

    loop: Loop
    device: str


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    """Heard by Meraki's access points, and in both layers."""
    stores = tmp_path_factory.mktemp("stores") / "stores.yaml"
    stores.write_text(yaml.safe_dump({night.STORE: night.entry()}), "utf-8")
    overrides = {"TALLY_STORES_FILE": str(stores), "TALLY_VENDOR_SECRETS": meraki.SECRETS}
    services = ("normaliser", "speed", "master", "gateway")
    home = tmp_path_factory.mktemp("destroyed")
    with running_loop(home, *services, overrides=overrides) as loop:
        gateway = GatewayClient(loop.settings.gateway)
        address = (MAKER + SUFFIX).hex(":")
        body = meraki.body(
            night.NETWORK, {address: [(datetime.now(UTC).replace(microsecond=0), -60)]}
        )
        assert gateway.offer(meraki.PATH, body, "application/json").status_code == 202
        gateway.close()
        loop.catch_up()
        records = [json.loads(one.value() or b"{}") for one in read_to_end(loop.settings, ["wifi"])]
        # The other one says that the access point was there.
        (record,) = (one for one in records if one["mac_class"] != "access_point")
        yield Heard(loop, record["device_hash"])


def candidates(home: Path) -> set[bytes]:
    """Every byte string of a key's length in the home: of small files at each place, of all files
    what is written in hex."""
    found: set[bytes] = set()
    for file in home.rglob("*"):
        if not file.is_file():
            continue
        content = file.read_bytes()
        found |= {bytes.fromhex(text.decode()) for text in _HEX.findall(content)}
        if len(content) <= SMALL_BYTES:
            found |= {
                content[at : at + KEY_BYTES] for at in range(max(0, len(content) - KEY_BYTES + 1))
            }
    return found


def walk(key: bytes, device: str) -> bytes | None:
    """The suffix whose address the key turns into the device, of all of the maker's."""
    wanted = bytes.fromhex(device)
    for number in range(SUFFIXES):
        suffix = number.to_bytes(3)
        if blake2b(MAKER + suffix, key=key, digest_size=HASH_BYTES).digest() == wanted:
            return suffix
    return None


def is_key(candidate: bytes, device: str) -> bool:
    """Whether a walk with it would find the device: its address is one of those walked over."""
    digest = blake2b(MAKER + SUFFIX, key=candidate, digest_size=HASH_BYTES).hexdigest()
    return digest == device


def test_device_is_found_before_its_key_is_destroyed_and_never_after_it(heard: Heard) -> None:
    home = heard.loop.home
    (file,) = (path for path in (home / "keys").rglob("*") if path.is_file())
    key = file.read_bytes()
    found = candidates(home)
    assert [one for one in found if is_key(one, heard.device)] == [key]
    assert walk(key, heard.device) == SUFFIX

    # Of a gateway that runs on, which forgets with the files what it remembers.
    assert DeviceKeys(home / "keys").destroy(datetime.now(UTC) + timedelta(days=3)) == 1

    after = candidates(home)
    print(f"{len(found):,} candidates before, {len(after):,} after")
    assert [one for one in after if is_key(one, heard.device)] == []
    # One whole walk with another key, which has to find nothing.
    assert walk(min(after), heard.device) is None

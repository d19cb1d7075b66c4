"""The busiest minute of the largest place is one body, and is taken."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from ingest.contract.vendor import VendorBody
from ingest.gateway.submission import MAX_BYTES, check_lines, endpoints
from ingest.installation.arrival import Rules
from tally.config.settings import Settings
from tests.support.sources.mall import minute_of_a_mall

ARRIVED = datetime(2026, 3, 2, 10, 1, 3, tzinfo=UTC)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    file = tmp_path / "stores.yaml"
    file.write_text("bug36: {tz: Europe/Bratislava, networks: [L_36]}", "utf-8")
    secrets = SecretStr('{"meraki": {"secret": "s3cret"}}')
    return Rules.from_settings(Settings(home=tmp_path, stores_file=file, vendor_secrets=secrets))


def test_minute_of_a_mall_is_taken_whole(rules: Rules) -> None:
    content = minute_of_a_mall("L_36", ARRIVED.replace(second=0), "s3cret")
    endpoint = next(one for one in endpoints() if one.path == "/v1/events/wifi/meraki")

    found = check_lines(VendorBody(content, ARRIVED, rules), endpoint)

    assert 1_000_000 < len(content) < MAX_BYTES
    # Nine readings a phone, and that each access point was there.
    assert (len(found.accepted), found.rejected_count) == (13_500 + 3, 0)

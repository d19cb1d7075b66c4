"""Bodies of Meraki's Scanning API, version 3, as its cloud sends them."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

PATH = "/v1/events/wifi/meraki"
SECRET, VALIDATOR = "m3raki-s3cret-41b9", "v4lidator"
SECRETS = json.dumps({"meraki": {"secret": SECRET, "validator": VALIDATOR}})
ACCESS_POINT = "00:18:0a:00:00:01"


def body(
    network: str,
    heard: Mapping[str, Iterable[tuple[datetime, int]]],
    *,
    secret: str = SECRET,
    **client: Any,
) -> bytes:
    """What an access point of the network has heard: by hardware address when, and dBm."""
    observations = [
        {"clientMac": address, "manufacturer": None, "ssid": "guests", "locations": [], **client}
        | {"locations": [_location(at, dbm) for at, dbm in times]}
        for address, times in heard.items()
    ]
    told = {"networkId": network, "reportingAps": [], "observations": observations}
    return json.dumps({"version": "3.0", "secret": secret, "type": "WiFi", "data": told}).encode()


def _location(at: datetime, dbm: int) -> dict[str, Any]:
    return {
        "time": at.isoformat().replace("+00:00", "Z"),
        "lat": 48.1,
        "lng": 17.1,
        "rssiRecords": [{"apMac": ACCESS_POINT, "rssi": dbm}],
    }

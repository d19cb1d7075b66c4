"""A minute of a mall as Meraki's version 3 sends it: one body, however many phones there are."""

import json
from datetime import datetime, timedelta

from tally.time.instants import format_utc

CLIENTS, PLACES, ACCESS_POINTS = 1500, 3, 3


def minute_of_a_mall(network: str, end: datetime, secret: str) -> bytes:
    """A body of 1,500 phones, each in three places, each place heard by three access points."""
    access_points = [f"00:18:0a:00:36:{number:02x}" for number in range(ACCESS_POINTS)]
    begin = end - timedelta(minutes=1)

    def place(number: int) -> dict[str, object]:
        return {
            "time": format_utc(begin + timedelta(seconds=20 * number)),
            "lat": 48.1,
            "lng": 17.1,
            "variance": 2.1,
            "rssiRecords": [
                {"apMac": one, "rssi": -50 - 7 * at} for at, one in enumerate(access_points)
            ],
        }

    clients = [
        {
            "clientMac": f"3c:00:00:36:{number >> 8:02x}:{number & 255:02x}",
            "ssid": None,
            "locations": [place(one) for one in range(PLACES)],
            "latestRecord": {
                "time": format_utc(begin + timedelta(seconds=40)),
                "nearestApMac": access_points[0],
                "nearestApRssi": -50,
            },
        }
        for number in range(CLIENTS)
    ]
    data = {
        "networkId": network,
        "startTime": format_utc(begin),
        "endTime": format_utc(end),
        "reportingAps": [{"mac": one} for one in access_points],
        "observations": clients,
    }
    told = {"version": "3.0", "secret": secret, "type": "WiFi", "data": data}
    return json.dumps(told, separators=(",", ":")).encode()

"""Normalises the sighting of a device by an access point. No address gets this far.

The gateway's adapters hash addresses (vendors/), so a message has its device only as 32 hex digits,
which are valid for one store and one key period.
"""

import re
from datetime import datetime, timedelta

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, field_error, parse_object
from ingest.installation.arrival import Arrival, Rules
from ingest.installation.devices import to_minutes
from tally.events import identity
from tally.events.identity import SCHEMA_VERSION, CanonicalEvent
from tally.people.heard import PERSONAL_CLASSES
from tally.people.visits import format_opening
from tally.time.day_clock import MAX_KEY_DAYS, DatedPeriod
from tally.time.instants import format_utc

MIN_DBM = -120
# How long after its end a key period's late sightings are still taken; then its key is destroyed.
KEY_GRACE = timedelta(hours=6)
# Replaces what was heard by a network or access point that belongs to no known store.
NO_STORE_TEXT = "kept nowhere: without a store there is no key to hash addresses with"
_STORES_FILE_KEYS = {"network": "networks", "access_point": "access_points"}
_DEVICE_FIELDS = ("device_hash", "mac_class", "rssi_dbm")
_DEVICE = re.compile(r"[0-9a-f]{32}", re.ASCII)
# No key lives longer than this, even with the longest periods.
_LONGEST = timedelta(days=MAX_KEY_DAYS + 2) + KEY_GRACE


class CanonicalSighting(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One device heard by one access point in one second.

    `key_period` is the first local day of the period whose key has hashed the device. Its begin and
    end, in minutes since 1970, and the store's opening hours in it are fields too, so that no
    reader has to know the store's clock.
    """

    device_hash: str
    mac_class: str
    ap_id: str
    rssi_dbm: int
    key_period: str
    period_start: int
    period_end: int
    open_at: str


def normalise(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalSighting:
    """Normalise a sighting without unknown fields. Raises RejectedEvent alone, for any bytes."""
    tree = parse_object(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    _refuse_unlisted(tree)
    happened_at = read.event_instant(tree, arrival, rules).replace(microsecond=0)
    store_id = read.identifier(read.require_field(tree, "store_id"), "/store_id")
    # Spelled as in the stores file: otherwise the listed access point would seem silent for ever.
    ap_id = identity.normalise_address(read.identifier(read.require_field(tree, "ap_id"), "/ap_id"))
    period = usable_key_period(rules, store_id, happened_at, arrival.received_at)
    if period is None:
        what = "the key of its period is destroyed; the device cannot be recognised"
        raise field_error("key_destroyed", "/happened_at", what)
    device, mac_class, dbm = _read_device(tree, ap_id)
    instant = format_utc(happened_at)
    sighting_id = f"{identity.event_id('wifi', store_id, ap_id, device)}:{instant}"
    return CanonicalSighting(
        schema_version=SCHEMA_VERSION,
        event_id=sighting_id,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.timestamp_text,
        fingerprint=identity.fingerprint([sighting_id, mac_class, dbm]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        device_hash=device,
        mac_class=mac_class,
        ap_id=ap_id,
        rssi_dbm=dbm,
        key_period=period.first_day.isoformat(),
        period_start=to_minutes(period.start),
        period_end=to_minutes(period.end),
        open_at=format_opening(rules.open_minutes(store_id, period), to_minutes(period.start)),
    )


def _refuse_unlisted(tree: JsonObject) -> None:
    """Raise RejectedEvent unknown_sensor for a message that replaces sightings without a store."""
    for name, listed_under in _STORES_FILE_KEYS.items():
        if name in tree and "store_id" not in tree:
            heard_by = f"{name.replace('_', ' ')} {read.describe_value(tree[name])}"
            fix = f"list it under `{listed_under}` of its store"
            what = f"no store of the stores file has the {heard_by}; {fix}"
            lost = "What was heard meanwhile was not kept"
            raise field_error("unknown_sensor", f"/{name}", f"{what}. {lost}")


def _read_device(tree: JsonObject, ap_id: str) -> tuple[str, str, int]:
    """Device, class and power; a heartbeat's are the access point's own, whose hash has no key."""
    if read.is_heartbeat(tree, _DEVICE_FIELDS):
        return identity.digest_text(ap_id), "access_point", 0
    return (
        read.matching(read.require_field(tree, "device_hash"), "/device_hash", _DEVICE),
        read.choice(read.require_field(tree, "mac_class"), "/mac_class", PERSONAL_CLASSES),
        read.whole_number(read.require_field(tree, "rssi_dbm"), "/rssi_dbm", MIN_DBM, 0),
    )


def usable_key_period(
    rules: Rules, store_id: str, instant: datetime, arrived_at: datetime
) -> DatedPeriod | None:
    """The key period of an instant in a store; None if its key was destroyed by `arrived_at`."""
    # Instants of long ago are not looked up: a store's clock may show no such day.
    if arrived_at - instant > _LONGEST:
        return None
    period = rules.key_period(store_id, instant)
    return period if arrived_at < period.end + KEY_GRACE else None

"""The gateway as people counters meet it: what it answers, and what it stores."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from ingest.installation.arrival import Rules
from tally.config.settings import Settings
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer

STORES = """
367:
  tz: Europe/Bratislava
  sensors:
    accc00000001: {device_id: door-1}
    00:6E:02:00:00:01:1: {device_id: door-2}
    00:6E:02:00:00:02:1: {device_id: door-3, clock: unix_ms}
"""
Json: TypeAlias = Any


@dataclass
class CounterGateway:
    """A gateway whose stores file lists the counters above."""

    rules: Rules
    client: Client
    producer: StandInProducer

    def post(self, form: str, body: bytes, **told: str) -> tuple[int, Json]:
        """Status and answer."""
        answer = self.client.request(
            "POST", f"/v1/events/traffic/{form}", content=body, params=told
        )
        return answer.status_code, answer.json()

    @property
    def stored(self) -> list[bytes]:
        """All messages in their order."""
        return [value for *_, value in self.producer.stored]

    @property
    def letters(self) -> list[bytes]:
        """What becomes a dead letter: stored without the key of a store."""
        return [value for _, key, value in self.producer.stored if not key]


@contextmanager
def opened(folder: Path) -> Iterator[CounterGateway]:
    """A gateway whose stores file lies in the folder."""
    file = folder / "stores.yaml"
    file.write_text(STORES, "utf-8")
    rules, producer = Rules.from_settings(Settings(stores_file=file)), StandInProducer()
    watch = BacklogMonitor(lambda: WaitingMessages(0, None), lambda _waiting: None)
    watch.refresh()
    async_producer = AsyncProducer(
        lambda _note: producer, InFlightLimit(messages=100, bytes=100_000)
    )
    yield CounterGateway(rules, Client(build_app(async_producer, rules, watch)), producer)
    async_producer.close(0)


def rejections(answer: Json) -> list[tuple[str, str]]:
    """Code and field of each rejected event."""
    errors = [one["errors"][0] for one in answer["rejected"]]
    return [(error["code"], error["field"]) for error in errors]


def measured(**changes: Json) -> Json:
    items = [{"direction": "in", "count": 3}, {"direction": "out", "count": 1}]
    begins, ends = "2017-09-19T10:00:00Z", "2017-09-19T10:01:00Z"
    told = {"kind": "people-counts", "utcFrom": begins, "utcTo": ends, "items": items}
    return {**told, **changes}


def axis(*measurements: Json, **sensor: Json) -> bytes:
    body = {"utcSent": "2017-09-19T10:05:00Z", "data": {"measurements": measurements}}
    return json.dumps({**body, "sensor": sensor or {"serial": "accc00000001"}}).encode()


def record(**changes: Json) -> Json:
    counts = [{"name": "fw", "value": 3}, {"name": "bw", "value": 1}]
    begins, ends = "2017-09-19T10:00:00Z", "2017-09-19T10:01:00Z"
    return {"from": begins, "to": ends, "counts": counts, **changes}


def package(*logics: Json, **sensor: Json) -> Json:
    info = sensor or {"serial_number": "00:6E:02:00:00:01", "time": "2017-09-19T10:05:00Z"}
    return {"logics_data": {"sensor_info": info, "logics": logics}}


def xovis(*logics: Json, **sensor: Json) -> bytes:
    return json.dumps(package(*logics, **sensor)).encode()


LOGIC = {"id": 1, "records": [record()]}
GOOD = xovis(LOGIC)
DEEP = b'{"a":' * 40 + b"1" + b"}" * 40
LATE = {"utcFrom": "2017-09-19T10:01:00Z", "utcTo": "2017-09-19T10:02:00Z"}

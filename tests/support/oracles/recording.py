"""What a whole stack makes of one month of receipts, recorded: `python -m
tests.support.oracles.recording take FILE [--checkout DIR]`.

`… compare A B` says how many of the facts are equal, and which are not: a refactoring may change
none of them. A fact is an answer of the API, a row of a table, a record of the master dataset or of
a topic, a line of the ledger. What tells of the clock or of the cut into transactions and
micro-batches is left out, by name (tests/support/oracles/facts.py); everything else counts, to the
byte.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
from cassandra.cluster import Session
from confluent_kafka import Message
from deltalake import DeltaTable

from ops.lag import read_lag
from ops.local.demo.run import DISTURBANCES
from ops.local.demo.waits import wait_until_caught_up
from ops.local.processes.addresses import separate_environment
from runtime.connect import cassandra_session
from runtime.kafka.reader import read_to_end
from runtime.process.output import print_note as say
from tally.config.settings import Settings
from tally.time.windows import day_start
from tests.support.clients.gateway_client import GatewayClient
from tests.support.oracles.facts import Fact, compare, fact, stable
from tests.support.questions.questions import DOORS, METRICS, MONTH, odd_questions, questions
from tests.support.sources.generated import DAYS, PATHS, Scale, hourly, load
from tests.support.twin.long_ago import taken_at

ROOT = Path(__file__).parents[3]
DISTURBED_MONTH = (
    *DISTURBANCES,
    *("--source", "complete-journey", "--seed", "1", "--from", MONTH[0], "--to", MONTH[1]),
)
# Written with a timestamp of their own, which is part of what they say.
REGISTERS = {"sales_15min": "events", "traffic_15min": "events", "store_activity": "first_day"}
# How far somebody has come, by the clock.
NOT_COMPARED = {
    "speed_progress",
    "speed_epoch",
    "master_progress",
    "master_position",
    "master_current",
    "restatement_run",
}


@dataclass
class Stack:
    """A stack of some checkout, in a home of its own."""

    checkout: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def tally(self, *arguments: str, check: bool = True) -> str:
        """Standard output of a verb."""
        say(f"tally {' '.join(arguments)}")
        command = [str(self.checkout / ".venv" / "bin" / "tally"), *arguments]
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.checkout,
            check=check,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    @property
    def settings(self) -> Settings:
        """Its addresses and folders."""
        return Settings.load(self.environment)


@contextmanager
def running(checkout: Path, *services: str) -> Iterator[Stack]:
    """These services, in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        environment = separate_environment(Path(folder), os.environ)
        stack = Stack(checkout, Path(folder), {**environment, "TALLY_STOCK_MOVEMENTS": "true"})
        try:
            stack.tally("up", *services)
            yield stack
        finally:
            stack.tally("down", check=False)


def take(checkout: Path) -> Iterator[Fact]:
    """Every fact, before a rebuild and after it."""
    counting = ("gateway", "normaliser", "speed", "receipts", "master", "api")
    with running(checkout, *counting) as stack:
        settings = stack.settings
        stack.tally("replay", *DISTURBED_MONTH)
        _people(GatewayClient(settings.gateway))
        with cassandra_session(settings) as session:
            wait_until_caught_up(lambda: read_lag(settings, session), say, 600)
            yield from _answers(settings, "speed")
            before = datetime.now(UTC).isoformat()
            stack.tally("rebuild", "--full", "--json")
            yield from _answers(settings, "batch")
            yield from _answers(settings, "as of before the rebuild", before)
            yield from _tables(session)
        yield from _master(settings)
        for topic in ("dead-letters", "restatements"):
            yield from _records(settings, topic)
        ledger = json.loads(stack.tally("audit", "--only", "ledger", "--json", check=False))
        yield from (fact("ledger", name, value) for name, value in ledger.items())


RULES = {
    "busy": 'metric: transactions\ncondition: {op: ">=", value: 2}\nclear: {op: "<", value: 2}\n',
    "few-visitors": 'metric: visitors_in\ncondition: {op: "<", value: 20}\nfor: 2\n',
    "few-buy": (
        'metric: conversion\ncondition: {op: "<", value: 0.10}\n'
        'clear: {op: ">=", value: 0.12}\nminimum: {visitors_in: 5}\n'
    ),
    "high-revenue": 'metric: revenue\ncondition: {op: ">", value: 3000}\n',
    "weak-day": 'metric: transactions\ngrain: day\ncondition: {op: "<", value: 15}\n',
}
# What an alert says whatever the cut into micro-batches and ticks was.
ALERT_FIELDS = ("state", "value", "threshold", "severity", "reason", "metric", "rule_version")


def take_alerts(checkout: Path, today: datetime) -> Iterator[Fact]:
    """Every alert that stands, and every stock movement, of the nine days before a midnight (UTC)
    of these days; two recordings are comparable if they are of one midnight."""
    with running(checkout, "kafka") as stack:
        folder = stack.home / "rules"
        folder.mkdir()
        for name, text in RULES.items():
            (folder / f"{name}.yaml").write_text(f"rule_id: {name}\n{text}", "utf-8")
        stack.tally("rules", "apply", str(folder))
        stack.tally("down", "kafka")
        # In force since before the first receipt.
        for partition in (stack.home / "data" / "kafka").glob("alert-rules-*"):
            taken_at(partition, today - timedelta(days=2 * DAYS))
        stack.tally(
            *("up", "gateway", "normaliser", "speed", "master", "evaluator", "projector"),
            *("stock", "api"),
        )
        settings, sent = stack.settings, load(44, today, Scale(receipts=700, intervals=400))
        gateway = GatewayClient(settings.gateway)
        for source, messages in hourly(sent.on_time):
            gateway.post(PATHS[source], messages)
        with cassandra_session(settings) as session:
            wait_until_caught_up(lambda: read_lag(settings, session), say, 600)
        for source in PATHS:
            late = [sending.message for sending in sent.late if sending.source == source]
            gateway.post(PATHS[source], late)
        with cassandra_session(settings) as session:
            wait_until_caught_up(lambda: read_lag(settings, session), say, 600)
        days = f"{(today - timedelta(days=DAYS - 1)).date()}..{(today - timedelta(days=1)).date()}"
        for family in ("sales", "traffic"):
            stack.tally("backfill", "declare", family, "--days", days, "--source", "recording")
        stack.tally("rebuild", "--full", "--json")
        yield from _settled_alerts(settings)
        yield from _records(settings, "stock-movements")


def _settled_alerts(settings: Settings) -> list[Fact]:
    """Every alert that stands, once nothing has been published for a minute.

    Which alerts were published for a while and taken back again depends on the cut into ticks.
    """
    before: dict[str, Any] = {}
    while True:
        newest = {
            value["alert_id"]: value
            for message in read_to_end(settings, ["alerts"])
            if (value := _parsed((message.value() or b"").decode()))
        }
        states = [value["state"] for value in newest.values()]
        if newest and newest == before and "provisional" not in states:
            break
        before = newest
        say(f"states of alerts: {dict(Counter(states))}")
        time.sleep(60)
    standing = [value for value in newest.values() if value["state"] != "retracted"]
    return sorted(
        fact(
            "alert",
            " ".join([value[name] for name in ("rule_id", "store_id", "subject", "edge")])
            + f" {value['episode']['start']} {value['episode']['ended']}",
            {name: value[name] for name in ALERT_FIELDS},
        )
        for value in standing
    )


def _people(gateway: GatewayClient) -> None:
    """A month of three people counters, a quarter hour each, four of them sent twice and one
    with a second count."""
    start, step = datetime.fromisoformat(f"{MONTH[0]}T08:00:00+00:00"), timedelta(minutes=15)
    for door in DOORS:
        sent = [_interval(door, start + number * step, number) for number in range(29 * 96)]
        for first in range(0, len(sent), 48):
            gateway.post("/v1/events/traffic", sent[first : first + 48])
        gateway.post(
            "/v1/events/traffic", [*sent[-2:], _interval(door, start + (29 * 96 - 3) * step, 999)]
        )


def _interval(store: str, at: datetime, number: int) -> bytes:
    counts = {"in": number * 7 % 31, "out": number * 5 % 29}
    return json.dumps(
        {
            "store_id": store,
            "device_id": "door-1",
            "happened_at": at.isoformat(),
            "interval_seconds": 900,
            **counts,
        }
    ).encode()


def _answers(settings: Settings, when: str, as_of: str | None = None) -> Iterator[Fact]:
    """Every metric in every grain, by store, in three time zones, with and without dimensions; of
    now also lists, explanations, refusals."""
    with httpx.Client(base_url=f"http://{settings.api}", timeout=300) as client:

        def asked(path: str, question: dict[str, Any]) -> Iterator[Fact]:
            wanted = {**question, "as_of": as_of} if as_of else question
            address: str | None = str(httpx.URL(path, params=wanted))
            place = 0
            while address:
                answer = client.get(address)
                body = answer.json()
                address = body.get("next") if answer.status_code == httpx.codes.OK else None
                key = f"{path} {question} page {place}"
                yield fact(f"api, {when}", key, [answer.status_code, _without(body, as_of)])
                place += 1

        for metric in METRICS:
            for question in questions():
                yield from asked(f"/v1/metrics/{metric}", question)
        if as_of is None:
            lists = [("/v1/stores", {"limit": 50}), ("/v1/metrics", {"limit": 3})]
            for path, question in [*lists, *odd_questions()]:
                yield from asked(path, question)


def _without(body: dict[str, Any], as_of: str | None) -> Any:
    """The body without the instant that was asked for, and without the page's cursor."""
    told = {**body, "next": bool(body["next"])} if "next" in body else body
    text = json.dumps(told)
    return json.loads(text.replace(as_of, "…") if as_of else text)


def _tables(session: Session) -> Iterator[Fact]:
    """Every row of every table of the keyspace, with its write timestamp where that is part of
    the register."""
    keyspace = session.keyspace
    for table in session.cluster.metadata.keyspaces[keyspace].tables.values():
        if table.name in NOT_COMPARED:
            continue
        if table.name == "speed_late":
            # A row a run and quarter hour: what counts is how many were late in all.
            late = [*session.execute("SELECT family, SUM(dropped) AS dropped FROM speed_late")]
            yield fact("table speed_late", "sum", [row.dropped for row in late])
            continue
        key = [column.name for column in table.primary_key]
        columns = ", ".join(f'"{name}"' for name in table.columns)
        stamp = (
            f', writetime("{REGISTERS[table.name]}") AS stamp' if table.name in REGISTERS else ""
        )
        for row in session.execute(f"SELECT {columns}{stamp} FROM {table.name}", timeout=300):
            named = dict(zip([*table.columns, "stamp"], row, strict=False))
            yield fact(
                f"table {table.name}",
                str([str(stable({name: named[name]})[name]) for name in key]),
                named,
            )


def _master(settings: Settings) -> Iterator[Fact]:
    """Every record of the master dataset, by its place among those of its partition."""
    table = DeltaTable(str(settings.master_path)).to_pyarrow_table()
    rows = sorted(
        table.to_pylist(), key=lambda row: (row["source"], row["partition"], row["offset"])
    )
    places: Counter[tuple[str, int]] = Counter()
    for row in rows:
        place = row["source"], row["partition"]
        value = {**row, "offset": places[place], "value": json.loads(row["value"])}
        yield fact("master", f"{place} {places[place]}", value)
        places[place] += 1


def _records(settings: Settings, topic: str) -> Iterator[Fact]:
    """Every record of a topic, in the order of their contents."""
    found: list[Fact] = []
    for message in read_to_end(settings, [topic]):
        headers = _headers(message)
        value = (message.value() or b"").decode("utf-8", "replace")
        told = [str(message.key()), _parsed(value), headers]
        found.append(fact(f"topic {topic}", json.dumps(stable(told), sort_keys=True)[:200], told))
    seen: Counter[str] = Counter()
    for kind, key, value in sorted(found):
        seen[key] += 1
        yield kind, f"{key} #{seen[key]}", value


OF_CANONICAL = (str(b"conflict"), str(b"unreadable"))


def _headers(message: Message) -> dict[str, str]:
    """The headers, without the clock, and without the offset of a canonical record."""
    found = {name: str(value) for name, value in dict(message.headers() or []).items()}
    if "message" in found:
        found["message"] = re.sub(r"arrival at \S+", "arrival", found["message"])
    return (
        found
        if found.get("reason") not in (str(b"conflict"), str(b"unreadable"))
        else {**found, "offset": ""}
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> int:
    """Exit code 0 when it was recorded, or when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    taking = verbs.add_parser("take")
    taking.add_argument("file", type=Path)
    taking.add_argument("--checkout", type=Path, default=ROOT)
    # A rule is evaluated over the last weeks alone: this day lies a few days back at most.
    taking.add_argument("--day", type=date.fromisoformat, default=datetime.now(UTC).date())
    comparing = verbs.add_parser("compare")
    comparing.add_argument("files", type=Path, nargs=2)
    given = parser.parse_args()
    if given.verb == "compare":
        return 1 if compare(*given.files) else 0
    with given.file.open("w", encoding="utf-8") as file:
        checkout = given.checkout.resolve()
        taken = chain(take(checkout), take_alerts(checkout, day_start(given.day)))
        count = sum(1 for found in taken if file.write(json.dumps(found) + "\n"))
    say(f"{count:,} facts")
    return 0


if __name__ == "__main__":
    sys.exit(main())

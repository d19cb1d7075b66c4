"""The whole loop once, with the real Kafka, Spark, Cassandra and Airflow and shipped settings.

Stores send receipts and people counts of nine days up to now; both layers, the rebuild that Airflow
runs, the audit, an alert and a page are compared with plain sums of what was sent. The tests follow
one another: each fixture is one step of the story.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cassandra.cluster import Session

from ops.local.demo.airflow import run_rebuild
from ops.local.services.catalogue import NEW_DAGS_ARE_PAUSED
from runtime.connect import cassandra_session
from tally.time.instants import format_utc
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.oracles.plain_oracle import QUARTER, Cell, differences, quarter
from tests.support.questions.answers import Span, expected_values, served, values
from tests.support.questions.pages import machine, with_attribute
from tests.support.sources.generated import (
    DAYS,
    PATHS,
    STORES,
    Load,
    Scale,
    Sending,
    hourly,
    load,
    of_this_second,
)
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.stack.tables import SOURCES, batch_rows, speed_rows
from tests.support.twin.long_ago import taken_at

SEED = 44
SCALE = Scale(receipts=700, intervals=400)
METRICS = {"transactions": "pos", "revenue": "pos", "visitors_in": "traffic"}
COUNTING = ("normaliser", "gateway", "speed", "master", "evaluator", "projector", "api")
BUSY = 2
RULE = f"""
rule_id: busy
metric: transactions
condition: {{op: ">=", value: {BUSY}}}
clear: {{op: "<", value: {BUSY}}}
"""
BATCH_KEY = ("store_id", "day", "generation", "window_start", "currency", "dim", "dim_value")
TOLD_SECONDS = 600
AUDITED_BY_HTTP = 100


@dataclass
class Story:
    """What was sent so far: of nine days, then of this second."""

    load: Load
    now: list[Sending] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """The days that are over."""
        today = self.load.on_time[-1].sent_at.replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=DAYS - 1), today

    @property
    def days(self) -> str:
        """The days that are over, as --days takes them."""
        return f"{self.span[0].date()}..{self.span[1].date() - timedelta(days=1)}"

    def later(self, family: str) -> Sequence[Sending]:
        """What was sent of a family beside the load."""
        return self.now if family == "sales" else ()

    def expected(self, metric: str) -> dict[Cell, int]:
        """What the API has to answer of the days that are over."""
        parts = self.load.expected(METRICS[metric], *self.now)
        found = expected_values(metric, parts)
        return {
            cell: value for cell, value in found.items() if self.span[0] <= cell[1] < self.span[1]
        }

    def busy(self) -> set[tuple[str, datetime]]:
        """Store and start of each episode of the rule that begins in the days that are over.

        A store is expected to send from the arrival of its first record on: a quarter hour of the
        days before it ends no episode where it has no record.
        """
        sums: dict[tuple[str, datetime], int] = {}
        for (store, start, _), (transactions, *_rest) in self.load.expected("pos").items():
            sums[store, start] = sums.get((store, start), 0) + transactions
        found, is_open = set(), dict.fromkeys(STORES, False)
        for (store, start), transactions in sorted(sums.items()):
            # Older ones are evaluated no more.
            if start >= self.span[0] - timedelta(days=1):
                if transactions >= BUSY and not is_open[store]:
                    found.add((store, start))
                is_open[store] = transactions >= BUSY
        return {begin for begin in found if self.span[0] <= begin[1] < self.span[1]}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """A loop whose rule has been in force since before the first receipt."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "busy.yaml").write_text(RULE, "utf-8")
    # No full hour that passes may rebuild before the story does.
    overrides = {NEW_DAGS_ARE_PAUSED: "True"}
    with running_loop(tmp_path_factory.mktemp("story"), "kafka", overrides=overrides) as running:
        assert running.run("rules", "apply", str(folder)).returncode == 0
        running.down("kafka")
        long_ago = datetime.now(UTC) - timedelta(days=2 * DAYS)
        assert taken_at(running.home / "data" / "kafka" / "alert-rules-0", long_ago)
        running.up(*COUNTING)
        yield running


@pytest.fixture(scope="module")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def sent(loop: Loop) -> Story:
    """Everything on time hour by hour, then receipts of this second until they are served, and at
    last the late ones."""
    story, client = Story(load(SEED, this_second(), SCALE)), GatewayClient(loop.settings.gateway)
    for source, messages in hourly(story.load.on_time):
        client.post(PATHS[source], messages)
    loop.catch_up()
    story.now += of_this_second(SEED, this_second())
    client.post(PATHS["pos"], [sending.message for sending in story.now])
    wait_until(lambda: is_served(loop, story), 300, "receipts of this second are served")
    for source in PATHS:
        late = [sending.message for sending in story.load.late if sending.source == source]
        client.post(PATHS[source], late)
    loop.catch_up()
    client.close()
    return story


@pytest.fixture(scope="module")
def rebuilt(loop: Loop, sent: Story) -> Story:
    """The days that are over declared as sent whole, and all days rebuilt by Airflow's DAG."""
    loop.up("airflow")
    for family in SOURCES:
        declared = ("backfill", "declare", family, "--days", sent.days, "--source", "story")
        assert loop.run(*declared).returncode == 0
    run_rebuild(loop.settings.airflow, {"mode": "full"}, print)
    # Numbers that were used twice keep their days open until somebody lets them stand.
    assert loop.accept_conflicts(STORES) > 0
    return sent


def this_second() -> datetime:
    """The time, in whole milliseconds."""
    instant = datetime.now(UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def is_served(loop: Loop, story: Story) -> bool:
    """Whether the API counts all that was sent for the quarter hour of now."""
    start = quarter(story.now[-1].sent_at)
    parts = story.load.expected_speed("pos", *story.now)
    expected = {
        cell: value
        for cell, value in expected_values("transactions", parts).items()
        if cell[1] == start
    }
    span = (start, start + QUARTER)
    return values(served(loop.settings.api, "transactions", STORES, span)) == expected


def read_episodes(loop: Loop, story: Story) -> dict[tuple[str, datetime], str]:
    """The state of each alert that was not taken back, by store and start of its episode, of the
    days that are over."""
    asked = {
        "store": ",".join(STORES),
        "edge": "raise",
        "from": format_utc(story.span[0]),
        "to": format_utc(story.span[1] + timedelta(days=2)),
        "limit": "10000",
    }
    answer = http.get(f"http://{loop.settings.api}/v1/alerts", params=asked, timeout=300)
    return {
        (alert["store_id"], start): alert["state"]
        for alert in answer.raise_for_status().json()["alerts"]
        if alert["state"] != "retracted"
        and story.span[0]
        <= (start := datetime.fromisoformat(alert["episode"]["start"]))
        < story.span[1]
    }


@pytest.mark.parametrize("family", SOURCES)
def test_speed_rows_equal_what_was_sent(sent: Story, session: Session, family: str) -> None:
    expected = sent.load.expected_speed(SOURCES[family], *sent.later(family))

    held = speed_rows(session, family)

    print(f"{family}: {len(expected):,} cells of the speed layer compared")
    assert len(expected) > 200 and differences(held, expected) == {}
    assert batch_rows(session, family) == {}


@pytest.mark.parametrize("family", SOURCES)
def test_batch_rows_equal_what_was_sent(rebuilt: Story, session: Session, family: str) -> None:
    expected = rebuilt.load.expected(SOURCES[family], *rebuilt.later(family))

    held = batch_rows(session, family)

    print(f"{family}: {len(expected):,} cells of the batch layer compared")
    assert differences(held, expected) == {}


@pytest.mark.parametrize("metric", METRICS)
def test_answers_are_right_and_final(loop: Loop, rebuilt: Story, metric: str) -> None:
    rows = served(loop.settings.api, metric, STORES, rebuilt.span)

    print(f"{metric}: {len(rows):,} cells answered")
    assert differences(values(rows), rebuilt.expected(metric)) == {}
    assert {(row["status"], row["complete"]) for row in rows.values()} == {("final", True)}


def test_alerts_are_those_of_the_receipts(loop: Loop, rebuilt: Story) -> None:
    expected = dict.fromkeys(rebuilt.busy(), "confirmed")
    found: dict[tuple[str, datetime], str] = {}

    def is_told() -> bool:
        found.clear()
        found.update(read_episodes(loop, rebuilt))
        return found == expected

    try:
        wait_until(is_told, TOLD_SECONDS, "each alert is there and confirmed")
    finally:
        print(f"{len(expected):,} alerts compared, {len(expected.items() ^ found.items())} differ")
    assert expected


def test_page_of_a_store_shows_what_it_sold(loop: Loop, rebuilt: Story) -> None:
    end = rebuilt.span[1]
    asked = {"store": "n-eur", "days": "7", "until": (end - timedelta(days=1)).date().isoformat()}

    page = http.get(f"http://{loop.settings.api}/", params=asked, timeout=300).raise_for_status()

    [shown] = [
        panel for panel in with_attribute(page, "data-report") if panel["data-report"] == "sales"
    ]
    sold = sum(
        value
        for (store, start, _), value in rebuilt.expected("revenue").items()
        if store == "n-eur" and start >= end - timedelta(days=7)
    )
    assert machine(shown)["value"] == sold > 0


def test_audit_holds(loop: Loop, rebuilt: Story) -> None:
    found = loop.json("audit", "--against", "master", "--http", str(AUDITED_BY_HTTP))

    compared = {family: found["master"][family]["windows"] for family in SOURCES}
    print(f"windows compared: {compared}, by HTTP {found['http']['equal']}")
    assert found["ok"] and min(compared.values()) > 200
    assert found["http"]["equal"] == AUDITED_BY_HTTP


def test_audit_finds_a_planted_wrong_cell(loop: Loop, rebuilt: Story, session: Session) -> None:
    row = session.execute("SELECT * FROM batch_sales_15min LIMIT 1").one()
    key = [getattr(row, name) for name in BATCH_KEY]
    where = " AND ".join(f"{name} = ?" for name in BATCH_KEY)
    change = session.prepare(f"UPDATE batch_sales_15min SET gross_minor = ? WHERE {where}")
    session.execute(change, [row.gross_minor + 1, *key])

    found = loop.json("audit", "--against", "master", "--http", "0", code=1)

    session.execute(change, [row.gross_minor, *key])
    sales = found["master"]["sales"]
    print(f"compared {sales['windows']:,} windows, found {sales['differences']}")
    assert [
        (cell["store"], cell["metric"].split()[0], cell["got"] - cell["expected"])
        for cell in sales["differences"]
    ] == [(row.store_id, "gross_minor", 1)]

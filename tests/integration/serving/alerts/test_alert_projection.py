"""The topic filed in Cassandra: whatever is repeated, killed or reordered, the tables are those of
all that was told."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from cassandra.cluster import Session

from alerting.alert.current_state import current_states, episode_ids, open_alert
from alerting.publish import AlertTables, FiledAlert, Projector
from runtime.connect import cassandra_session
from runtime.process.heartbeat import Heartbeat
from tally.alerts.message import Alert, decode_alert, encode_alert
from tally.config.settings import Settings
from tests.integration.ingest.conftest import wait_until
from tests.integration.serving.alerts.test_alert_stream import make_anew
from tests.support.alerts.alert_suite import ERASED
from tests.support.alerts.alerts import end_of, send, then, told
from tests.support.clients.producers import connected_producer

TABLES = ("alerts_byday", "alert_life", "alerts_open", "alert_position")
Rows = dict[str, set[tuple[Any, ...]]]


@pytest.fixture
def session(own_settings: Settings) -> Iterator[Session]:
    """Of the module's keyspace, whose tables of alerts are empty."""
    with cassandra_session(own_settings) as found:
        for table in TABLES:
            found.execute(f"TRUNCATE {table}", timeout=600)
        yield found


def found(session: Session) -> Rows:
    """Every row of the three tables, without the places."""
    return {table: set(session.execute(f"SELECT * FROM {table}")) for table in TABLES[:3]}


def filed(alerts: Sequence[Alert]) -> list[FiledAlert]:
    return [FiledAlert(one, encode_alert(one).decode()) for one in alerts]


def ids_of(session: Session, table: str) -> set[str]:
    return {row.alert_id for row in session.execute(f"SELECT alert_id FROM {table}")}


@contextmanager
def projecting(settings: Settings, session: Session, topic: str) -> Iterator[None]:
    """A projector of the topic runs within the block."""
    stopped, ready = Event(), Event()
    projector = Projector(settings, topic, AlertTables(session), Heartbeat(None))
    thread = Thread(target=projector.run, args=(stopped, ready))
    thread.start()
    yield
    stopped.set()
    thread.join(600)
    assert not thread.is_alive() and ready.is_set()


def many() -> list[Alert]:
    """Messages of twenty raises whose ends come and go, each raise's in their order."""
    rng, waiting = random.Random(5), []
    for number in range(20):
        first = told(number, rng.choice(("367", "406", "500")))
        story = [first, *([then(first, "confirmed")] if rng.random() < 0.5 else [])]
        for again in range(1, rng.randint(1, 4)):
            end = end_of(first, again)
            story += [end, then(end, "retracted", reason="late_data")]
        waiting.append(story[: rng.randint(1, len(story))])
    messages = []
    while waiting := [one for one in waiting if one]:
        messages.append(rng.choice(waiting).pop(0))
    return messages


def test_tables_are_those_of_all_that_was_told_in_any_batches(session: Session) -> None:
    messages, tables = many(), AlertTables(session)
    tables.write_alerts(filed(messages))
    whole = found(session)
    for table in TABLES:
        session.execute(f"TRUNCATE {table}", timeout=600)

    for one in messages:
        tables.write_alerts(filed([one]))

    assert found(session) == whole
    lives = {
        one.alert_id: [m for m in messages if one.alert_id in episode_ids(m)] for one in messages
    }
    assert ids_of(session, "alerts_open") == {
        one for one, life in lives.items() if open_alert(one, life) is not None
    }
    assert {row.alert_id: row.state for row in session.execute("SELECT * FROM alerts_byday")} == {
        one: last.state for one, last in current_states(messages).items()
    }


def test_replays_and_a_second_one_that_is_behind_change_nothing(session: Session) -> None:
    messages, rng = many(), random.Random(7)
    ahead, behind = AlertTables(session), AlertTables(session)
    ahead.write_alerts(filed(messages))
    whole = found(session)

    for _ in range(12):
        begin = rng.randrange(len(messages))
        behind.write_alerts(filed(messages[begin : begin + rng.randint(1, 9)]))

    assert found(session) == whole


def test_deleting_by_the_clock_would_hide_what_comes_later(session: Session) -> None:
    # Negative control: the same row, taken away by the wall clock, and open again.
    raised = told()
    end = end_of(raised)
    by_the_clock = "DELETE FROM alerts_open WHERE store_id = '367' AND alert_id = %s"
    session.execute(by_the_clock, [raised.alert_id])

    AlertTables(session).write_alerts(
        filed([raised, end, then(end, "retracted", reason="conflict")])
    )

    assert ids_of(session, "alerts_open") == set()


def test_an_erasure_empties_what_was_told_before_and_makes_no_state(session: Session) -> None:
    last = then(ERASED, "retracted", reason="erasure", value=None)
    tables = AlertTables(session)
    tables.write_alerts(filed([ERASED, last]))
    # Told again by a replay that has not come as far.
    tables.write_alerts(filed([ERASED]))

    rows = {row.state: row.message for row in session.execute("SELECT * FROM alert_life")}

    assert set(rows) == {"provisional", "retracted"}
    assert rows["provisional"] is None
    assert decode_alert(rows["retracted"]).value is None


def test_projector_goes_on_where_another_one_ended(
    own_settings: Settings, session: Session, topic: str
) -> None:
    messages = many()
    with projecting(own_settings, session, topic):
        send(own_settings, topic, messages[:20])
        wait_until(lambda: len(found(session)["alert_life"]) == len(rows_of(messages[:20])))
        send(own_settings, topic, [told(77)], abort=True)
    # What nobody can read holds up nothing behind it.
    producer = connected_producer(own_settings)
    dateless = encode_alert(told(8, raised_at="then"))
    for value in (b"{no alert", b"\xff", b"", None, dateless):
        producer.produce(topic, value, b"367", partition=1)
    assert producer.flush(30) == 0
    send(own_settings, topic, messages[20:])

    with projecting(own_settings, session, topic):
        wait_until(lambda: len(found(session)["alert_life"]) == len(rows_of(messages)))

    by_projector = found(session)
    for table in TABLES:
        session.execute(f"TRUNCATE {table}", timeout=600)
    AlertTables(session).write_alerts(filed(messages))
    assert by_projector == found(session)


def rows_of(messages: Sequence[Alert]) -> set[tuple[str, str, str]]:
    """The keys that alert_life has of the messages."""
    return {(life, one.alert_id, one.state) for one in messages for life in episode_ids(one)}


def test_projector_files_a_topic_that_is_made_anew_from_its_beginning(
    own_settings: Settings, session: Session, topic: str
) -> None:
    with projecting(own_settings, session, topic):
        send(own_settings, topic, [told(1), told(2)])
        wait_until(lambda: len(ids_of(session, "alerts_open")) == 2)
        make_anew(own_settings, topic)
        send(own_settings, topic, [told(3)])

        wait_until(lambda: len(ids_of(session, "alerts_open")) == 3)

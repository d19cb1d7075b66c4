"""`tally query` over HTTP, against the API on a free port."""

import json
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from tenacity import retry, stop_after_delay, wait_fixed
from typer.testing import CliRunner

from ops.cli.app import build_app
from ops.cli.query import Question, ask
from serving.api.app import create_app
from tally.errors import TallyError
from tally.settings import Settings
from tests.serving_example import NEW, SETTLED, example
from tests.serving_world import MemoryViews


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    app = create_app(Settings(), MemoryViews(example()))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    retry(stop=stop_after_delay(30), wait=wait_fixed(0.05))(lambda: server.servers[0])()
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def asked(metric: str, *more: str) -> list[str]:
    return ["query", metric, "--store", "367", "--from", SETTLED, "--to", NEW, *more]


def test_json_is_the_apis_answer(address: str) -> None:
    result = CliRunner().invoke(build_app(), asked("revenue", "--grain", "1d", "--json"), env={"TALLY_API": address})
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["metric"], answer["rows"][0]["value"]) == (0, "revenue", 2600)


def test_table_shows_the_value_and_where_it_is_from(address: str) -> None:
    result = CliRunner().invoke(build_app(), asked("revenue", "--grain", "1d"), env={"TALLY_API": address})
    assert result.exit_code == 0
    assert all(word in result.stdout for word in ("Revenue (USD, minor)", "2,600", "mixed", "provisional"))
    assert "every record that had arrived by 2017-09-22T00:00:00Z is counted" in result.stderr


def test_pages_are_joined(address: str) -> None:
    stores = ["367", "406"]
    answer = ask(address, Question("transactions", {"store": ",".join(stores), "from": "2017-06-01", "to": "2017-09-20"}))
    assert [(one["store"], len(one["rows"])) for one in answer["series"]] == [(store, 111 * 96) for store in stores]
    assert (answer["status"], answer["source"], answer["next"]) == ("provisional", "mixed", None)


def test_refusal_is_the_apis_own_sentence(address: str) -> None:
    with pytest.raises(TallyError, match="there is no metric 'happiness'"):
        ask(address, Question("happiness", {"store": "367", "from": SETTLED, "to": NEW}))


def test_api_that_does_not_run_is_named_with_the_fix() -> None:
    with pytest.raises(TallyError, match="start it with `tally up api`"):
        ask("127.0.0.1:1", Question("revenue", {}))

"""What the demo waits for: a condition, both layers, or the master while a store keeps sending."""

import operator
import time
from collections.abc import Callable
from typing import Any

import httpx
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

from ops.lag import Lag, WaitingSeconds
from tally.errors import StackError

Say = Callable[[str], None]
# Enough for several triggers of the master's ingest.
MASTER_SECONDS = 180


def wait_until(
    is_met: Callable[[], bool],
    missing: Callable[[], str],
    deadline_seconds: float,
    poll_seconds: float = 1.0,
) -> None:
    """Return once the condition is met. Raises StackError, with what is missing, if it is late."""
    again = retry(
        retry=retry_if_result(operator.not_),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_fixed(poll_seconds),
    )
    try:
        again(is_met)()
    except RetryError as error:
        raise StackError(missing()) from error


def wait_until_caught_up(lag: Callable[[], Lag], say: Say, deadline_seconds: float) -> None:
    """Return once all records have reached both layers. Raises StackError if they are late."""
    found: list[Lag] = []

    def is_caught_up() -> bool:
        now = lag()
        found[:] = [now]
        if now.total:
            say(
                "records to go:"
                f" normaliser {now.normaliser:,}, speed {now.speed:,}, master {now.master:,}"
            )
        return not now.total

    wait_until(
        is_caught_up,
        lambda: (
            f"still behind after {deadline_seconds:.0f} s: {found[0]};"
            " see `tally status` and the logs"
        ),
        deadline_seconds,
    )


def wait_for_master(
    waiting: Callable[[], WaitingSeconds], deadline_seconds: float = MASTER_SECONDS
) -> None:
    """Return once the master holds all that was served at the call. Raises StackError if late."""
    # While a store keeps sending, the lag reaches zero only by chance.
    since = time.monotonic()
    wait_until(
        # The oldest unread record may be from before the call.
        lambda: waiting().master < time.monotonic() - since,
        lambda: (
            f"the master dataset is still behind after {deadline_seconds:.0f} s;"
            " see `tally status` and the logs"
        ),
        deadline_seconds,
    )


DAG = "rebuild_views"
_PARSE_SECONDS = 120
_DEADLINE_SECONDS = 600
_POLL_SECONDS = 2


def run_rebuild(address: str, conf: dict[str, Any], say: Say) -> str:
    """Run the DAG with the conf and return the run id. Raises StackError when it fails."""
    # On a busy machine an answer of Airflow took over half a minute: only the deadline ends a wait.
    with httpx.Client(base_url=f"http://{address}", timeout=_DEADLINE_SECONDS) as client:
        token = client.get("/auth/token").raise_for_status().json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        # Airflow answers requests some seconds before it has parsed its DAGs.
        wait_until(
            lambda: client.get(f"/api/v2/dags/{DAG}").status_code == httpx.codes.OK,
            lambda: (
                f"airflow: the DAG {DAG} was not parsed within 2 minutes;"
                " see TALLY_HOME/logs/airflow.log"
            ),
            _PARSE_SECONDS,
            _POLL_SECONDS,
        )
        # The demo keeps the DAG paused until here: an hourly run would replace the speed layer's
        # answers that the demo shows.
        client.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        request = {"logical_date": None, "conf": conf}
        answer = client.post(f"/api/v2/dags/{DAG}/dagRuns", json=request).raise_for_status()
        run = str(answer.json()["dag_run_id"])
        say(f"airflow: {DAG} run {run} is queued")
        state = _wait_for_end(client, run)
    if state != "success":
        raise StackError(
            f"airflow: {DAG} run {run} ended as {state};"
            " see the task log under TALLY_HOME/data/airflow/logs"
        )
    return run


def _wait_for_end(client: httpx.Client, run: str) -> str:
    states: list[str] = []

    def has_ended() -> bool:
        answer = client.get(f"/api/v2/dags/{DAG}/dagRuns/{run}").raise_for_status()
        states.append(str(answer.json()["state"]))
        return states[-1] not in ("queued", "running")

    wait_until(
        has_ended,
        lambda: f"airflow: {DAG} run {run} is {states[-1]} after {_DEADLINE_SECONDS} s",
        _DEADLINE_SECONDS,
        _POLL_SECONDS,
    )
    return states[-1]

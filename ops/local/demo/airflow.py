"""One run of the DAG `rebuild_views`, requested from the real Airflow over its REST API."""

from collections.abc import Callable
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

from tally.errors import StackError

DAG = "rebuild_views"
_DEADLINE_SECONDS = 600
_POLL_SECONDS = 2


def run_rebuild(
    address: str,
    conf: dict[str, Any],
    say: Callable[[str], None],
) -> str:
    """Trigger the DAG with the conf, wait for its end and return the run id.

    Raises StackError when the run does not succeed.
    """
    with httpx.Client(base_url=f"http://{address}", timeout=30) as client:
        client.headers["Authorization"] = f"Bearer {_token(client)}"
        # Airflow answers requests some seconds before it has parsed its DAGs.
        _wait_for_dag(client)
        # The demo keeps the DAG paused until here: an hourly run would replace the speed layer's
        # answers that the demo shows.
        client.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        answer = client.post(
            f"/api/v2/dags/{DAG}/dagRuns", json={"logical_date": None, "conf": conf}
        )
        answer.raise_for_status()
        run = str(answer.json()["dag_run_id"])
        say(f"airflow: {DAG} run {run} is queued")
        state = _wait_for_end(client, run)
    if state != "success":
        raise StackError(
            f"airflow: {DAG} run {run} ended as {state};"
            " see the task log under TALLY_HOME/data/airflow/logs"
        )
    return run


def _token(client: httpx.Client) -> str:
    answer = client.get("/auth/token")
    answer.raise_for_status()
    return str(answer.json()["access_token"])


@retry(
    retry=retry_if_exception_type(LookupError),
    stop=stop_after_delay(120),
    wait=wait_fixed(_POLL_SECONDS),
    reraise=True,
)
def _wait_for_dag(client: httpx.Client) -> None:
    if client.get(f"/api/v2/dags/{DAG}").status_code != httpx.codes.OK:
        raise LookupError(
            f"airflow: the DAG {DAG} was not parsed within 2 minutes;"
            " see TALLY_HOME/logs/airflow.log"
        )


def _is_unfinished(state: str) -> bool:
    return state in ("queued", "running")


@retry(
    retry=retry_if_result(_is_unfinished),
    stop=stop_after_delay(_DEADLINE_SECONDS),
    wait=wait_fixed(_POLL_SECONDS),
)
def _wait_for_end(client: httpx.Client, run: str) -> str:
    return str(client.get(f"/api/v2/dags/{DAG}/dagRuns/{run}").raise_for_status().json()["state"])

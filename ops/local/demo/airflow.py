"""One run of the DAG `rebuild_views`, requested from the real Airflow over its REST API."""

from typing import Any

import httpx

from ops.local.demo.waits import Say, wait_until
from tally.errors import StackError

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

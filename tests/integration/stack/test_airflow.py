"""Airflow under the supervisor runs a task, listens on loopback only, and leaves nothing behind
when it is killed."""

import http.client
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from ops.local.processes import processes
from ops.local.processes.service import Launch, Service, Site
from ops.local.services import catalogue
from ops.local.stack import control
from tests.conftest import make_site

DAG = """
import pendulum
from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG("one_task", schedule=None, start_date=pendulum.datetime(2017, 1, 1)):
    BashOperator(task_id="touch", bash_command="touch {done}")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one DAG whose one task makes the file `done` in it."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "one_task.py").write_text(DAG.format(done=folder / "done"))
    return folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Service:
    """Airflow with that folder and without Cassandra."""

    def launch(site: Site) -> Launch:
        shipped = catalogue.launch_airflow(site)
        return Launch(
            shipped.argv, {**shipped.environment, "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}
        )

    return replace(catalogue.AIRFLOW, launch=launch, needs=())


@pytest.fixture(scope="module")
def running(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = make_site(tmp_path_factory.mktemp("airflow"))
    control.up(site, [service], print)
    yield site
    control.down(site, [service], print)


def call(site: Site, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Answer of Airflow's API, signed in as the admin that everybody is on this machine."""
    connection = http.client.HTTPConnection(site.settings.airflow, timeout=300)
    connection.request("GET", "/auth/token")
    token = json.loads(connection.getresponse().read())["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


@retry(
    retry=retry_if_result(lambda state: state not in ("success", "failed")),
    stop=stop_after_delay(600),
    wait=wait_fixed(0.5),
)
def final_state(site: Site, run: str) -> str:
    return str(call(site, "GET", f"/api/v2/dags/one_task/dagRuns/{run}")["state"])


@retry(
    retry=retry_if_result(lambda found: not found), stop=stop_after_delay(600), wait=wait_fixed(0.5)
)
def dag_is_known(site: Site) -> bool:
    return "dag_id" in call(site, "GET", "/api/v2/dags/one_task")


def test_new_dag_is_on_and_a_triggered_run_of_it_runs_its_task(running: Site, folder: Path) -> None:
    dag_is_known(running)
    run = call(running, "POST", "/api/v2/dags/one_task/dagRuns", {"logical_date": None})[
        "dag_run_id"
    ]

    assert (final_state(running, run), (folder / "done").exists()) == ("success", True)


def test_database_and_logs_of_the_task_are_their_owners_alone(running: Site) -> None:
    found = [path for path in running.home.rglob("*") if not path.is_symlink() and path.is_file()]
    by_airflow = [path for path in found if path.is_relative_to(running.home / "data")]

    assert (
        len(by_airflow) > 2 and [path for path in by_airflow if path.stat().st_mode & 0o077] == []
    )


def test_every_listener_is_on_loopback(running: Site) -> None:
    own = {process.pid for process in processes.find_marked_processes(f"{running.home}:airflow")}

    sockets = [
        item
        for item in psutil.net_connections("tcp")
        if item.status == psutil.CONN_LISTEN and item.pid in own
    ]
    listening = {item.laddr.ip for item in sockets if item.laddr}

    assert listening == {"127.0.0.1"}


def test_sigkill_of_its_pid_ends_every_component(running: Site, service: Service) -> None:
    tree = processes.find_marked_processes(f"{running.home}:airflow")
    pid = control.service_status(running, service).pid
    assert pid is not None and len(tree) > 3
    psutil.Process(pid).send_signal(signal.SIGKILL)

    _, alive = psutil.wait_procs(tree, timeout=300)

    assert (alive, control.service_status(running, service).state) == ([], "failed")

"""Airflow (scheduler, DAG processor, API server; SQLite) as a tree of local processes."""

import sys
from pathlib import Path

from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from runtime.process.repository import REPOSITORY

NEW_DAGS_ARE_PAUSED = "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"


def launch(site: Site) -> Launch:
    """The process that runs Airflow's components and ends with them."""
    return Launch((sys.executable, "-m", "ops.local.services.airflow_run"), _environment(site))


def _environment(site: Site) -> dict[str, str]:
    host, port = site.settings.airflow.rsplit(":", 1)
    path = f"{Path(sys.executable).parent}:{site.environment.get('PATH', '/usr/bin:/bin')}"
    return {
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(site.data("airflow")),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        # Airflow's default would leave the hourly rebuild paused until a person turns it on.
        NEW_DAGS_ARE_PAUSED: site.environment.get(NEW_DAGS_ARE_PAUSED, "False"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # No login: Airflow listens on loopback, and every local user counts as its owner.
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        # With the one worker and one parsing process below it takes 1.5 GB, not 5.5 GB (measured).
        "AIRFLOW__CORE__PARALLELISM": "2",
        # By default Airflow makes its tasks' logs readable for the group and for others.
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        # The default has port 8080, so every task would fail to report.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{host}:{port}/execution/",
        "AIRFLOW__API__HOST": host,
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__API__BASE_URL": f"http://{host}:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_COLOR": "1",  # the output goes to a log file
    }


AIRFLOW = Service(
    name="airflow",
    launch=launch,
    is_ready=lambda site: probes.airflow_answers(site.settings),
    answers=lambda site: probes.responds_http(site.settings.airflow, "/api/v2/version"),
    needs=("cassandra",),
    settings_names=("airflow",),
    http=True,
    start_seconds=240,
    stop_seconds=30,
)

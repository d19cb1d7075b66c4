"""Prints, as one JSON object, what Airflow finds in dags/; run as a process with an AIRFLOW_HOME of
its own.

Importing Airflow writes its configuration and sets up logging: the test process is spared both.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

REPOSITORY = Path(__file__).parents[2]


def main() -> None:
    """One entry for each file: what it defines, the processor seconds of its import, and which
    heavy modules it imports."""
    sys.path.insert(0, str(REPOSITORY))
    # A first DAG file pays for Airflow's own operators; they are not what is measured.
    import_module("airflow.providers.standard.operators.bash")
    files = [
        file.stem for file in sorted((REPOSITORY / "dags").glob("*.py")) if file.stem != "__init__"
    ]
    print(json.dumps({name: described(name) for name in files}))


def described(name: str) -> dict[str, Any]:
    """The facts of one DAG file that the tests look at."""
    started = time.process_time()
    module = import_module(f"dags.{name}")
    seconds = time.process_time() - started
    dags = [value for value in vars(module).values() if isinstance(value, DAG)]
    return {
        "ids": [dag.dag_id for dag in dags],
        "seconds": seconds,
        "heavy": sorted({"pyspark", "batch_layer", "cassandra"} & sys.modules.keys()),
        "tags": sorted({tag for dag in dags for tag in dag.tags}),
        "catchup": [dag.catchup for dag in dags],
        "max_active_runs": [dag.max_active_runs for dag in dags],
        "documented": [bool(dag.doc_md) for dag in dags],
        "tasks": [facts_of_task(task) for dag in dags for task in dag.tasks],
        "commands": {
            conf: command(dag, conf) for dag in dags for conf in ("dirty", "full", "days")
        },
        "params": [dag.params.dump() for dag in dags],
    }


def facts_of_task(task: Any) -> dict[str, Any]:
    """Owner and retries of one task."""
    return {"owner": task.owner, "retries": task.retries}


def command(dag: DAG, mode: str) -> str:
    """The first task's command for one mode, as Airflow renders it."""
    params = {"mode": mode, "days": "2017-09-01..2017-09-30" if mode == "days" else ""}
    task: Any = dag.tasks[0]
    return str(task.render_template(task.bash_command, {"params": params}))


if __name__ == "__main__":
    main()

"""DAG `snapshot_baselines`: fixes every night the baselines that alerts use from tomorrow on."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable

REPOSITORY = Path(__file__).resolve().parents[1]
DOC = """
### Snapshot of what is usual

Starts `python -m batch_layer.views.baselines`: notes which generation of which day rules of kind
`baseline` compare with, from the first local day on that has begun nowhere. One conditional write
decides: two runs at once, or a retry, find what is there. Without a night's snapshot the one before
goes on to serve.

By hand: `tally rules baselines`, or trigger this DAG.
"""

with DAG(
    dag_id="snapshot_baselines",
    description="Which generations alerts compare with, fixed before the day begins",
    doc_md=DOC,
    schedule=CronTriggerTimetable("40 0 * * *", timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    tags=["batch", "views"],
    # Retries end at 07:40: a snapshot made then still serves the same day as one made at night.
    default_args={"owner": "tally", "retries": 14, "retry_delay": timedelta(minutes=30)},
) as dag:
    BashOperator(
        task_id="snapshot",
        # With `exec` the signal that ends the task reaches the job itself.
        bash_command=f"exec {shlex.quote(sys.executable)} -m batch_layer.views.baselines --json",
        cwd=str(REPOSITORY),
        append_env=True,
        execution_timeout=timedelta(minutes=10),
    )

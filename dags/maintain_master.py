"""DAG `maintain_master`: merges small files of the master dataset every hour."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable

REPOSITORY = Path(__file__).resolve().parents[1]
DOC = """
### Maintenance of the master dataset

Starts `python -m batch_layer.master.maintenance`: merges the small files of each source and day,
removes files that no version of the last two days needs, and cleans up the table's log. It runs
beside the ingest and beside rebuilds. Of two runs at once one is refused and changes nothing; a run
that was killed leaves files behind that a later one removes.

Without it each append writes a file for each source and day for ever, and opening the table takes
longer with each.
"""

with DAG(
    dag_id="maintain_master",
    description="Merges small files of the master dataset, and removes those no version needs",
    doc_md=DOC,
    # Half an hour after the rebuilds begin.
    schedule=CronTriggerTimetable("30 * * * *", timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    tags=["batch", "master", "maintenance"],
    default_args={"owner": "tally", "retries": 2, "retry_delay": timedelta(minutes=5)},
) as dag:
    BashOperator(
        task_id="maintain",
        # With `exec` the signal that ends the task reaches the job itself.
        bash_command=f"exec {shlex.quote(sys.executable)} -m batch_layer.master.maintenance --json",
        cwd=str(REPOSITORY),
        append_env=True,
        execution_timeout=timedelta(hours=1),
    )

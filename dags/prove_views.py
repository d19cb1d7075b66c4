"""DAG `prove_views`: recomputes a sample of the batch views from all records every night."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable

REPOSITORY = Path(__file__).resolve().parents[1]
DOC = """
### Proof of the batch views

Starts `python -m batch_layer.views.proof`: for a sample of stores and one month it recomputes the
rows from every record of these stores, and compares them with those that are served. Each night has
another sample. It fails when a row differs, and names it: a link between days was wrong then, and
`tally rebuild --full` publishes the right rows.
"""

with DAG(
    dag_id="prove_views",
    description="Recomputes a sample of the batch views from all records, and compares",
    doc_md=DOC,
    schedule=CronTriggerTimetable("20 4 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["batch", "views", "quality"],
    default_args={"owner": "tally", "retries": 2, "retry_delay": timedelta(minutes=30)},
) as dag:
    BashOperator(
        task_id="prove",
        # With `exec` the signal that ends the task reaches the job itself.
        bash_command=f"exec {shlex.quote(sys.executable)} -m batch_layer.views.proof --json",
        cwd=str(REPOSITORY),
        append_env=True,
        execution_timeout=timedelta(hours=3),
    )

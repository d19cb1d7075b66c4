"""DAG `sweep_views`: removes versions of batch rows that no answer needs any more, every night."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable

REPOSITORY = Path(__file__).resolve().parents[1]
DOC = """
### Sweep of the batch views

Starts `python -m batch_layer.views.sweep`: of each row it keeps what serves now, what first served,
what baselines were learned from, and what served in the last `TALLY_AS_OF_DAYS` days. Readers and
rebuilds go on meanwhile. Red: the next night's run removes what this one has left.
"""

with DAG(
    dag_id="sweep_views",
    description="Removes versions of batch rows that no answer needs any more",
    doc_md=DOC,
    schedule=CronTriggerTimetable("40 3 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["batch", "views", "retention"],
    default_args={"owner": "tally", "retries": 2, "retry_delay": timedelta(minutes=30)},
) as dag:
    BashOperator(
        task_id="sweep",
        # With `exec` the signal that ends the task reaches the job itself.
        bash_command=f"exec {shlex.quote(sys.executable)} -m batch_layer.views.sweep --json",
        cwd=str(REPOSITORY),
        append_env=True,
        execution_timeout=timedelta(hours=3),
    )

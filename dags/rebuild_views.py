"""DAG `rebuild_views`: rebuilds the dirty days from the master dataset every hour."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param

REPOSITORY = Path(__file__).resolve().parents[1]
DAYS = r"^(\d{4}-\d\d-\d\d\.\.\d{4}-\d\d-\d\d)?$"
DOC = """
### Rebuild the batch views

Starts `python -m batch_layer.views.rebuild`: takes a fencing token, pins one version of the master
dataset, computes, checks its own rows and publishes them with one flip of the pointer. Two runs
at once, or a retry beside a first attempt that still lives, are harmless: of two flips the one
with the later token and offsets stands, the other is refused.

| mode | rebuilds |
|---|---|
| `dirty` (every hour) | days with records beyond their generation |
| `full` | every day of the master dataset |
| `days` | the UTC days of `days`, both inclusive, e.g. `2017-09-01..2017-09-30` |

By hand: `tally rebuild`, or trigger this DAG with `{"mode": "full"}`.
"""

with DAG(
    dag_id="rebuild_views",
    description="Batch views from the master dataset, published by one pointer flip",
    doc_md=DOC,
    # There is no start date and no grace: with either, a DAG that is turned on runs at once for
    # the full hour before.
    schedule=CronTriggerTimetable("0 * * * *", timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    tags=["batch", "views"],
    default_args={"owner": "tally", "retries": 2, "retry_delay": timedelta(seconds=30)},
    params={
        "mode": Param(
            "dirty", type="string", enum=["dirty", "full", "days"], description="what to rebuild"
        ),
        "days": Param("", type="string", pattern=DAYS, description="A..B, for mode days"),
    },
) as dag:
    BashOperator(
        task_id="rebuild",
        # With `exec` the signal that ends the task reaches the job itself.
        # The last line of output, one JSON object, becomes the task's XCom.
        bash_command=(
            f"exec {shlex.quote(sys.executable)} -m batch_layer.views.rebuild --json"
            " --{{ params.mode }}{% if params.mode == 'days' %} {{ params.days }}{% endif %}"
        ),
        cwd=str(REPOSITORY),
        append_env=True,
        execution_timeout=timedelta(hours=1),
    )

"""Why a query failed, from the texts that Spark makes of it."""

import pytest

from runtime.spark.checkpoint import root_cause

FOREACH_BATCH = """[STREAM_FAILED] Query [id = 6, runId = 8] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error
occurred in the user provided function in foreach batch sink. Reason: An exception was raised by \
the Python Proxy.
Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^
  File "batch_layer/master/progress.py", line 54, in _execute
    prepared = session.prepare(statement)
cassandra.OperationTimedOut: errors={'127.0.0.1:24663': 'Client request timeout'}, \
last_host=127.0.0.1:24663
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: master
"""
JVM = """Job aborted due to stage failure
Caused by: org.apache.spark.SparkException: wrapped
\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 34 more
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            FOREACH_BATCH,
            (
                "cassandra.OperationTimedOut: errors={'127.0.0.1:24663': 'Client request timeout'},"
                " last_host=127.0.0.1:24663"
            ),
        ),
        (
            (
                "Traceback (most recent call last):\n  File\nKeyError: 'a'\n\nDuring"
                f" handling:\n\n{FOREACH_BATCH}"
            ),
            None,
        ),
        (JVM, "java.io.IOException: No space left on device"),
        ("[STREAM_FAILED] it\n  failed", "[STREAM_FAILED] it failed"),
        ("", ""),
    ],
)
def test_root_is_named_in_one_line(text: str, cause: str | None) -> None:
    assert root_cause(text) == (root_cause(FOREACH_BATCH) if cause is None else cause)


def test_root_is_short() -> None:
    assert len(root_cause(f"Traceback (most recent call last):\nValueError: {'x' * 5000}")) == 300

"""Whoever can write to `alert-deliveries` writes no file and calls no address inside.

The dispatcher is the shipped one and restores the forged records like its own; only Kafka is not
here.
"""

import time
from pathlib import Path

import pytest

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.records import WebhookMessage, decode_record, encode_record
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import CONTROLS, DELIVERIES, Dispatcher, webhook_calls
from runtime.outbound.caller import OutboundCaller
from runtime.processor.step import Input, Output
from tests.unit.alerting.deliver.deliveries import NOON, SECOND, Town, channel
from tests.unit.alerting.dispatch.test_dispatcher_step import keys, record, tick, wait_for

SECONDS_OF_PROCESSOR = 2.0
FORGED_URLS = (
    *("file:{home}/.bashrc", "file://{home}/.bashrc", "file:///{home}/.bashrc", "{home}/.bashrc"),
    *("file:../.bashrc", "../../.bashrc", "data:,export", "ftp://127.0.0.1{home}/.bashrc", ""),
    *("http://127.0.0.1:1/", "https://169.254.169.254/latest", "https://[::1]/", "unix:{home}/s"),
)


def forge_delivery(url: str) -> Input:
    """A record of the dispatcher's state that is due at once."""
    message = WebhookMessage(
        channel="floor",
        message_id=f"alrt_{'f' * 32}",
        kind="alert",
        url=url,
        body="alias sudo=true\n",
        lanes=("lane",),
        order=1,
        due_at=NOON,
    )
    return Input(DELIVERIES, 0, 0, NOON, message.key.encode(), encode_record(message))


@pytest.mark.parametrize("url", FORGED_URLS)
def test_a_forged_delivery_is_refused_and_writes_no_file(url: str, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("mine\n", "utf-8")
    step = Dispatcher(
        webhook_calls(OutboundCaller((), keys)),
        lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories),
    )
    began = time.process_time()
    try:
        step.restore([forge_delivery(url.replace("{home}", str(tmp_path)))])
        # The channel exists and has its secrets, so that the call is refused for its address alone.
        outputs = [*step.process(record(CONTROLS, channel())), *step.process(tick(2))]
        outputs += step.before_commit()
        step.on_commit()
        answers = wait_for(lambda: [*step.before_commit()])
    finally:
        step.close()

    (answer,) = messages_of(answers)
    assert (answer.outcome, answer.status, answer.may_have_arrived) == ("waiting", None, False)
    assert answer.is_blocked, answer.cause
    assert answer.due_at >= NOON + SECOND
    assert [*tmp_path.iterdir()] == [tmp_path / ".bashrc"]
    assert (tmp_path / ".bashrc").read_text("utf-8") == "mine\n"
    assert time.process_time() - began < SECONDS_OF_PROCESSOR


def messages_of(outputs: list[Output]) -> list[WebhookMessage]:
    """The deliveries among the outputs."""
    found = [decode_record(output.value or b"") for output in outputs]
    return [message for message in found if isinstance(message, WebhookMessage)]

"""A sender who can write to `alert-deliveries` writes no file and calls no inside address.

The dispatcher is the shipped one and restores forged records like its own, without Kafka.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.records import WebhookMessage, decode_record, encode_record
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import CONTROLS, DELIVERIES, Dispatcher, webhook_calls
from runtime.outbound.addresses import AllowedNetwork
from runtime.outbound.caller import OutboundCaller
from runtime.processor.step import Input
from tests.support.stack.nominal_processor import slowness
from tests.unit.alerting.deliver.deliveries import NOON, Town, channel, messages
from tests.unit.alerting.deliver.test_delivery_attempts import message
from tests.unit.alerting.dispatch.test_dispatcher_step import (
    LOOPBACK,
    keys,
    record,
    tick,
    wait_for,
)
from tests.unit.alerting.webhooks.receivers import receiver, status

PROCESSOR_SECONDS = 2.0
FORGED_URLS = (
    *("file:{home}/.bashrc", "file://{home}/.bashrc", "file:///{home}/.bashrc", "{home}/.bashrc"),
    *("file:../.bashrc", "../../.bashrc", "data:,export", "ftp://127.0.0.1{home}/.bashrc", ""),
    *("http://127.0.0.1:1/", "https://169.254.169.254/latest", "https://[::1]/", "unix:{home}/s"),
)


def restore_and_call(url: str, allowed: Sequence[AllowedNetwork]) -> WebhookMessage:
    """Restore a dispatcher from a forged record that is due at once; return the record after its
    call."""
    forged = message(url=url, body="alias sudo=true\n")
    step = Dispatcher(
        webhook_calls(OutboundCaller(allowed, keys)),
        lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories),
    )
    try:
        step.restore([Input(DELIVERIES, 0, 0, NOON, forged.key.encode(), encode_record(forged))])
        # The channel and its secrets exist, so only the address can be a reason to refuse.
        step.process(record(CONTROLS, channel()))
        step.process(tick(2))
        step.before_commit()
        step.on_commit()
        outputs = wait_for(lambda: [*step.before_commit()])
    finally:
        step.close()
    (found,) = messages(decode_record(output.value or b"") for output in outputs)
    return found


@pytest.mark.parametrize("url", FORGED_URLS)
def test_a_forged_delivery_is_refused_and_writes_no_file(url: str, tmp_path: Path) -> None:
    own = tmp_path / ".bashrc"
    own.write_text("mine\n", "utf-8")
    began = time.process_time()

    found = restore_and_call(url.replace("{home}", str(tmp_path)), ())

    assert time.process_time() - began < PROCESSOR_SECONDS * slowness()
    assert (found.outcome, found.status, found.may_have_arrived) == ("waiting", None, False)
    assert found.is_blocked, found.cause
    assert [*tmp_path.iterdir()] == [own]
    assert own.read_text("utf-8") == "mine\n"


def test_negative_control_where_loopback_is_allowed_the_record_is_called() -> None:
    with receiver(status(204)) as (port, calls):
        found = restore_and_call(f"http://127.0.0.1:{port}/", LOOPBACK)

    assert (found.outcome, len(calls)) == ("delivered", 1)

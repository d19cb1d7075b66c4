"""The calls under way: none waits for another one's receiver, name or folder."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from alerting.deliver.calls import OutboundMessage, WebhookCalls
from alerting.deliver.digest_files import WRITTEN, DigestFiles
from alerting.deliver.sender import WebhookSender
from alerting.deliver.state.call_limits import MAX_ADDRESS_CALLS
from alerting.deliver.state.records import FILE_PREFIX
from runtime.outbound.addresses import parse_networks
from tests.unit.alerting.deliver.test_delivery_attempts import message
from tests.unit.alerting.dispatch.test_dispatcher_step import wait_for
from tests.unit.alerting.webhooks.receivers import receiver, status

NAME = "office/2026-11-27_367.json"


@contextmanager
def calling(files: DigestFiles | None = None) -> Iterator[WebhookCalls]:
    sender = WebhookSender(parse_networks("127.0.0.0/8"))
    calls = WebhookCalls(sender, lambda _names: [b"k" * 32], files)
    yield calls
    calls.close()


def begin(calls: WebhookCalls, number: int, url: str, kind: str = "alert") -> None:
    told = message(channel="office", message_id=f"alrt_{number}_confirmed", url=url, kind=kind)
    calls.begin(OutboundMessage(0, told, ("a",), digest_as="file"))


def test_names_that_nobody_looks_up_hold_up_no_other_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go, real = Event(), socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if "hanging" in str(host):
            let_go.wait(30)
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with receiver(status(204)) as (port, _), calling() as calls:
        # All that two channels may have under way.
        for number in range(2 * MAX_ADDRESS_CALLS):
            begin(calls, number, f"https://hanging{number % 2}.test/")
        begin(calls, 99, f"http://127.0.0.1:{port}/")
        try:
            [first] = wait_for(calls.take_answers)
        finally:
            let_go.set()

    assert (first.message.message_id, first.answer.status) == ("alrt_99_confirmed", 204)


def test_a_digest_is_written_where_a_file_is_asked_for_and_signs_nothing(tmp_path: Path) -> None:
    with calling(DigestFiles(tmp_path)) as calls:
        begin(calls, 1, FILE_PREFIX + NAME, "digest")
        [found] = wait_for(calls.take_answers)

    assert (found.answer.status, (tmp_path / NAME).read_text("utf-8")) == (201, "{}")


def test_a_folder_that_hangs_holds_up_no_receiver(tmp_path: Path) -> None:
    let_go = Event()

    def reach(name: str) -> None:
        if name == WRITTEN:
            let_go.wait(30)

    with receiver(status(204)) as (port, _), calling(DigestFiles(tmp_path, reach)) as calls:
        for number in range(MAX_ADDRESS_CALLS):
            begin(calls, number, f"{FILE_PREFIX}office/2026-11-27_{number}.json", "digest")
        begin(calls, 99, f"http://127.0.0.1:{port}/")
        try:
            [first] = wait_for(calls.take_answers)
        finally:
            let_go.set()

    assert first.message.message_id == "alrt_99_confirmed"


def test_without_a_folder_of_digests_no_file_is_written_and_none_is_called() -> None:
    with calling() as calls:
        begin(calls, 1, f"{FILE_PREFIX}/etc/passwd")
        [found] = wait_for(calls.take_answers)

    assert found.answer.is_refused

"""A record of deliveries that somebody forged writes no file outside the folder of digests.

All targets lie in the test's own folder. That the targets would be found is shown by a writer that
trusts the record.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alerting.deliver.calls import CallResult, OutboundMessage, WebhookCalls
from alerting.deliver.digest_files import DigestFiles
from alerting.deliver.engine.engine import DeliveryEngine
from alerting.deliver.sender import WebhookSender
from alerting.deliver.state.attempts import WebhookAnswer
from alerting.deliver.state.records import (
    FILE_PREFIX,
    WebhookMessage,
    decode_record,
    encode_record,
    record_key,
)
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import CONTROLS, DELIVERIES, TICKS, Dispatcher
from runtime.outbound.addresses import parse_networks
from runtime.processor.commit.record import Input
from tests.unit.alerting.deliver.deliveries import NOON, SECOND, Town, channel
from tests.unit.alerting.deliver.test_delivery_attempts import message
from tests.unit.alerting.dispatch.test_dispatcher_step import record, wait_for

NAME = "office/2026-11-27_367.json"
VICTIM = b"kept"
# Each forged name, where {outside} is a folder beside that of digests.
FORGED = [
    "{outside}/profile",
    "{outside}/new",
    "//{outside}/profile",
    "../outside/profile",
    "../outside/new",
    "office/../../outside/profile",
    "office/../../outside/new/deep",
    "./../outside/profile",
    "office/./../../outside/profile",
    "office/2026-11-27_367.json/../../../outside/profile",
    "office/2026-11-27_../../../outside/profile.json",
    "linked/2026-11-27_367.json",
    "linked/profile",
    "office/../linked/profile",
    "elsewhere/2026-11-27_367.json",
    "office/linked.json",
    "office/.hidden",
    "office",
    "",
    "..",
    "office/2026-11-27_367.json\n",
    "office/2026-11-27_a b.json",
    "office//2026-11-27_367.json",
    "2026-11-27_367.json",
]


@pytest.fixture
def digests(tmp_path: Path) -> Path:
    """The folder of digests, with links in it that lead outside."""
    outside, folder = tmp_path / "outside", tmp_path / "digests"
    (folder / "office").mkdir(parents=True)
    outside.mkdir()
    (outside / "profile").write_bytes(VICTIM)
    (folder / "linked").symlink_to(outside)
    (folder / "office" / "linked.json").symlink_to(outside / "profile")
    return folder


def seen(folder: Path) -> dict[str, bytes | str]:
    """By path everything that lies beside and below the folder of digests, links not followed."""
    found: dict[str, bytes | str] = {}
    for one in sorted(folder.parent.rglob("*")):
        mode = one.lstat().st_mode
        is_file = stat.S_ISREG(mode)
        told = one.read_bytes() if is_file else f"{stat.S_IFMT(mode):o}"
        found[str(one.relative_to(folder.parent))] = told
    return found


def answer_to(folder: Path, forged: WebhookMessage, digest_as: str = "file") -> WebhookAnswer:
    """What comes of a call for the message."""
    calls = WebhookCalls(
        WebhookSender(parse_networks("127.0.0.0/8")),
        lambda _names: [b"k" * 32],
        DigestFiles(folder),
    )
    try:
        calls.begin(OutboundMessage(0, forged, ("floor",), digest_as))
        found: CallResult = wait_for(calls.take_answers)[0]
    finally:
        calls.close()
    return found.answer


def digest(name: str, **changed: Any) -> WebhookMessage:
    told = {"channel": "office", "kind": "digest", "body": "planted", "attempts": 1}
    return message(url=FILE_PREFIX + name, **(told | changed))


@pytest.mark.parametrize("number", range(len(FORGED)))
def test_a_forged_name_changes_nothing_outside_the_folder_and_nothing_in_it(
    digests: Path, number: int
) -> None:
    before = seen(digests)

    answer = answer_to(digests, digest(FORGED[number].format(outside=digests.parent / "outside")))

    assert (answer.status, answer.is_refused) == (None, True), answer
    assert seen(digests) == before


def test_at_least_twenty_names_were_forged() -> None:
    assert len({*FORGED}) == len(FORGED) >= 20


def _trusting(folder: Path, name: str) -> None:
    """Writes wherever the record says."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"planted")


def test_control_a_writer_that_trusts_the_record_changes_what_lies_outside(digests: Path) -> None:
    outside = digests.parent / "outside"
    for name in ("{outside}/profile", "../outside/profile", "linked/profile"):
        (outside / "profile").write_bytes(VICTIM)
        _trusting(digests, name.format(outside=outside))
        assert (outside / "profile").read_bytes() == b"planted", name


def _link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "profile")


def _dangling(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "new")


def _fifo(place: Path, _outside: Path) -> None:
    os.mkfifo(place)


def _hard(place: Path, outside: Path) -> None:
    place.hardlink_to(outside / "profile")


@pytest.mark.parametrize("plant", [_link, _dangling, _fifo, _hard])
@pytest.mark.parametrize("name", [".2026-11-27_367.json.1", "2026-11-27_367.json"])
def test_what_lies_where_a_digest_is_written_is_replaced_and_never_written_through(
    digests: Path, plant: Callable[[Path, Path], None], name: str
) -> None:
    outside = digests.parent / "outside"
    plant(digests / "office" / name, outside)

    answer = answer_to(digests, digest(NAME))

    assert answer.status == 201, answer
    assert (digests / NAME).read_bytes() == b"planted"
    assert not (digests / NAME).is_symlink()
    assert [(one.name, one.read_bytes()) for one in outside.iterdir()] == [("profile", VICTIM)]


def test_a_folder_of_a_channel_that_is_a_link_is_not_followed(digests: Path) -> None:
    before = seen(digests)

    answer = answer_to(digests, digest("linked/2026-11-27_367.json", channel="linked"))

    assert answer.status is None
    assert seen(digests) == before


@pytest.mark.parametrize(
    ("changed", "digest_as"),
    [
        # No channel of this name writes files, by its own configuration.
        ({}, "webhook"),
        ({"kind": "alert"}, "file"),
        ({"channel": "floor"}, "file"),
    ],
)
def test_only_a_digest_of_a_channel_that_is_set_to_files_becomes_one(
    digests: Path, changed: dict[str, Any], digest_as: str
) -> None:
    before = seen(digests)

    answer = answer_to(digests, digest(NAME, **changed), digest_as)

    assert answer.is_refused
    assert seen(digests) == before


def test_a_digest_of_such_a_channel_is_written(digests: Path) -> None:
    assert answer_to(digests, digest(NAME)).status == 201
    assert (digests / NAME).read_bytes() == b"planted"


@pytest.mark.parametrize("known", [True, False])
def test_a_restored_dispatcher_calls_nobody_for_a_forged_record(digests: Path, known: bool) -> None:
    outside = digests.parent / "outside"
    forged = digest(f"{outside}/profile", attempts=0, due_at=NOON)
    calls = WebhookCalls(WebhookSender(), lambda _names: [b"k" * 32], DigestFiles(digests))
    step = Dispatcher(calls, lambda n, desks: DeliveryEngine(DeliveryRules(), Town(), n, desks))
    try:
        step.restore([Input(DELIVERIES, 0, 0, NOON, record_key(forged), encode_record(forged))])
        if known:
            step.process(record(CONTROLS, channel("office", digest="07:00", digest_as="file")))
        step.process(record(TICKS, {"n": 2, "at": NOON + SECOND}))
        step.tick()
        step.on_commit()
        [ended] = wait_for(lambda: [*step.tick()])
        after = decode_record(ended.value or b"")
    finally:
        step.close()

    assert isinstance(after, WebhookMessage)
    assert after.status is None and after.outcome != "delivered"
    assert (outside / "profile").read_bytes() == VICTIM

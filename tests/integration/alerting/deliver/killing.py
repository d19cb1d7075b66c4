"""Dispatchers on the real broker that are killed at named moments, one after the other, while
alerts are told, somebody silences, and a receiver fails."""

import json
import subprocess
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from msgspec import structs

from alerting.deliver.state.controls import AlertChannel, Silence
from alerting.deliver.state.records import DeliveryDecision, DeliveryGuarantee, WebhookMessage
from runtime.processor.delivery import AFTER_POLL, FAILPOINTS
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tests.controls.alerts.dispatchers import OWN_FAILPOINTS, RESTORING
from tests.integration.alerting.deliver.failing_receiver import KEY, FailingReceiver
from tests.integration.alerting.deliver.town import Told, Town, episode, new_town
from tests.integration.alerting.deliver.witness import AT_LEAST_ONCE, AT_MOST_ONCE, Witness
from tests.integration.ingest.conftest import (
    KILLED,
    Start,
    starter,
    stop,
    wait_until,
    wait_until_ready,
)
from tests.unit.alerting.deliver.deliveries import of_kind
from tests.unit.alerting.webhooks.receivers import receiver

DISPATCHING = "tests.integration.alerting.deliver.dispatching"
CHANNEL, PAGER = "floor-tablet", "pager"
# The receiver's own: a call was taken, and nothing of its answer was sent.
IN_CALL = "in_call"
ALL_FAILPOINTS = (*FAILPOINTS, *OWN_FAILPOINTS, IN_CALL)
FAR = 10**15
# Ends a test that hangs; a slow machine needs minutes for what takes seconds elsewhere.
MAX_SECONDS = 600
_TELL_SECONDS, _TELLINGS = 0.7, 12
# The first of a process would be before anything is under way.
_NTH = {AFTER_POLL: 1, RESTORING: 5}


@dataclass
class Ordeal:
    """A town whose dispatcher dies again and again; `wrong`: a control in its place."""

    town: Town
    at: FailingReceiver
    start: Start
    random: Random
    wrong: str = ""
    fired: Counter[str] = field(default_factory=Counter)
    held: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: list[list[Alert]] = []
        self._episodes = self._toggles = self._blinks = 0
        # Told first within the silence that holds now.
        self._silenced: set[str] | None = None

    def killed(self, moment: str) -> None:
        """A dispatcher dies at the moment; before it began somebody has silenced all, or ended
        that."""
        if moment == RESTORING:
            self._store_some()
        self.tell_some()
        self.toggle()
        self.tell_some()
        crash = "" if moment == IN_CALL else f"{moment}:{_NTH.get(moment, 2)}"
        process = self.start(DISPATCHING, self.town.prefix, self.town.rules, crash, self.wrong)
        if moment == IN_CALL:
            self.at.kill = process.kill
        for number in range(int(MAX_SECONDS / _TELL_SECONDS)):
            try:
                process.wait(_TELL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                # On a slow machine no more is told than on another one.
                if number < _TELLINGS:
                    self.tell_some()
                    self._blink()
                elif number == _TELLINGS + 6:
                    # Within a silence none may ever come to it.
                    self._unsilenced()
        if process.returncode != KILLED:
            process.kill()
            raise AssertionError(f"{moment}: {process.communicate()[1][-8000:]}")
        self.fired[f"killed {moment}"] += 1

    def _store_some(self) -> None:
        """Run a dispatcher until there is state to restore: one killed before may leave none."""
        if len(self.town.kept()) >= _NTH[RESTORING]:
            return
        self._unsilenced()
        process = self.start(DISPATCHING, self.town.prefix, self.town.rules, "", self.wrong)
        for _ in range(_TELLINGS):
            self.tell_some()
        wait_until(lambda: len(self.town.kept()) >= _NTH[RESTORING], MAX_SECONDS)
        process.kill()
        process.communicate()
        self.fired["stored before a restoring"] += 1

    def finish(self, slots: int = 1) -> None:
        """Nobody is killed or silenced any more, all is told, and who is left brings it to its
        end."""
        self._unsilenced()
        running = []
        for slot in range(slots):
            more = {"TALLY_DISPATCHER_SLOT": f"{slot}"}
            # The second takes partitions of the first, with calls under way.
            running.append(
                self.start(DISPATCHING, self.town.prefix, self.town.rules, "", self.wrong, **more)
            )
            self.tell_some()
            wait_until_ready(running[-1])
        while self._waiting:
            self.tell_some(most_new=0)
        wait_until(self._is_decided, MAX_SECONDS)
        # A quick machine is done before the first morning.
        wait_until(self._has_digest, MAX_SECONDS)
        wait_until(self._is_settled, MAX_SECONDS)
        assert [stop(one) for one in running] == [0] * slots

    def digests(self) -> dict[str, bytes]:
        """By key the digests that were stored."""
        kept = of_kind(WebhookMessage, self.town.kept())
        return {one.message_id: one.body.encode() for one in kept if one.kind == "digest"}

    def witness(self) -> Witness:
        """What has happened."""
        return Witness([*self.town.alerts], [*self.at.calls], self.held)

    def tell_some(self, most_new: int = 2) -> None:
        """The next state of some episodes, and new ones."""
        for _ in range(self.random.randint(0, most_new)):
            self._episodes += 1
            self._waiting.append([*episode(self._episodes, self.random)])
        chosen = [one for one in self._waiting if self.random.random() < 0.35]
        alerts = [one.pop(0) for one in chosen]
        self._waiting = [one for one in self._waiting if one]
        self._tell(alerts)

    def _tell(self, alerts: Sequence[Alert]) -> None:
        if self._silenced is not None:
            known = {one.alert_id for one in self.town.alerts}
            self._silenced |= {one.alert_id for one in alerts if one.alert_id not in known}
            self.fired["retracted within a silence"] += sum(
                one.state == "retracted" for one in alerts
            )
        self.town.tell(alerts)

    def toggle(self) -> None:
        """Everything is silenced, or no longer; nobody dispatches now. A raise of just before is
        retracted within each silence."""
        if self._silenced is not None:
            return self._unsilenced()
        self._episodes += 1
        raised = next(episode(self._episodes, self.random))
        self._tell([raised])
        self._toggles += 1
        self.fired["silenced"] += 1
        self._settle_silence(f"all-{self._toggles}", FAR)
        self._silenced = set()
        self._tell([structs.replace(raised, state="retracted", reason="late_data")])
        return None

    def _unsilenced(self) -> None:
        if self._silenced is None:
            return
        # Whatever came by now came in spite of it; an end is of a raise that may have been told.
        raises = {one.alert_id for one in self.town.alerts if one.edge == "raise"}
        self.held |= dict.fromkeys(self._silenced & raises, len(self.at.calls))
        self._silenced = None
        self._settle_silence(f"all-{self._toggles}", 0)

    def _blink(self) -> None:
        """Silenced for a moment while somebody dispatches; what it holds is anybody's guess."""
        if self.random.random() < 0.2:
            self._blinks += 1
            self.fired["silenced while it runs"] += 1
            for ends in (FAR, 0):
                self._settle_silence(f"blink-{self._blinks}", ends)

    def _settle_silence(self, name: str, ends: int) -> None:
        self.town.settle(Silence(silence_id=name, starts=0, ends=ends))

    def _is_decided(self) -> bool:
        """Whether every alert was decided about, and what is open is held no more."""
        decisions = of_kind(DeliveryDecision, self.town.kept())
        told = {Told(one.alert_id, one.state) for one in self.town.alerts}
        for channel_id in (CHANNEL, PAGER):
            mine = [one for one in decisions if one.channel == channel_id]
            sent = {one.alert.alert_id for one in mine if one.verdict == "send"}
            decided = {Told(one.alert.alert_id, one.alert.state) for one in mine}
            if decided != told or not open_raises(self.town.alerts) <= sent:
                return False
        return True

    def _has_digest(self) -> bool:
        return any(one.kind == "digest" for one in of_kind(WebhookMessage, self.town.kept()))

    def _is_settled(self) -> bool:
        """Whether every message has come to an end."""
        kept = of_kind(WebhookMessage, self.town.kept())
        self.fired["given up"] = sum(
            one.outcome == "dead" for one in kept if one.channel == CHANNEL
        )
        self.fired["nobody knows"] = sum(one.outcome == "unknown" for one in kept)
        return not any(one.outcome == "waiting" for one in kept)


@contextmanager
def ordeal(settings: Settings, folder: Path, seed: int, wrong: str = "") -> Iterator[Ordeal]:
    """A town of its own with two channels of one receiver, and time that passes by itself."""
    secrets = secrets_file(folder)
    variables = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_KEYSPACE": "test_dispatcher",
        "TALLY_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "TALLY_WEBHOOK_SECRETS": str(secrets),
    }
    at = FailingReceiver(Random(seed))
    with (
        new_town(settings) as town,
        receiver(at.react) as (port, _),
        starter(variables) as start,
    ):
        # Only of its rule a channel hears of anything.
        town.apply(CHANNEL, PAGER)
        for one in channels(port):
            town.settle(one)
        with town.clock():
            yield Ordeal(town, at, start, Random(seed + 1), wrong)


def channels(port: int) -> Sequence[AlertChannel]:
    """One that is called until it answers, and one that is called once and gets digests."""
    named: Sequence[tuple[str, str, DeliveryGuarantee]] = (
        (CHANNEL, AT_LEAST_ONCE, "at_least_once"),
        (PAGER, AT_MOST_ONCE, "at_most_once"),
    )
    return [
        AlertChannel(
            channel_id=channel_id,
            url=f"http://127.0.0.1:{port}{path}",
            secrets=("tablet",),
            max_age=10**9,
            most_a_minute=10**6,
            promise=promise,
            digest="07:00" if channel_id == PAGER else "",
        )
        for channel_id, path, promise in named
    ]


def secrets_file(folder: Path) -> Path:
    """The file of the secret that signs."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "webhook-secrets.json"
    file.write_text(json.dumps({"tablet": f"whsec_{b64encode(KEY).decode()}"}), "utf-8")
    file.chmod(0o600)
    return file


def open_raises(alerts: Sequence[Alert]) -> set[str]:
    """The raises that have neither ended nor been taken back."""
    raised = {one.alert_id for one in alerts if one.edge == "raise"}
    over = {one.of for one in alerts if one.of}
    return raised - over - {one.alert_id for one in alerts if one.state == "retracted"}

"""What does not arrive, as whoever watches the dispatcher's topic is told of it."""

from contextlib import closing
from pathlib import Path

from alerting.health.watch import AlertWatch
from ops.local.processes.service import Site
from runtime.outbound.engine import UndeliveredMessages
from tests.integration.alerting.deliver.test_dispatcher_service import running, world_of
from tests.integration.ingest.conftest import wait_until
from tests.unit.alerting.deliver.deliveries import alert
from tests.unit.alerting.webhooks.receivers import status

NOTHING = UndeliveredMessages()


def test_what_does_not_arrive_waits_and_what_is_refused_is_given_up_for_all_to_see(
    own_broker: Site, tmp_path: Path
) -> None:
    settings, code = own_broker.settings, [503]

    def said() -> UndeliveredMessages:
        """What is told of the channel, over all partitions."""
        each = [one.get("floor-tablet", NOTHING) for one in watch.facts().undelivered.values()]
        since = [one.waiting_since for one in each if one.waiting_since is not None]
        return UndeliveredMessages(min(since, default=None), sum(one.dead for one in each))

    with (
        world_of(settings, lambda *call: status(code[0])(*call)) as world,
        closing(AlertWatch(settings, interval_seconds=0.1)) as watch,
        running(own_broker, tmp_path),
    ):
        world.tick()
        wait_until(lambda: world.tick() and len(watch.facts().undelivered) == settings.partitions)
        assert said() == NOTHING
        world.tell(alert(1))
        wait_until(lambda: world.tick() and said().waiting_since is not None)
        since = said().waiting_since
        # As old as its first attempt, however often it is called for.
        wait_until(lambda: world.tick() and len(world.calls) > 3)
        assert said() == UndeliveredMessages(since)
        code[0] = 204
        wait_until(lambda: world.tick() and said() == NOTHING)
        # A sender's own fault: nobody repairs the receiver by waiting for it.
        code[0] = 400
        world.tell(alert(2))
        wait_until(lambda: world.tick() and said() == UndeliveredMessages(dead=1))

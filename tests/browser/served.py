"""The product's server on a free port, which it prints: over the world of the reports, or, told
what becomes of numbers whose sensors were silent (`estimate`, `withhold`), over that of those.

POST /tell/NUMBER tells one more alert, by the stream alone: the tables do not have it yet.
POST /written answers the actions on alerts that were written since it was asked last.
POST /apply/NUMBER applies the rule `busy` with that `for`, as somebody else would.
"""

import socket
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from fastapi import Response

from alerting.queries.alerts import ActionRecord
from alerting.rules.rule import AgainstBaseline, Rule
from alerting.rules.versions import StoredRule
from runtime.http.server import ServerOptions, serve
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.alerts.alert_suite import STORY
from tests.support.alerts.alerts import end_of, then, told
from tests.support.evaluation.evaluating import BUSY, SILENT, in_force
from tests.support.evaluation.simulating import WrittenRules, simulations_over
from tests.support.questions.report_world import report_world
from tests.support.serving.serving_world import MemoryViews, World
from tests.support.stack.letters import MemoryLetters, letter
from tests.support.twin.silent_sensors import STORES, silent_week
from web.api.app import create_app
from web.dashboard import page

# The longest words that a condition has.
_UNLIKE = Rule(
    rule_id="unlike-last-month",
    kind="baseline",
    metric="revenue",
    condition=AgainstBaseline("same_weekday_4w", change="<= -30 %"),
    clear=AgainstBaseline("same_weekday_4w", change=">= -20 %"),
)
RULES = WrittenRules(
    in_force(BUSY, "2026-11-01T00:00"),
    in_force(SILENT, "2026-11-01T00:00"),
    in_force(_UNLIKE, "2026-11-01T00:00"),
    in_force(SILENT, "2026-11-20T00:00", version=2, retired=True),
)
# Beside STORY, whose alerts are all of one day: one of each form and colour.
_CRITICAL = told(
    31,
    raised=datetime(2026, 11, 20, 10, 16, tzinfo=UTC),
    rule_id="no-visitors",
    metric="visitors_in",
    state="confirmed",
    severity="critical",
    value=0,
)
MARKED = [
    _CRITICAL,
    then(end_of(_CRITICAL), "confirmed"),
    told(32, raised=datetime(2026, 11, 18, 16, 31, tzinfo=UTC), severity="info", value=9),
    told(
        33,
        raised=datetime(2026, 11, 21, 10, 31, tzinfo=UTC),
        state="retracted",
        reason="conflict",
        rule_id="<b>hostile</b>",
        value=7,
    ),
    told(
        34,
        raised=datetime(2026, 11, 22, 16, 31, tzinfo=UTC),
        metric="occupancy",
        rule_id="full-house",
        severity="critical",
        value=48,
        threshold=45,
    ),
]
REFUSED = [
    *(letter("367", number) for number in range(40)),
    letter("367", 41, "conflict", field="", message="the number was used before"),
    letter("1900", 42, "unknown_sensor", field="/serial", message="/serial: no store has it"),
    letter(None, 43, "not_json", field="", message="is no JSON: " + "x" * 200),
]


def main() -> int:
    """Exit code 0 once it was told to stop."""
    with tempfile.TemporaryDirectory() as folder:
        settings, world = _served(Path(folder), sys.argv[1:])
        views, feed = MemoryViews(world), MemoryFeed()
        views.alerts.told += STORY
        simulations = simulations_over(views, RULES, settings=settings)
        views.alerts.told += MARKED
        app = create_app(settings, views, feed, simulations)

        @app.post("/tell/{number}", include_in_schema=False)
        async def tell(number: int) -> None:
            feed.tell(0, told(number, value=1_234, severity="critical"))

        @app.post("/apply/{number}", include_in_schema=False)
        async def apply(number: int) -> None:
            newest = RULES.read().newest_version("busy")
            assert newest is not None
            rule = replace(newest.rule, for_=number)
            RULES.write([StoredRule(rule=rule, version=newest.version + 1)])

        actions: list[ActionRecord] = []

        @app.post("/written", include_in_schema=False)
        async def written() -> Response:
            told, actions[:] = [*actions], []
            return Response(msgspec.json.encode(told), media_type="application/json")

        letters = MemoryLetters(REFUSED)
        page.mount(
            app, settings, views, page.LiveSources(feed, simulations, letters, actions.append)
        )
        serve(app, ServerOptions(_free_address(), page_policy=page.POLICY))
    return 0


def _served(folder: Path, below: list[str]) -> tuple[Settings, World]:
    if not below:
        return Settings(), report_world()
    file = folder / "stores.yaml"
    file.write_text(STORES, "utf-8")
    return Settings(stores_file=file, coverage_below=below[0]), silent_week()


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    print(address, flush=True)
    return address


if __name__ == "__main__":
    sys.exit(main())

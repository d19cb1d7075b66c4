"""The product's server on a free port, which it prints: over the world of the reports, or, told
what becomes of numbers whose sensors were silent (`estimate`, `withhold`), over that of those.

POST /tell/NUMBER tells one more alert, by the stream alone: the tables do not have it yet.
"""

import socket
import sys
import tempfile
from pathlib import Path

from runtime.web import Place, serve
from serving.api.app import create_app
from serving.dashboard import page
from tally.settings import Settings
from tests.support.alert_memory import MemoryFeed
from tests.support.alert_suite import STORY
from tests.support.alerts import told
from tests.support.evaluating import BUSY, SILENT, ListedRules, in_force
from tests.support.report_world import report_world
from tests.support.serving_world import MemoryViews, World
from tests.support.silent_sensors import STORES, silent_week
from tests.support.simulating import desk_over

RULES = ListedRules(
    in_force(BUSY, "2026-11-01T00:00"),
    in_force(SILENT, "2026-11-01T00:00"),
    in_force(SILENT, "2026-11-20T00:00", version=2, retired=True),
)


def main() -> int:
    """Exit code 0 once it was told to stop."""
    with tempfile.TemporaryDirectory() as folder:
        settings, world = _served(Path(folder), sys.argv[1:])
        views, feed = MemoryViews(world), MemoryFeed()
        views.alerts.told += STORY
        desk = desk_over(views, RULES, settings=settings)
        app = create_app(settings, views, feed, desk)

        @app.post("/tell/{number}", include_in_schema=False)
        async def tell(number: int) -> None:
            feed.tell(0, told(number, value=1_234, severity="critical"))

        page.mount(app, settings, views, feed, desk)
        serve(app, Place(_free_address(), page_policy=page.POLICY))
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

"""The product's server on a free port, which it prints: over the world of the reports, or, told
what becomes of numbers whose sensors were silent (`estimate`, `withhold`), over that of those.
"""

import socket
import sys
import tempfile
from pathlib import Path

from runtime.web import Place, serve
from serving.api.app import create_app
from serving.dashboard import page
from tally.settings import Settings
from tests.support.report_world import report_world
from tests.support.serving_world import MemoryViews
from tests.support.silent_sensors import STORES, silent_week


def main() -> int:
    """Exit code 0 once it was told to stop."""
    with tempfile.TemporaryDirectory() as folder:
        settings, world = Settings(), report_world()
        if below := sys.argv[1:]:
            file = Path(folder, "stores.yaml")
            file.write_text(STORES, "utf-8")
            settings, world = Settings(stores_file=file, coverage_below=below[0]), silent_week()
        views = MemoryViews(world)
        app = create_app(settings, views)
        page.mount(app, settings, views)
        serve(app, Place(_free_address(), page_policy=page.POLICY))
    return 0


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    print(address, flush=True)
    return address


if __name__ == "__main__":
    sys.exit(main())

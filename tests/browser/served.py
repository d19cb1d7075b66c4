"""The product's server over the world of the reports, on a free port: it prints its address."""

import socket
import sys

from runtime.web import Place, serve
from serving.api.app import create_app
from serving.dashboard import page
from tally.settings import Settings
from tests.support.report_world import report_world
from tests.support.serving_world import MemoryViews


def main() -> int:
    """Exit code 0 once it was told to stop."""
    settings = Settings()
    views = MemoryViews(report_world())
    app = create_app(settings, views)
    page.mount(app, settings, views)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    print(address, flush=True)
    serve(app, Place(address, page_policy=page.POLICY))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m serving.api`: the API and the dashboard on one address, one process."""

import signal
import sys
from types import FrameType

import uvicorn

from serving.api.app import create_app
from serving.dashboard import page
from serving.merge.cassandra_views import CassandraViews
from tally.errors import TallyError
from tally.settings import Settings


def main() -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 when the settings are wrong, 3 (uvicorn's) when the address is taken."""
    try:
        settings = Settings.load()
        views = CassandraViews(settings)
        app = create_app(settings, views)
        page.mount(app, settings, views)
    except TallyError as error:
        print(f"api: {error}", file=sys.stderr)
        return 1
    host, port = settings.api.rsplit(":", 1)
    # uvicorn finishes what it is answering, then sends itself the signal again: this makes it an ordinary end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        uvicorn.Server(uvicorn.Config(app, host=host, port=int(port), log_level="warning", access_log=False)).run()
    finally:
        views.close()
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())

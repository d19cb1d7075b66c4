"""`python -m serving.api`: the API and the dashboard on one address, one process."""

import sys

import uvicorn

from serving.api.app import create_app
from serving.merge.cassandra_views import CassandraViews
from tally.errors import TallyError
from tally.settings import Settings


def main() -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 when the settings are wrong or the address is taken."""
    try:
        settings = Settings.load()
        views = CassandraViews(settings)
        app = create_app(settings, views)
    except TallyError as error:
        print(f"api: {error}", file=sys.stderr)
        return 1
    host, port = settings.api.rsplit(":", 1)
    try:
        uvicorn.run(app, host=host, port=int(port), log_level="warning", access_log=False)
    finally:
        views.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

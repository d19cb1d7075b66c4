"""`python -m ingest.gateway.openapi` prints the gateway's OpenAPI document."""

import json
import sys
from typing import Any

from ingest.gateway.app import build_app
from ingest.installation.arrival import Rules
from tally.config.settings import Settings


def main() -> int:
    """Exit code 0; what is published at /openapi.json is printed, with the default settings."""
    # The description needs neither a producer nor a watch on the backlog.
    nothing: Any = None
    app = build_app(nothing, Rules.from_settings(Settings()), nothing)
    print(json.dumps(app.openapi()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m web.api.openapi` prints the API's OpenAPI document."""

import json
import sys
from typing import Any

from tally.config.settings import Settings
from web.api.app import create_app


def document() -> dict[str, Any]:
    """The OpenAPI document that the application serves at /openapi.json, by default settings."""
    # Making the document reads no view.
    no_views: Any = None
    return create_app(Settings(), no_views).openapi()


def main() -> int:
    """Print the document and return exit code 0."""
    print(json.dumps(document()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

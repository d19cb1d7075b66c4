"""`python -m serving.api.openapi` prints the API's OpenAPI document."""

import json
import sys
from typing import Any

from serving.api.app import create_app
from tally.settings import Settings


def document() -> dict[str, Any]:
    """What the application says of itself at /openapi.json, with the default settings."""
    # A description asks no view.
    no_views: Any = None
    return create_app(Settings(), no_views).openapi()


def main() -> int:
    """Exit code 0; the document is printed."""
    print(json.dumps(document()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

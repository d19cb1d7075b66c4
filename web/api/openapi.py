"""`python -m web.api.openapi` prints what /openapi.json serves, by default settings."""

import json
from typing import Any

from tally.config.settings import Settings
from web.api.app import create_app

if __name__ == "__main__":
    # Making the document reads no view.
    no_views: Any = None
    print(json.dumps(create_app(Settings(), no_views).openapi()))

"""The OpenAPI documents of our applications, each printed by its own process.

A separate process is needed because the serving code and the operations code do not import each
other.
"""

import json
import os
import subprocess
import sys
from typing import Any, cast

from runtime.process.repository import REPOSITORY
from schemas.loader import SOURCES_VARIABLE
from tally.errors import StackError


def api_document() -> dict[str, Any]:
    """The document of the API. Raises StackError when its process fails."""
    return _read_document("web.api.openapi")


def gateway_document() -> dict[str, Any]:
    """The document of the gateway. Raises StackError when its process fails."""
    return _read_document("ingest.gateway.openapi")


def _read_document(module: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", module],
        cwd=REPOSITORY,
        # The pages describe the product: a further source has no file in the repository to link to.
        env={name: value for name, value in os.environ.items() if name != SOURCES_VARIABLE},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise StackError(f"python -m {module}: {reason}; mend it and write the pages again")
    return cast(dict[str, Any], json.loads(ended.stdout))

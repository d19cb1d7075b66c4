"""The OpenAPI documents of our applications, each told by a process of its own.

What serves and what operates know nothing of each other's code.
"""

import json
import os
import subprocess
import sys
from typing import Any, cast

from runtime.repository import REPOSITORY
from schemas.loader import FURTHER
from tally.errors import StackError


def api_document() -> dict[str, Any]:
    """That of the API. Raises StackError."""
    return _told_by("serving.api.openapi")


def gateway_document() -> dict[str, Any]:
    """That of the gateway. Raises StackError."""
    return _told_by("ingest.gateway.openapi")


def _told_by(module: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", module],
        cwd=REPOSITORY,
        # The pages are of the product: a source of somebody's folder has no file here to link to.
        env={name: value for name, value in os.environ.items() if name != FURTHER},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise StackError(f"python -m {module}: {reason}; mend it and write the pages again")
    return cast(dict[str, Any], json.loads(ended.stdout))

"""The API in this process, over the example world in memory."""

from collections.abc import Iterator

import pytest

from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app


@pytest.fixture
def views() -> MemoryViews:
    return MemoryViews(example())


@pytest.fixture
def ask(views: MemoryViews) -> Iterator[Ask]:
    with asking(create_app(Settings(), views)) as function:
        yield function

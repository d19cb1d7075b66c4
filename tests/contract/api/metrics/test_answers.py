from tests.support.questions.api_suite import ApiSuite


class TestInMemory(ApiSuite):
    """Every test of the suite, over rows in memory."""

"""The named odd messages and some thousands of mutations, beside the receipts of the last nine
days."""

from tests.support.odd.odd_suite import OddSuite


class TestOddMessages(OddSuite):
    mutations = 1_500

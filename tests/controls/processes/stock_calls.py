"""Wrong on purpose: adapters of stock of which each does one thing that somebody could think of,
for laws alone.

stock=rekey        each attempt has a key of its own
stock=reread       after a lost answer the version is read anew, and nothing looked for
intent=after       an attempt is stored when it is answered
reference=first    the reference is looked for before the version is read
nights=none        levels are set as they change, and not once more at night
"""

from typing_extensions import override

from inventory.sync.calls import CallAnswer, CallRules, StockCall, StoredCall
from inventory.sync.engine import StockSyncEngine
from tests.laws.deliveries.call_world import AdapterRules


class KeyOfTheAttempt(CallRules):
    """Two calls of one movement are two."""

    @override
    def key(self, call: StockCall) -> str:
        return f"{call.movement_id} {call.attempts}"


class ReadAnew(CallRules):
    """Whatever may have arrived, it is done again."""

    @override
    def is_done(self, answer: CallAnswer) -> bool:
        return False


class WithoutNights(StockSyncEngine):
    """What was told once is told."""

    @override
    def _pass_time(self, _before: int) -> list[StoredCall]:
        return []


WRONG_ADAPTERS = {
    "stock=rekey": AdapterRules(KeyOfTheAttempt("idempotency_key")),
    "stock=reread": AdapterRules(ReadAnew("compare_and_set")),
    "intent=after": AdapterRules(CallRules("compare_and_set"), stores_before_call=False),
    "nights=none": AdapterRules(CallRules("absolute"), engine=WithoutNights),
    "reference=first": AdapterRules(CallRules("compare_and_set"), looks_for_reference_first=True),
}

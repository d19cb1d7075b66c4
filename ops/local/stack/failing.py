"""A service that ended by itself: how often it is started again, when, and when it is given up."""

from dataclasses import dataclass

import msgspec

from ops.local.stack import supervisor
from ops.local.stack.service import Service, Site
from runtime.whole_file import keep_whole

_WAITS = "; waits for "


@dataclass(frozen=True)
class Patience:
    """When to try again, and when to give up.

    Seconds to the first try and at most to the next, tries in a row, and the seconds of work after
    which the count begins anew.
    """

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    tries: int = 8
    steady_seconds: float = 60.0


class Failing(msgspec.Struct, frozen=True):
    """Since when a service fails, why, how often it was started since, and when it will be next.

    Times are seconds since 1970. `next_try` is None while it is being tried, and for good once it
    is `given_up`.
    """

    since: float
    reason: str
    tries: int = 0
    next_try: float | None = None
    given_up: bool = False

    @property
    def under_way(self) -> bool:
        """Whether it has been started again: if it is found ended, it has ended once more."""
        return self.next_try is None and not self.given_up

    def ended(self, reason: str, refused: bool, patience: Patience, now: float) -> "Failing":
        """With its next try, later after each one; or given up.

        That is after too many tries, or after a refusal, which a new start would only meet again.
        """
        if refused or self.tries >= patience.tries:
            return msgspec.structs.replace(self, reason=reason, next_try=None, given_up=True)
        # Doubled: what heals by itself is soon back, and what does not costs little.
        wait = min(patience.first_seconds * 2**self.tries, patience.most_seconds)
        return msgspec.structs.replace(self, reason=reason, next_try=now + wait)

    def is_due(self, patience: Patience, now: float) -> bool:
        """Whether it is to be started now.

        A wall clock that was set back must not make it wait for hours.
        """
        return self.next_try is not None and (
            now >= self.next_try or self.next_try - now > patience.most_seconds
        )

    def waiting_for(self, needs: list[str], patience: Patience, now: float) -> "Failing":
        """Put off until what it needs works again; that costs it no try."""
        # Without what it waited for at the last look.
        reason = self.reason.partition(_WAITS)[0] + _WAITS + ", ".join(needs)
        return msgspec.structs.replace(self, reason=reason, next_try=now + patience.first_seconds)

    def tried(self) -> "Failing":
        """One start more, now."""
        return msgspec.structs.replace(
            self,
            reason=self.reason.partition(_WAITS)[0],
            tries=self.tries + 1,
            next_try=None,
        )


def read_failing(site: Site, service: Service) -> Failing | None:
    """What is known of a service that ended by itself.

    None if it did not, or was started or stopped by hand since.
    """
    file = site.trace(service.name, supervisor.FAILING)
    return msgspec.json.decode(file.read_bytes(), type=Failing) if file.exists() else None


def write_failing(site: Site, service: Service, failing: Failing) -> None:
    """Kept, at once or not at all."""
    file = site.trace(service.name, supervisor.FAILING)
    keep_whole(file, msgspec.json.encode(failing))

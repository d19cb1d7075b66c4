"""The restart policy of a service that ended by itself: retries, back-off, and giving up."""

from dataclasses import dataclass

import msgspec

from ops.local.processes import supervisor
from ops.local.processes.service import Service, Site
from runtime.process.files import write_atomically

_WAITS = "; waits for "


@dataclass(frozen=True)
class RestartPolicy:
    """When to retry, and when to give up.

    It has the seconds to the first try, the most seconds between tries, the number of tries in a
    row, and the seconds of work after which the count is reset.
    """

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    tries: int = 8
    steady_seconds: float = 60.0


class RestartState(msgspec.Struct, frozen=True):
    """The failure of a service: since when, why, the number of tries, and the next try.

    Times are seconds since 1970. `next_try` is None during a try, and permanently once the service
    is `given_up`.
    """

    since: float
    reason: str
    tries: int = 0
    next_try: float | None = None
    given_up: bool = False

    @property
    def is_trying(self) -> bool:
        """Whether a try is in progress: a service that is found ended has then failed again."""
        return self.next_try is None and not self.given_up

    def record_end(
        self, reason: str, refused: bool, patience: RestartPolicy, now: float
    ) -> "RestartState":
        """With its next try, later after each one; or given up.

        It is given up after too many tries, or after a refusal, which a new start would repeat.
        """
        if refused or self.tries >= patience.tries:
            return msgspec.structs.replace(self, reason=reason, next_try=None, given_up=True)
        # Doubled each time: a short problem is retried soon, and a long one costs few starts.
        wait = min(patience.first_seconds * 2**self.tries, patience.most_seconds)
        return msgspec.structs.replace(self, reason=reason, next_try=now + wait)

    def is_due(self, patience: RestartPolicy, now: float) -> bool:
        """Whether the next try is due.

        A wall clock that was set back must not delay the try for hours.
        """
        return self.next_try is not None and (
            now >= self.next_try or self.next_try - now > patience.most_seconds
        )

    def wait_for_needs(
        self, needs: list[str], patience: RestartPolicy, now: float
    ) -> "RestartState":
        """The state while a needed service does not work; waiting does not count as a try."""
        # The needs of the previous check are removed from the reason.
        reason = self.reason.partition(_WAITS)[0] + _WAITS + ", ".join(needs)
        return msgspec.structs.replace(self, reason=reason, next_try=now + patience.first_seconds)

    def record_try(self) -> "RestartState":
        """The state during a new try, with one more start counted."""
        return msgspec.structs.replace(
            self,
            reason=self.reason.partition(_WAITS)[0],
            tries=self.tries + 1,
            next_try=None,
        )


def read_restart_state(site: Site, service: Service) -> RestartState | None:
    """The stored failure of a service that ended by itself.

    None if it did not end by itself, or was started or stopped by hand since.
    """
    file = site.trace(service.name, supervisor.FAILING)
    return msgspec.json.decode(file.read_bytes(), type=RestartState) if file.exists() else None


def write_restart_state(site: Site, service: Service, failing: RestartState) -> None:
    """Write the failure to its file atomically."""
    file = site.trace(service.name, supervisor.FAILING)
    write_atomically(file, msgspec.json.encode(failing))

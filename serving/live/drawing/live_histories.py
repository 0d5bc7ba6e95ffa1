"""What each request did in the steps that are kept."""

from course.traces.run_state import RunState
from course.views.time_machine.history import Histories, RequestHistory


class LiveHistories(Histories):
    """Histories of requests that come and go."""

    def __init__(self) -> None:
        super().__init__([])

    def arrive(self, request_id: str) -> None:
        """Begin the history of a request, unless it has one."""
        self.of.setdefault(request_id, RequestHistory())

    def forget(self, request_ids: list[str]) -> None:
        """Drop the histories of requests that are in no step any more."""
        for request_id in request_ids:
            self.of.pop(request_id, None)

    def between(self, first: int, last: int) -> list[str]:
        """Return the requests that were there in one of these steps, in order of arrival."""
        return [
            request_id
            for request_id, history in self.of.items()
            if history.spans and history.spans[0].first <= last and history.spans[-1].last >= first
        ]

    def add(self, state: RunState) -> None:
        """Add the state's current step; unlike in a whole run only the requests that are still there are looked at."""
        record = state.record
        assert record is not None
        kinds = {share["id"]: "decode" if state.is_decode(share) else "prefill" for share in record["scheduled"]}
        waiting = {*record["waiting_after"], *(victim for victim, *_ in record["preempted"])}
        for request_id, history in self.of.items():
            if history.end is None and (request_id in kinds or request_id not in state.finished):
                kind = kinds.get(request_id) or ("waiting" if request_id in waiting else "skipped")
                history.add(kind, record["step"])
        self._add_events(record, state)

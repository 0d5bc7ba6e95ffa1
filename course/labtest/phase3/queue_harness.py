"""The learner's priority queue and a log of its use. Nothing here is to be filled in."""

from collections.abc import Sequence
from types import ModuleType

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import alone, expect_equal
from course.labtest.support import make_request
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request

QUEUE_HINTS = (
    CrashHint(
        TypeError,
        "two requests were compared with each other, and they have no order. What of a request decides between "
        "those two, and where does it stand in your entry?",
        word="instances of 'Request' and 'Request'",
    ),
)
REMOVE_HINTS = (
    *QUEUE_HINTS,
    CrashHint(ValueError, "the request is in the queue. By what does your code look for it?", inside="remove_request"),
)
ITERATION = (
    "`pop_request` gives the right requests and iteration does not: from where does it take them, and what puts them "
    "in order?"
)
LOOK = "iteration gives the right requests: does it take them out, and what do `len` and `peek_request` look at?"
PEEK = (
    "iteration has the right order and `peek_request` has not: at which place does it look for the most urgent one, "
    "and is it there after each of the calls above?"
)
POP = "iteration and `peek_request` are right: which request does `pop_request` take out each time, and return?"


def rank(request: Request) -> str:
    return f"{request.request_id}(priority {request.priority}, arrived {request.arrival_time:.16g})"


class PriorityQueueHarness:
    """The learner's priority queue and a log of its use."""

    def __init__(self, phase3: ModuleType) -> None:
        self.story: list[str] = ["queue = PriorityRequestQueue()"]
        self._added: dict[str, Request] = {}
        with learners_call(self.story, QUEUE_HINTS):
            self.queue: RequestQueue = phase3.PriorityRequestQueue()

    def add(self, *requests: Request) -> None:
        for request in requests:
            self._added[request.request_id] = request
            self.story.append(f"add_request({rank(request)})")
            with learners_call(self.story, QUEUE_HINTS):
                self.queue.add_request(request)

    def prepend(self, request: Request) -> None:
        self._added[request.request_id] = request
        self.story.append(f"prepend_request({rank(request)})")
        with learners_call(self.story, QUEUE_HINTS):
            self.queue.prepend_request(request)

    def remove(self, request: Request) -> None:
        self.story.append(f"remove_request({request.request_id})")
        with learners_call(self.story, REMOVE_HINTS):
            self.queue.remove_request(request)

    def use_another(self) -> None:
        """Make a second queue and leave a request in it. State of the class would show."""
        self.story.append("another queue is made: add_request(Z(priority -9, arrived 0)) there")
        with learners_call(self.story, QUEUE_HINTS):
            type(self.queue)().add_request(make_request("Z", 4, priority=-9))

    def pop(self) -> Request:
        self.story.append("pop_request()")
        with learners_call(self.story, QUEUE_HINTS):
            request = self.queue.pop_request()
        self.story[-1] += f" -> {self.name(request)}"
        return request

    def state(self) -> dict[str, object]:
        with learners_call(self.story, QUEUE_HINTS):
            return {
                "order": [self.name(request) for request in self.queue],
                "length": len(self.queue),
                "peek_request": self.name(self.queue.peek_request()) if len(self.queue) else None,
            }

    def check(self, rule: str, hint: str, names: Sequence[str]) -> None:
        """Compare the state of the queue, then pop everything and compare the order."""
        expected, before = expected_state(names), list(self.story)
        yours = self.state()
        popped = [self.name(self.pop()) for _ in names] if yours["length"] == len(names) else []
        if alone(yours, expected, ["order"]) and popped == list(names):
            expect_equal(yours, expected, rule=rule, situation=before, hint=ITERATION)
        if yours["order"] == expected["order"]:
            hint = PEEK if alone(yours, expected, ["peek_request"]) else LOOK
        expect_equal(yours, expected, rule=rule, situation=before, hint=hint)
        expect_equal(
            {"popped, in order": popped, "length": len(self.queue)},
            {"popped, in order": list(names), "length": 0},
            rule=rule,
            situation=self.story,
            hint=POP,
        )

    def name(self, request: object) -> object:
        """Return the name of a request that was put in; any other object is called a copy."""
        if not isinstance(request, Request):
            return f"a {type(request).__name__}"
        return request.request_id if self._added.get(request.request_id) is request else f"copy of {request.request_id}"


def expected_state(names: Sequence[str]) -> dict[str, object]:
    """Return the state of a queue with these names in service order."""
    return {"order": list(names), "length": len(names), "peek_request": names[0] if names else None}

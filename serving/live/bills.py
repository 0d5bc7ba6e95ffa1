"""What each request has cost: blocks, steps, preemptions."""

from collections import OrderedDict
from dataclasses import dataclass

from mini_vllm.core.request import Request

MAX_BILLS = 1000


@dataclass
class Account:
    """A request that is being served. It arrived before step `arrived` and was in the plan of `num_steps`."""

    request: Request
    arrived: int
    first: int | None = None
    num_steps: int = 0
    num_blocks: int = 0


@dataclass(frozen=True)
class Bill:
    """What a request has cost. `num_blocks` are the most it held at once; it waited `num_waited` steps at first."""

    request_id: str
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_blocks: int
    num_preemptions: int
    num_steps: int
    num_waited: int


class Bills:
    """The open accounts, and the bills of the last 1,000 requests."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._bills: OrderedDict[str, Bill] = OrderedDict()

    def open(self, request: Request, step: int) -> None:
        """Begin to count for a request that arrived before `step`."""
        self._accounts[request.request_id] = Account(request, step)

    def charge(self, request_id: str, num_blocks: int, step: int) -> None:
        """Count a step for a request, and the blocks that it holds in it."""
        account = self._accounts.get(request_id)
        if account is None:
            return
        account.num_steps += 1
        account.num_blocks = max(account.num_blocks, num_blocks)
        if account.first is None:
            account.first = step

    def close(self, request_id: str, step: int) -> None:
        """Write the bill of a request that has ended before or in `step`."""
        account = self._accounts.pop(request_id, None)
        if account is None:
            return
        request = account.request
        self._bills[request_id] = Bill(
            request_id=request_id,
            num_prompt_tokens=request.num_prompt_tokens,
            num_cached_tokens=max(0, request.num_cached_tokens),
            num_output_tokens=request.num_output_tokens,
            num_blocks=account.num_blocks,
            num_preemptions=request.num_preemptions,
            num_steps=account.num_steps,
            num_waited=(step if account.first is None else account.first) - account.arrived,
        )
        if len(self._bills) > MAX_BILLS:
            self._bills.popitem(last=False)

    def get(self, request_id: str) -> Bill | None:
        """Return the bill of a request that has ended; None if it has not, or long ago."""
        return self._bills.get(request_id)

"""Checks each batch against the contents of the blocks, which it derives from every earlier batch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import ScheduledRequest, SchedulerOutput
from mini_vllm.core.step_checks import InvariantError
from mini_vllm.engine.observers import StepObserver, StepResult

Content = int  # a hash of a full block's tokens, all earlier tokens, and everything else that changes its K and V


@dataclass(slots=True)
class Progress:
    """A running request: its tables, the end of its last share, and the contents of its blocks so far."""

    request: Request
    tables: Sequence[list[int]] = ()
    end: int = 0
    num_drafts: int = 0
    contents: list[Content] = field(default_factory=list)


class ContentsChecker(StepObserver):
    """Raises `InvariantError` if a batch would read a block with the wrong tokens, or omit or repeat a token.

    Contents are derived only from the batches, not from what the scheduler's parts report about them. With a connector
    a block may be filled from outside, so hits at admission are trusted.
    """

    def __init__(self, scheduler: Scheduler, *, results_are_late: bool) -> None:
        self.scheduler = scheduler
        self.results_are_late = results_are_late
        self._parts: KVCacheManager = scheduler.kv
        self._progress: dict[Request, Progress] = {}
        self._contents: dict[tuple[int, int], Content] = {}  # keyed by (group of layers, block)
        self._written: list[tuple[int, int]] = []  # computed by the last batch
        self._num_sampled: dict[str, int] = {}

    def batch_started(self, batch: Sequence[ScheduledRequest]) -> None:
        self._leave_all(one for one in self._progress if one.status is not RequestStatus.RUNNING)
        self._written = []
        for share in batch:
            self._check(share)

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        victims = {one.victim_id for one in scheduler_output.preempted}
        if victims:
            self._leave_all(one for one in self._progress if one.request_id in victims)

    def after_update(self, result: StepResult) -> None:
        self._written = []
        for request_id, token_ids in result.sampled_token_ids.items():
            self._num_sampled[request_id] = len(token_ids)
        self._leave_all(result.ended)

    def request_aborted(self, request_id: str) -> None:
        self._leave_all(one for one in self._progress if one.request_id == request_id)

    def step_undone(self) -> None:
        if self._parts is not self.scheduler.kv:
            self._progress, self._contents, self._parts = {}, {}, self.scheduler.kv
        for place in self._written:
            self._contents.pop(place, None)
        self._written = []
        living = self._progress.items()
        self._progress = {one: own for one, own in living if one.status is RequestStatus.RUNNING}

    def _check(self, share: ScheduledRequest) -> None:
        request, begin = share.request, share.num_computed_tokens
        tables = [list(table) for table in share.block_tables or [share.block_ids]]
        if tables != [list(table) for table in self.scheduler.block_tables(request.request_id)]:
            raise InvariantError(
                f"the blocks in {request.request_id}'s row differ from those in its block table: {tables}"
            )
        own = self._progress.get(request)
        if own is None:
            self._num_sampled.pop(request.request_id, None)
            own = self._progress[request] = Progress(request)
            own.contents = [content for _, content in self._blocks(own, begin)]
            self._check_hit(request, tables, own.contents, begin)
        else:
            self._check_next(own, tables, begin)
            self._settle(own)
        own.tables, own.end = tables, begin + share.num_scheduled_tokens
        own.num_drafts = len(share.draft_token_ids)
        self._write(own, begin)

    def _check_hit(
        self, request: Request, tables: Sequence[list[int]], contents: Sequence[Content], begin: int
    ) -> None:
        """Check the blocks that a request had at its admission: each must contain exactly the request's own tokens."""
        size = self.scheduler.kv.block_size
        if self.scheduler.gates.has_connector:
            self._contents |= {
                (group, table[i]): c for group, table in enumerate(tables) for i, c in enumerate(contents)
            }
            return
        if begin % size:
            raise InvariantError(
                f"{request.request_id} begins at token {begin}, which is not a multiple of the block size {size}"
            )
        for group, table in enumerate(tables):
            for block_id, content in zip(table, contents, strict=False):
                if block_id != NULL_BLOCK_ID and self._contents.get((group, block_id)) != content:
                    holds = "other tokens" if (group, block_id) in self._contents else "no full prefix"
                    raise InvariantError(
                        f"{request.request_id} was admitted with {begin} computed tokens, but block {block_id} holds "
                        f"{holds}"
                    )

    def _check_next(self, own: Progress, tables: Sequence[list[int]], begin: int) -> None:
        """Check that a share begins where the last one ended, in the same blocks."""
        name = own.request.request_id
        num_accepted = self._num_sampled.pop(name, 1) - 1
        due = own.end - own.num_drafts + num_accepted
        if not self.results_are_late and begin != due and not self.scheduler.gates.has_connector:
            raise InvariantError(
                f"{name} starts computing at token {begin}, but its last step ended before token {due}"
            )
        for before, now in zip(own.tables, tables, strict=True):
            for old, new in zip(before, now, strict=False):
                if new not in (old, NULL_BLOCK_ID):
                    raise InvariantError(f"{name} held block {old} in the last step but now reads block {new}")

    def _settle(self, own: Progress) -> None:
        """Record the blocks that the last step filled with tokens that were not known at the time."""
        num_known = own.request.num_tokens
        if own.num_drafts and not self.results_are_late:
            num_known -= 1  # the newest token replaced a draft, and its slot holds that draft
        for index, content in self._blocks(own, min(own.end, num_known), first=len(own.contents)):
            own.contents.append(content)
            for group, table in enumerate(own.tables):
                if index < len(table) and table[index] != NULL_BLOCK_ID:
                    self._contents[group, table[index]] = content

    def _write(self, own: Progress, begin: int) -> None:
        """Record the blocks that a share fills with known tokens; a block that it fills only partly holds no prefix."""
        size = self.scheduler.kv.block_size
        del own.contents[begin // size :]
        num_known = min(own.end, own.request.num_tokens)
        own.contents += [content for _, content in self._blocks(own, num_known, first=len(own.contents))]
        for group, table in enumerate(own.tables):
            for index in range(begin // size, min(-(-own.end // size), len(table))):
                place = group, table[index]
                self._written.append(place)
                if index < len(own.contents):
                    self._contents[place] = own.contents[index]
                else:
                    self._contents.pop(place, None)

    def _blocks(self, own: Progress, num_tokens: int, first: int = 0) -> Iterator[tuple[int, Content]]:
        """Yield the index and content of each block filled by the first `num_tokens` tokens, starting at block
        `first`."""
        request, size = own.request, self.scheduler.kv.block_size
        parent = own.contents[first - 1] if first else hash((request.cache_salt, request.adapter_id))
        for index in range(first, num_tokens // size):
            begin, end = index * size, (index + 1) * size
            images = [
                (one.identifier, one.offset) for one in request.mm_features if one.offset < end and one.end > begin
            ]
            parent = hash((parent, *request.all_token_ids[begin:end], *images))
            yield index, parent

    def _leave_all(self, requests: Iterable[Request]) -> None:
        """Forget requests that lost their blocks; the blocks' contents are kept."""
        for request in list(requests):
            if (own := self._progress.pop(request, None)) is not None:
                self._settle(own)

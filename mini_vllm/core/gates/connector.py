"""The seam of KV transfers: what a connector tells the scheduler. (vLLM: `KVConnectorBase_V1`, its scheduler side.)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.request import Request


@dataclass(frozen=True, slots=True)
class KVConnectorOutput:
    """What the worker side reports with a step's output: transfers that have ended, and blocks that were lost."""

    finished_recving: Sequence[str] = ()
    finished_sending: Sequence[str] = ()
    invalid_block_ids: frozenset[int] = frozenset()


class KVConnector(Protocol):
    """K and V that lie elsewhere: in a different process, on disk, in host memory."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return how many tokens after the first `num_computed_tokens` lie elsewhere, and whether loading takes steps.

        Not whole prompts: the last token is always computed here. None: not known yet, ask again in the next step.
        """
        ...

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """The request has its block table now; the last `num_external_tokens` of it are to be loaded."""
        ...

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Return whether the blocks of an ended request must be held until they have been sent."""
        ...

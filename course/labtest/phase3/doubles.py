"""Doubles of phase 2 for the tests of phase 3. Nothing here is to be filled in."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from mini_vllm.core.request import Request

MAX_CALLS = 2000  # a loop that never ends would fill memory first


class SharedBlocksKV:
    """A KV memory that is given its block tables; a block in two tables is free when both are gone.

    `calls` has every call that changes something or may do so.
    """

    def __init__(self, num_blocks: int, block_size: int, tables: Mapping[str, Iterable[int]]) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_blocks
        self.tables = {name: list(table) for name, table in tables.items()}
        self.calls: list[str] = []

    def describe(self) -> str:
        return f"memory  {self.num_usable_blocks} blocks of {self.block_size} tokens, held: {self.tables}"

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_block_ids())

    def get_computed_blocks(self, request: Request) -> list[int]:
        return []

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        table = self.tables.get(request.request_id, [])
        num_tokens = request.num_computed_tokens + num_new_tokens + num_lookahead_tokens
        num_needed = -(-num_tokens // self.block_size) - len(table)
        new_blocks = self.free_block_ids()[: max(0, num_needed)]
        fits = len(new_blocks) == max(0, num_needed)
        options = f", num_lookahead_tokens={num_lookahead_tokens}" if num_lookahead_tokens else ""
        result = new_blocks if fits else None
        self._note(f"kv.allocate_slots({request.request_id}, {num_new_tokens}{options}) -> {result}")
        if not fits:
            return None
        self.tables[request.request_id] = table + new_blocks
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self._note(f"kv.free({request.request_id}, {num_computed_tokens})")
        self.tables.pop(request.request_id, None)

    def block_ids(self, request_id: str) -> list[int]:
        return list(self.tables.get(request_id, ()))

    def free_block_ids(self) -> list[int]:
        held = {block_id for table in self.tables.values() for block_id in table}
        return [block_id for block_id in range(1, self.num_usable_blocks + 1) if block_id not in held]

    def ref_counts(self) -> dict[int, int]:
        held = [block_id for table in self.tables.values() for block_id in table]
        return {block_id: held.count(block_id) for block_id in sorted(set(held))}

    def frees(self) -> list[str]:
        return [call for call in self.calls if call.startswith("kv.free")]

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if len(self.calls) > MAX_CALLS:
            last = "\n".join(f"    {call}" for call in self.calls[-4:])
            pytest.fail(
                "make_room comes to an end: memory is asked again after each victim, and the request in need is the "
                f"last of them.\n\n  your code made {MAX_CALLS} calls for these requests; the last ones:\n{last}\n"
                "Hint: what has changed after a round of your loop, and what ends it?",
                pytrace=False,
            )


class ScriptedKV(SharedBlocksKV):
    """A KV memory whose `allocate_slots` returns the entries of a list, then repeats the last one."""

    def __init__(self, answers: Sequence[list[int] | None]) -> None:
        super().__init__(0, 1, {})
        self.answers = list(answers)

    def describe(self) -> str:
        return f"memory  scripted: allocate_slots returns {', then '.join(map(str, self.answers))}"

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self._note(f"kv.allocate_slots({request.request_id}, {num_new_tokens}) -> {answer}")
        return answer

"""A `ModelRunner` whose forward pass and paged KV cache are JavaScript in the same worker (`llama.js`)."""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.speculation import AcceptDrafts
from mini_vllm.runner.draws import draw

PROGRAM = Path(__file__).parent / "llama.js"
Numbers: TypeAlias = "array[int] | array[float]"  # Python 3.11 cannot subscript `array`


class JavaScriptModel(Protocol):
    """`LlamaModel` of `llama.js`, as seen through Pyodide."""

    vocab: int
    maxLen: int  # noqa: N815

    def allocate(self, num_blocks: int, block_size: int) -> None: ...
    def executeModel(self, *arrays: Any) -> Any: ...  # noqa: N802


class JavaScriptRunner:
    """Computes a step's whole batch in one JavaScript call, which takes arrays and returns tokens.

    `to_js` converts an array to a typed array. Penalties, `logit_bias`, `min_tokens`, logprobs, grammars, adapters and
    images are not supported; a request that uses any of them fails with an error that names it.
    """

    def __init__(
        self,
        model: JavaScriptModel,
        num_blocks: int,
        block_size: int,
        to_js: Callable[[Numbers], Any],
        accept_drafts: AcceptDrafts | None = None,
    ) -> None:
        self.model, self.block_size, self.to_js, self.accept_drafts = model, block_size, to_js, accept_drafts
        self.vocab_size = model.vocab
        model.allocate(num_blocks, block_size)

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch; return the tokens of each sampling request, and errors for unsupported requests."""
        output = ModelRunnerOutput({})
        if not batch:
            return output
        rows = [(one, k) for one in batch if one.needs_token for k in range(len(one.draft_token_ids) + 1)]
        tokens = self.model.executeModel(*map(self.to_js, step_arrays(batch, rows, self.block_size)))
        for (one, _), token_id in zip(rows, tokens, strict=True):
            request_id = one.request.request_id
            output.sampled_token_ids.setdefault(request_id, []).append(int(token_id))
        for one in batch:
            request_id = one.request.request_id
            sampled = output.sampled_token_ids.get(request_id, [])
            error = not_computed(one) or ("the model returned logits that are not finite" if -1 in sampled else "")
            if error:
                output.sampled_token_ids.pop(request_id, None)
                output.errors[request_id] = error
            elif sampled and one.draft_token_ids and self.accept_drafts is not None:
                output.sampled_token_ids[request_id] = self.accept_drafts(one.draft_token_ids, sampled)
        return output


def step_arrays(
    batch: Sequence[ScheduledRequest], rows: Sequence[tuple[ScheduledRequest, int]], block_size: int
) -> tuple[Numbers, ...]:
    """Return a step's arrays for `executeModel`.

    The arrays are input_ids, positions and slot_mapping [T], query_start_loc [R + 1], block_tables [R, longest],
    logits_indices [S], and each row's temperature, top_k, top_p and draw [S, 4]. Raises `RuntimeError` for a token
    whose block is missing from its request's table.
    """
    input_ids, positions, slots, starts = array("i"), array("i"), array("i"), array("i", [0])
    tables, indices, sampling = list[list[int]](), array("i"), array("d")
    for one in batch:
        first, end = one.num_computed_tokens, one.num_computed_tokens + one.num_scheduled_tokens
        num_blocks = cdiv(end, block_size)
        if num_blocks > len(one.block_ids):
            raise RuntimeError(
                f"token {end - 1} of {one.request.request_id} needs block {num_blocks} of its table, which has only "
                f"{len(one.block_ids)} blocks of {block_size} tokens"
            )
        input_ids.extend([*one.request.all_token_ids, *one.draft_token_ids][first:end])
        positions.extend(range(first, end))
        slots.extend(one.block_ids[at // block_size] * block_size + at % block_size for at in range(first, end))
        starts.append(len(input_ids))
        tables.append(one.block_ids[:num_blocks])
        if one.needs_token:
            indices.extend(range(len(input_ids) - 1 - len(one.draft_token_ids), len(input_ids)))
    longest = max(map(len, tables), default=0)
    block_tables = array("i", (block for table in tables for block in table + [0] * (longest - len(table))))
    for one, k in rows:
        params = one.request.sampling_params
        number = draw(one.request, k) if params.temperature else 0.0
        sampling.extend((params.temperature, params.top_k, params.top_p, number))
    return input_ids, positions, slots, starts, block_tables, indices, sampling


def not_computed(one: ScheduledRequest) -> str:
    """Return an error that names a request's unsupported features, or "" if there are none."""
    request, params = one.request, one.request.sampling_params
    asked = {
        "penalties, logit_bias and min_tokens": params.changes_logits,
        "logprobs": params.logprobs is not None,
        "structured outputs": params.structured_outputs is not None,
        "adapters": request.adapter_id is not None,
        "images": bool(request.mm_features),
    }
    names = [name for name, is_asked in asked.items() if is_asked]
    return (
        f"the model in the browser does not compute {' and '.join(names)}: use the local installation" if names else ""
    )

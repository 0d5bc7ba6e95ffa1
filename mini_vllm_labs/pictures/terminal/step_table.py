"""Builds the step table, with one row per step of a trace."""

from rich import box
from rich.table import Table

from mini_vllm.core.step_record import StepRecord


def step_table(records: list[StepRecord], budget: int | None, shown: range) -> Table:
    """Return a table with one row for each step in `shown`."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption="r0:8p 8 tokens of a prompt, +4h 4 more found in the cache, r0:1 one decoded token, +4d 4 drafts, "
        "* resumed; "
        "preempted: r1 for r0, or r1 alone if it was its own victim; evicted: cached blocks handed out again",
        caption_justify="left",
    )
    for heading, justify in (("step", "right"), ("scheduled", "left"), ("total", "right")):
        table.add_column(heading, justify=justify, overflow="fold", ratio=1 if heading == "scheduled" else None)  # type: ignore[arg-type]
    table.add_column("preempted", overflow="fold")
    for heading in ("evicted", "free"):
        table.add_column(heading, justify="right")
    table.add_column("finished", overflow="fold")
    outputs: set[str] = set()
    for number, record in enumerate(records):
        new_outputs = {request_id for request_id, _ in record["output"]}
        if number in shown:
            in_flight = new_outputs if record["update_of"] != record["step"] else set()
            table.add_row(*step_row(record, budget, outputs | in_flight))
        outputs |= new_outputs
    return table


def totals(records: list[StepRecord]) -> str:
    """Return the totals over all steps, for comparing two runs."""
    tokens = [record["total"] for record in records]
    num_hit = sum(share.get("hit", 0) for record in records for share in record["scheduled"])
    num_preemptions, num_evicted = (sum(len(record[what]) for record in records) for what in ("preempted", "evicted"))
    return (
        f"All {len(records)} steps: {sum(tokens):,} tokens computed, at most {max(tokens, default=0):,} in a step, "
        f"{num_hit:,} found in the cache; preemptions: {num_preemptions}; blocks evicted: {num_evicted}."
    )


def step_row(record: StepRecord, budget: int | None, outputs: set[str]) -> list[str]:
    """Return the cells of one step. `outputs` contains the requests that had already sampled a token before this
    step."""
    shares = (share_text(record, index, outputs) for index in range(len(record["scheduled"])))
    return [
        str(record["step"]),
        " ".join(shares) or "none",
        f"{record['total']}/{budget}" if budget else str(record["total"]),
        " ".join(preemption_text(*entry) for entry in record["preempted"]),
        str(len(record["evicted"]) or ""),
        str(record["free_after_schedule"]),
        " ".join(request_id for request_id, *_ in record["finished"]),
    ]


def share_text(record: StepRecord, index: int, outputs: set[str]) -> str:
    """Return one request's part of the step: its id, tokens, and kind."""
    share = record["scheduled"][index]
    hit = f"+{share['hit']}h" if share.get("hit") else ""
    resumed = "*" if share["kind"] == "resumed" else ""
    num_drafts = len(share.get("drafts", ()))
    num_known = share["n"] - num_drafts
    decodes = share["kind"] == "running" and num_known == 1 and share["id"] in outputs
    drafts = f"+{num_drafts}d" if num_drafts else ""
    return f"{share['id']}{resumed}:{num_known}{'' if decodes else 'p'}{drafts}{hit}"


def preemption_text(victim: str, cause: str, num_tokens: int) -> str:
    """Return the victim, the request it was preempted for, and the number of tokens returned to the budget."""
    returned = f" (-{num_tokens})" if num_tokens else ""
    return f"{victim}{returned}" if victim == cause else f"{victim} for {cause}{returned}"

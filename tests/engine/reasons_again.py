"""Recomputes the reasons for waiting solely from the numbers in a recorded trace, without sharing code with the engine.

A block's content consists of all tokens up to its end. `Pool` tracks this content through the recorded block tables.
"""

from collections.abc import Callable, Sequence
from typing import Any

Found = dict[str, Any]


class Pool:
    """The content of every block, and which blocks can be hit once a step has scheduled its requests."""

    def __init__(self, block_size: int, tokens_of: Callable[[str], list[int]]) -> None:
        self.block_size, self.tokens_of = block_size, tokens_of
        self.content: dict[int, tuple[int, ...]] = {}
        self.tables: dict[str, list[int]] = {}

    def take(self, step: dict[str, Any], cached_before: Sequence[int]) -> None:
        cached = set(cached_before) - set(step["evicted"])
        for victim, *_ in step["preempted"]:
            self.tables.pop(victim, None)
        for share in step["scheduled"]:
            tokens, table = self.tokens_of(share["id"]), share["blocks"]
            self.tables[share["id"]] = table
            end = min(share["computed"] + share["n"], len(tokens)) // self.block_size
            for place in range(share["computed"] // self.block_size, end):
                self.content[table[place]] = tuple(tokens[: (place + 1) * self.block_size])
                cached.add(table[place])
        self.known = {self.content[block]: block for block in sorted(cached, reverse=True) if block in self.content}

    def hit(self, request_id: str) -> list[int]:
        tokens, found = self.tokens_of(request_id), list[int]()
        for end in range(self.block_size, len(tokens), self.block_size):
            if (block := self.known.get(tuple(tokens[:end]))) is None:
                break
            found.append(block)
        return found

    def num_held(self, blocks: Sequence[int]) -> int:
        return len({block for table in self.tables.values() for block in table}.intersection(blocks))


class Trace:
    """One recorded scenario without gates, drafts or steps in flight, read step by step."""

    def __init__(self, config: dict[str, Any], tokens_of: Callable[[str], list[int]]) -> None:
        self.config, self.tokens_of = config, tokens_of
        self.budget = config.get("max_num_scheduled_tokens") or config["max_num_batched_tokens"]
        self.seats = min(config["max_num_seqs"], config.get("max_num_active_seqs") or config["max_num_seqs"])
        self.pool = Pool(config["block_size"], tokens_of)
        self.before: dict[str, Any] = {"running_after": [], "waiting_after": [], "detail": {"cached": []}}
        self.prompts: set[str] = set()

    def step(self, step: dict[str, Any]) -> dict[str, Found]:
        """Return the reason for every waiting request, using the record before the update's tokens are known."""
        gone = set(step["aborted"])
        alive = {row[0] for row in self.before["running_after"]} - gone
        self.pool.tables = {name: table for name, table in self.pool.tables.items() if name in alive}
        self.pool.take(step, self.before["detail"]["cached"] if self.config["enable_prefix_caching"] else ())
        shares = {share["id"]: share for share in step["scheduled"]}
        victims = {victim: cause for victim, cause, _ in step["preempted"]}
        running = alive - victims.keys() | {name for name, share in shares.items() if share["kind"] != "running"}
        self.prompts &= running
        for name, share in shares.items():
            is_part = share["computed"] + share["n"] < len(self.tokens_of(name))
            if is_part and share["kind"] != "running":
                self.prompts.add(name)
            elif not is_part:
                self.prompts.discard(name)
        found = dict[str, Found]()
        head = None
        for name in step["waiting_after"]:
            if name in victims:
                cause = victims[name]
                found[name] = {"reason": "self_preempted"} if cause == name else {"reason": "preempted", "by": cause}
            elif victims:
                found[name] = {"reason": "closed", "by": step["preempted"][-1][1]}
            elif head is not None:
                found[name] = {"reason": "behind", "by": head}
            elif step["total"] == self.budget:
                most = max(share["n"] for share in step["scheduled"])
                on = next(share["id"] for share in step["scheduled"] if share["n"] == most)
                found[name] = {"reason": "tokens", "budget": step["total"], "most": most, "on": on}
            elif len(running) == self.seats:
                found[name] = {"reason": "seats", "running": len(running), "seats": self.seats}
            else:
                head = name
                found[name] = self._head(name, step, bool(running))
        self.before = step
        return found

    def _head(self, name: str, step: dict[str, Any], has_running: bool) -> Found:
        """Return why the first waiting request was refused: its prompt is too long, or too few blocks are free."""
        config, size, num_tokens = self.config, self.config["block_size"], len(self.tokens_of(name))
        hit = self.pool.hit(name) if config["enable_prefix_caching"] else []
        num_left = self.budget - step["total"]
        num_wanted = num_tokens - len(hit) * size
        threshold = config["long_prefill_token_threshold"]
        if "version" in config and len(self.before["running_after"]) + len(self.before["waiting_after"]) == 0:
            threshold = 0
        num_new = min(num_wanted, threshold or num_wanted)
        if num_new > num_left and not config["enable_chunked_prefill"]:
            return {"reason": "whole_prompt", "needed": num_wanted, "left": num_left}
        num_new = min(num_new, num_left)
        num_idle = len(hit) - self.pool.num_held(hit)
        free = step["free_after_schedule"]
        now = -(-(len(hit) * size + num_new) // size) - len(hit) + num_idle
        if config.get("version", "0.13.0") == "0.13.0":
            return {"reason": "blocks", "needed": now, "free": free}
        kept = int(config["watermark"] * config["num_gpu_blocks"]) if has_running else 0
        whole = -(-num_tokens // size) - len(hit) + num_idle if config["scheduler_reserve_full_isl"] else 0
        missing = (max(0, -(-len(self.tokens_of(i)) // size) - len(self.pool.tables[i])) for i in self.prompts)
        promised = sum(missing) if whole else 0
        found = {"reason": "blocks", "needed": max(now, whole), "free": free}
        return found | ({"reason": "reservation", "promised": promised, "kept": kept} if promised or kept else {})

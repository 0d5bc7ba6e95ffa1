"""What the notebooks ask, in pairs: each question with the cell that answers it, the answer, and where it is seen.

For each cell that answers, by the text with which its reveal begins: question, true answer in words, and a pattern
that the cell's output matches. A film's output is the text of all of its steps.
"""

MEASURED = "measured"
"""The answer is a time of this computer."""
Pairs = dict[str, dict[str, tuple[str, str]]]

QUESTIONS: dict[str, Pairs] = {
    "00_tour": {
        "full_pool.reveal(": {
            "How many of the four run at once, at most?": ("4 chats", "step 0 of 103: 4 running"),
            "What happens when a chat needs a block and none is free?": (
                "one loses its blocks and waits",
                "none is free, so D is preempted and waits",
            ),
        },
        "settings.reveal(": {
            "num_gpu_blocks 40: preemptions?": ("fewer", r"preempted: 2 \(first\), 0 \(40 blocks\)"),
            "num_gpu_blocks 12: preemptions?": ("more", r"preempted: 2 \(first\), .* 8 \(12 blocks\)"),
            "enable_prefix_caching off: tokens computed?": (
                "more",
                r"computed: 210 \(first\), .* 252 \(no prefix caching\)",
            ),
            "max_num_seqs 8: steps?": ("as many", r"steps: 28 \(first\), .* 28 \(8 at once\)"),
            "max_num_batched_tokens 4: preemptions?": ("fewer", r"preempted: 2 \(first\), .* 0 \(budget 4\)"),
            "One of these settings changes an answer.": ("false", "Every run has the same answers"),
        },
    },
    "01_scheduler_step": {
        "three_steps.reveal(": {
            "How many tokens does step 0 compute?": ("8 tokens", "step 0 of 5: (?s:.*?)token budget: 8 of 12"),
            "How many does step 1 compute?": ("9 tokens", "step 1 of 5: (?s:.*?)token budget: 9 of 12"),
            "How many does step 2 compute?": ("10 tokens", "step 2 of 5: (?s:.*?)token budget: 10 of 12"),
            "In which step is the last answer complete?": ("5", "C: .*finished in step 5"),
        },
        "two_at_once.reveal(": {
            "In which step does C get its first token now?": ("4", "2 at once(?s:.*)C: .*first token in step 4"),
        },
    },
    "02_block_pool": {
        "two_ways.reveal(": {
            "Reserved: how many slots does A hold in step 0?": ("12 slots", "step 0 of 9: (?s:.*?)slots of A: 1-12\n"),
            "Reserved: how many does B hold?": ("8 slots", "step 0 of 9: (?s:.*?)slots of B: 13-20\n"),
            "Reserved: in which step is C admitted?": ("5", "step 5 of 9: .*\nwhat happened: Admitted: C"),
            "With your pool: which requests run in step 0?": ("A, B, C", "step 0 of 8: .*\n.*\n.*\nrunning: A B C"),
            "With your pool: in which step does A get its second block?": (
                "1",
                "step 0 of 8: (?s:.*?)blocks of A: 1\n(?s:.*)step 1 of 8: (?s:.*?)blocks of A: 1 4\n",
            ),
            "And its third?": (
                "5",
                r"step 4 of 8: (?s:.*?)blocks of A: \d+ \d+\n(?s:.*)step 5 of 8: (?s:.*?)blocks of A: \d+ \d+ \d+\n",
            ),
        },
        "order.reveal(": {
            "Which is C's first block?": ("6", "handed out: C 6 "),
            "Its second?": ("2", "handed out: C 6 2 "),
            "Its third?": ("1", "handed out: C 6 2 1 "),
            "How many blocks of A's prompt does C leave?": (
                "0 blocks",
                "block 1: .* step 1 held by C(?s:.*)block 2: .* step 1 held by C",
            ),
            "How many of B's?": ("2 blocks", "block 3: .* step 1 free(?s:.*)block 4: .* step 1 free"),
        },
        "fewer_blocks.reveal(": {
            "5 blocks: how many steps does the run take?": ("9 steps", r"steps: .* 9 \(5 blocks\)"),
            "4 blocks: the run finishes.": ("false", "Stalled, and did not finish: 4 blocks"),
        },
        'fewer_blocks.also(watch(runs["5 blocks"]': {
            "5 blocks: which requests run in step 2?": (
                "A, B",
                "step 2 of 8: .*\n.*\ntoken budget: .* A 1 .* B 1 decode\n",
            ),
        },
    },
    "03_preemption": {
        "stalled_run.reveal(": {
            "Which request is preempted in step 1?": ("C", "step 1 of 12(?s:.*?)so C is preempted"),
            "Which request gets its block?": ("B", "step 1 of 12(?s:.*?)what happened: B needs a block"),
            "In which step does C resume?": ("9", "step 9 of 12: .*\nwhat happened: C is resumed"),
            "How many tokens does C compute there?": ("5 tokens", "step 9 of 12: .*\n.*\ntoken budget: .*C 5 prefill"),
        },
        "own_victim.reveal(": {
            "Which request is preempted in step 1?": ("C", "step 1 of 9: .*\n.*C itself is preempted"),
            "For which request?": ("C", "step 1 of 9: .*\nwhat happened: C needs a block"),
            "After that, one block is free, and D needs just one. When is D admitted?": (
                "9",
                "step 9 of 9: .*\nwhat happened: Admitted: D",
            ),
        },
        "two_policies.reveal(": {
            "FCFS: which request is preempted in step 2?": ("C", "FCFS: B needs .* so C is preempted"),
            "PRIORITY: which one?": ("A", "PRIORITY: B needs .* so A is preempted"),
            "PRIORITY: how many tokens does step 2 compute?": (
                "2 tokens",
                "PRIORITY\nstep 2 of 12: .*\n.*\ntoken budget: 2 of 32: B 1 decode, C 1 decode\nplan undone: A 1",
            ),
        },
        "five_pools.reveal(": {
            "8 blocks: how many tokens are computed?": ("80 tokens", r"computed: .* 80 \(8 blocks\)"),
            "Which pool recomputes the most tokens?": ("6 blocks", r"again: .* 16 \(8 blocks\), 32 \(6 blocks\), 24 "),
        },
    },
    "04_prefix_cache": {
        "same_prompt.reveal(": {
            "How many tokens does B compute in step 1?": ("4 tokens", "token budget: 5 of 32: B 4 prefill"),
            "How many does C compute?": ("1 token", "token budget: 5 of 32: B 4 prefill, C 1 prefill"),
        },
        "other_token.reveal(": {
            "How many tokens of B are a hit?": ("4 tokens", "B finds: hit 4 of 12"),
            "How many of C?": ("0 tokens", "C finds: hit 0 of 12"),
            "B's third block, with the same 4 tokens as A's, is found.": (
                "false",
                "B 3rd block: .*same tokens as above, other hash",
            ),
        },
        "in_one_step.reveal(": {
            "Without your phase: which requests run in step 0?": (
                "A",
                "without cache\nstep 0 .*\n.*\n.*\nrunning: A\n",
            ),
            "With it: how many tokens does B compute in step 0?": (
                "1 token",
                "with cache\nstep 0 .*\n.*\n.*B 1 prefill",
            ),
            "With it: how many blocks do the two hold together?": (
                "4 blocks",
                "with cache\nstep 0(?s:.*?)blocks of A: 1-3\nblocks of B: 1 2 4\n",
            ),
        },
        "resumed_victim.reveal(": {
            "Without a cache: how many does B compute then?": (
                "13 tokens",
                "without cache\nstep 9 .*\n.*\n.*B 13 prefill",
            ),
            "With a cache?": ("5 tokens", "with cache\nstep 9 .*\n.*\n.*B 5 prefill"),
        },
        "what_is_left.reveal(": {
            f"B has {length} tokens: how many does C find?": (
                f"{found} tokens",
                rf"from the cache: .*\b{found} \({length} tokens\)",
            )
            for length, found in ((8, 12), (12, 12), (16, 8), (20, 4), (24, 0))
        },
    },
    "05_chunked_prefill": {
        "long_prompt.reveal(": {
            "Without your phase: how many tokens does step 2 compute?": (
                "33 tokens",
                "whole prompts\nstep 2 .*\n.*\ntoken budget: 33 of 40",
            ),
            "Threshold 8: how many tokens has the largest step?": (
                "9 tokens",
                "chunks of 8\nstep 2 .*\n.*\ntoken budget: 9 of 40",
            ),
            "Threshold 8: in which step does B get its first token?": (
                "5",
                "chunks of 8\nstep 5 (?s:.*?)B: .*first token in step 5",
            ),
        },
        "three_thresholds.reveal(": {
            f"Threshold {threshold}: {asked}": (answer, pattern)
            for threshold, largest, first in ((4, 5, 9), (16, 17, 3), (0, 33, 2))
            for asked, answer, pattern in (
                ("the largest step?", f"{largest} tokens", rf"largest step: .*\b{largest} \(threshold {threshold}\)"),
                (
                    "in which step is B's first token?",
                    str(first),
                    rf"first token of B, step: .*\b{first} \(threshold {threshold}\)",
                ),
            )
        },
        "limits.reveal(": {
            f"Threshold {threshold}: how many steps?": (
                f"{steps} steps",
                rf"steps: .*\b{steps} \(threshold {threshold}\)",
            )
            for threshold, steps in ((0, 3), (10, 3), (32, 3), (6, 5))
        },
        "switched_off.reveal(": {
            "On: how many tokens of B does step 0 compute?": (
                "8 tokens",
                "chunked\nstep 0 .*\n.*\n.*A 24 prefill, B 8",
            ),
            "Off: how many tokens of B?": (
                "0 tokens",
                "switched off\nstep 0 .*\n.*\ntoken budget: 24 of 32: A 24 prefill\n",
            ),
        },
        "switched_off.also(": {
            "With a threshold of 10, switching chunking off changes the run.": (
                "false",
                "decide the same in every step(?s:.*)A 10 prefill, B 10 prefill",
            ),
        },
        "guarded.reveal(": {
            "No guard: how often is C preempted?": ("3 times", r"preempted: 3 \(no guard\)"),
            "With the guard: how often?": ("0 times", r"preempted: .* 0 \(guard\)"),
            "With the guard, the run takes fewer steps.": ("false", r"steps: 18 \(no guard\), 20 \(guard\)"),
            "With the cache, and no guard: how often?": ("1 time", r"preempted: .* 1 \(cache, no guard\)"),
        },
    },
    "06_gpu_runner": {
        "one_row.reveal(": {
            "Step 0: how many tokens of A?": ("16 tokens", "query_start_loc: 0 16 24"),
            "Step 0: how many tokens of B?": ("8 tokens", "query_start_loc: 0 16 24"),
            "Step 0: how many rows need logits?": ("0 rows", "logits rows: none"),
            "Step 0: which slot has B's first token?": ("24", "row 16 of 0-23: B, .*\n.*\nwritten: slot 24"),
        },
        "one_row.also(laid_out[1]": {
            "Step 1: how many tokens has the row?": ("4 tokens", "  3 +B .*\n\nblock table of A"),
            "Step 1: which is the first row with logits?": ("1", "  0 +A .* 0 +\n +1 +A .* yes"),
            "Step 1: which slot has A's first token?": ("32", "  0 +A .* 16 +32 "),
        },
        "one_query.reveal(": {
            "How many slots does B's second token of step 1 read?": (
                "18 slots",
                "row 3 of 0-3: B, position 17\n.*Reads 18 tokens of B, blocks 1 3 5",
            ),
        },
        "less_memory.reveal(": {
            "In which step is a chat preempted?": ("16", "step 16 of 66: .*\n.*B itself is preempted"),
            "Which one?": ("B", "step 16 of 66: .*\n.*B itself is preempted"),
            "How many steps does the run take, where the large pool takes 41?": ("67 steps", "step 66 of 66"),
        },
        "less_memory.also(": {
            "The texts change.": ("false", "Both requests generated the same tokens in both runs"),
        },
        "temperature.also(": {
            "It is the same story.": ("true", "The request generated the same tokens in both runs"),
        },
    },
    "07_tuning": {
        "dial.also(": {
            "Budget 512: ITL?": ("falls", r"ITL, p99: 57.5 ms \(first\), 16.3 ms \(budget 512\)"),
            "Budget 512: TTFT?": ("rises", r"TTFT, p99: 481 ms \(first\), 595 ms \(budget 512\)"),
            "Budget 8,192: TTFT?": ("rises", r"TTFT, p99: 481 ms \(first\), .* 525 ms \(budget 8,192\)"),
            "Budget 8,192 with a threshold of 512: ITL?": (
                "stays",
                r"ITL, p99: 57.5 ms .* 56.7 ms \(... threshold 512\)",
            ),
            "Budget 2,048 with a threshold of 4,096: ITL?": ("stays", r"ITL, p99: 57.5 .* 57.5 ms \(threshold 4,096\)"),
            "max_num_seqs 64: TTFT?": ("rises", r"TTFT, p99: 481 ms .* 8.75 s \(max_num_seqs 64\)"),
        },
        "memory.also(": {
            "How large are K and V of one token?": ("128 KiB", "K and V of a token 128 KiB"),
            "max_num_seqs is 64. How many run?": ("55 requests", r"requests that run: 55 \(first\)"),
            "gpu_memory_utilization 0.5: how many?": ("23 requests", r"requests that run: .* 23 \(utilization 0.5\)"),
            "A block_size of 128 changes how many run.": ("false", r"run: 55 \(first\), .* 55 \(blocks of 128\)"),
            "Contexts of 512 tokens: what limits the batch?": (
                "max_num_seqs",
                r"(?s:that run: .* 64 \(contexts of 512\).*that fit: .* 880 \(contexts of 512\))",
            ),
            "An H200 has a larger saturation batch.": ("false", r"saturation batch: 295 \(first\), .* 206 \(H200\)"),
        },
        "short_blocks.reveal(": {
            "How many times longer is the median TTFT with 1,000 blocks?": (
                "130 times",
                r"TTFT, median: 21.2 s \(1,000 blocks\), .* 163 ms \(8,000 blocks\)",
            ),
            "More than a tenth of its tokens are computed again.": (
                "false",
                r"tokens computed: 1,430,774 \(1,000 blocks\), .* 1,424,673 \(8,000 blocks\)",
            ),
        },
        "prefix_caching.reveal(": {
            "shared-prefix: what share of the prompt tokens is hit?": (
                "69.3 %",
                r"prompt tokens hit: 69% \(11/s \+ cache\), 0% \(11/s\)",
            ),
            "At 22 per second, the engine without a cache keeps up: a median TTFT below a second.": (
                "false",
                r"TTFT, median: .* 28.9 ms \(22/s \+ cache\), 2.53 s \(22/s\)",
            ),
            "For documents the cache changes the median TTFT.": (
                "false",
                r"TTFT, median: .* 160 ms \(documents \+ cache\), 160 ms \(documents\)",
            ),
        },
        "sixteen_seats.reveal(": {
            "How many times as long is a step with 16 requests as with 1?": (
                MEASURED,
                "time of a step: .* .s .16 seats",
            ),
            "How many times the tokens per second?": (MEASURED, "tokens per second: .*16 seats"),
        },
    },
    "09_policies": {
        "three_orders.reveal(": {
            "FCFS: when does C get its first token?": ("14", "FCFS\n(?s:.*?)C: .* first token in step 14"),
            "PRIORITY: when does A?": ("4", "PRIORITY\nA: .* first token in step 4"),
            "Shortest first: when does A?": ("6", "shortest first\nA: .* first token in step 6"),
            "The order changes in which step the last one finishes.": (
                "false",
                "(?s:(All done in step 17.*){3})",
            ),
        },
        "three_hundred.reveal(": {
            "Best median time to first token?": (
                "shortest-first",
                "p50 first token: FCFS 8.14 s, PRIORITY .* s, shortest-first 214 ms",
            ),
            "Best p95?": ("priority", "p95 first token: FCFS 13.5 s, PRIORITY 13.4 s, shortest-first 30.8 s"),
            "Worst p95?": ("shortest-first", "p95 first token: FCFS 13.5 s, PRIORITY .*, shortest-first 30.8 s"),
        },
        "starvation.reveal(": {
            "In which step does N get its first token?": ("20", "N: .* waits 19 steps, first token in step 20"),
        },
        "victim.reveal(": {
            "FCFS: which one is preempted in step 3?": ("B", "FCFS: B needs a block .* B itself is preempted"),
            "PRIORITY: which one?": ("A", "PRIORITY: B needs a block .* so A is preempted"),
            "PRIORITY: how many tokens does step 3 compute?": (
                "1 token",
                "PRIORITY\nstep 3 .*\n.*\ntoken budget: 1 of 64: B 1 decode",
            ),
        },
        "four_loads.reveal(": {
            "From 80 to 150 % of load, tokens per second rise.": (
                "true",
                r"output tokens per second: 445 \(load 80 %\), .* 589 \(load 150 %\)",
            ),
            "And goodput under FCFS rises.": (
                "false",
                r"FCFS: goodput per second: 4.39 \(load 80 %\), .* 0.46 \(load 150 %\)",
            ),
        },
        "fairness.reveal(": {
            "FCFS: how long do users 1 and 2 wait at p95, who send little?": (
                "about as long as user 0",
                r"user 0: TTFT, p95: 11.9 s \(FCFS\)(?s:.*)user 1: TTFT, p95: 11.7 s \(FCFS\)",
            ),
        },
    },
    "10_speculative_decoding": {
        "two_texts.reveal(": {
            "Copying with drafts: how many steps for 16 tokens?": ("9 steps", r"steps: .* 9 \(copy, drafts\)"),
            "The story with drafts: how many steps for 40 tokens?": ("35 steps", r"steps: .* 35 \(story, drafts\)"),
        },
        "slots_of_drafts.reveal(": {
            "Step 5: how many tokens does the chat get?": ("3 tokens", "step 5 of 8: (?s:.*?)A, kept: 3\n"),
            "Step 5: how many slots are taken back?": (
                "2 slots",
                "step 5 of 8: (?s:.*?)44 planned, 42 after\nA, slots taken back: 2\n",
            ),
            "Step 5 took a new block for them. It goes back to the pool.": (
                "false",
                "step 4 of 8: (?s:.*?)blocks: 1 2 3 4 5\n(?s:.*)step 6 of 8: (?s:.*?)blocks: 1 2 3 4 5 6\n",
            ),
        },
        "numbers.reveal(": {
            "At most 1 draft: how many steps?": ("11 steps", r"steps: .* 11 \(1 draft\)"),
            "At most 8 drafts: how many steps?": ("8 steps", r"steps: .* 8 \(8 drafts\)"),
            "At most 8 drafts: how many are not accepted?": (
                "23 drafts",
                r"drafts: .* 32 \(8 drafts\)\naccepted: .* 9 \(8 drafts\)",
            ),
        },
        "drafters.reveal(": {
            "The story with the draft model: how many steps for 40 tokens?": (
                "9 steps",
                r"steps: .* 9 \(story, model\)",
            ),
            "Which drafter takes fewer steps for copying?": (
                "lookup",
                r"steps: .* 9 \(copy, lookup\), 10 \(copy, model\)",
            ),
        },
        "batches.reveal(": {
            "64 requests, 4 drafts each: how long is a step?": ("4.9 ms", r"drafts each: .* 4.9 ms \(64 requests\)"),
            "256 requests, 4 drafts each: how long is a step?": (
                "19.4 ms",
                r"drafts each: .* 19.4 ms \(256 requests\)",
            ),
            "256 requests: how many tokens per step must it bring to break even?": (
                "4.1 tokens",
                r"break even: .* 4.1 \(256 requests\)",
            ),
        },
        "drawn.reveal(": {
            "Of 100 drafts, how many are kept?": ("69 drafts", "tokens drawn, 69% of the drafts kept"),
            "Of 100 tokens, how many are red?": ("19 tokens", r"19.5% \(red, reference 20%\)"),
        },
    },
    "11_async_scheduling": {
        "one_ahead.reveal(": {
            "In turn: how many steps?": ("6 steps", "in turn\nstep 5 of 5: "),
            "Ahead: how many steps are planned?": ("7 steps", "ahead\nstep 6 of 6: "),
            "Ahead: how many tokens does the last of them compute?": (
                "0 tokens",
                "ahead\nstep 6 of 6: .*\n.*\ntoken budget: 0 of 40",
            ),
            "Ahead: in which step does A's first token become known?": (
                "1",
                "ahead\nstep 0 of 6: (?s:.*?)A: prefill, 4 of 4 tokens(?s:.*?)"
                "ahead\nstep 1 of 6: (?s:.*?)A: decode, 5 of 5 tokens computed, first token in step 1",
            ),
        },
        "lanes_of_both.reveal(": {
            "In turn: how long does the run take?": ("72 ms", "in turn: 72 ms for 6 steps"),
            "Ahead?": ("52 ms", "ahead: 52 ms for 7 steps"),
        },
        "lanes_of_both.also(": {
            "Engine 12 ms, runner 6 ms. In turn?": ("108 ms", "in turn: 108 ms for 6 steps"),
            "And ahead?": ("78 ms", "ahead: 78 ms for 7 steps"),
        },
        "stop_token.reveal(": {
            "In turn: how many steps?": ("8 steps", r"steps: 8 \(in turn\)"),
            "Ahead: how many steps are planned?": ("10 steps", r"steps: .* 10 \(ahead\)"),
            "Ahead: how many tokens are computed in vain?": ("1 token", r"in vain: .* 1 \(ahead\)"),
        },
        "together.reveal(": {
            "In turn, with drafts: how many drafts are verified?": ("20 drafts", r"drafts: 20 \(in turn\)"),
            "Ahead, with drafts: how many places for drafts?": ("32 places", r"drafts: .* 32 \(ahead\)"),
            "Ahead, with drafts: how many tokens are computed in vain?": ("5 tokens", r"in vain: .* 5 \(ahead\)"),
        },
        "together.also(": {
            "Ahead, with drafts: how many tokens does step 1 plan?": (
                "5 tokens",
                r"step 1 of 10: (?s:.*?)A, tokens computed: 31 before, 36 planned",
            ),
        },
    },
    "12_serving": {
        "one_request.reveal(": {
            "In how many steps is it answered?": ("8 steps", "A, steps: 8\n"),
            "How many tokens are computed for it?": ("22 tokens", "A, computed tokens: 22\n"),
            "How many blocks does it hold in its last step?": ("3 blocks", "A, blocks in each step: .* 3\n"),
        },
        "one_answer.reveal(": {
            "vllm:prompt_tokens_total?": ("15", "vllm:prompt_tokens_total 15\n"),
            "vllm:generation_tokens_total?": ("8", "vllm:generation_tokens_total 8\n"),
            "vllm:kv_cache_usage_perc?": ("0", "vllm:kv_cache_usage_perc 0\n"),
            "vllm:iteration_tokens_total_count?": ("8", "vllm:iteration_tokens_total_count 8\n"),
        },
        "two_clients.reveal(": {
            "How many steps do the two take together?": (
                "12 steps",
                "step 8 of 19: .*\n.*Admitted: B, C(?s:.*)step 19 of 19: (?s:.*)B: .* step 19 (?s:.*)C: .* step 19 ",
            ),
            "How many tokens does their first step compute?": ("49 tokens", "token budget: 49 of 512: B 18 .*, C 31"),
            "And their second?": ("2 tokens", "step 9 of 19: .*\n.*\ntoken budget: 2 of 512"),
        },
        "hung_up.reveal(": {
            "How many blocks does D hold while it listens?": (
                "3 blocks",
                r"kv_cache_usage_perc: 0 \(before D\), 0.0234 \(D listens\)",
            ),
            "And when it has hung up?": ("0 blocks", r"kv_cache_usage_perc: .* 0 \(D has hung up\)"),
            "How many tokens were generated for D?": (
                "5 tokens",
                r"generation_tokens_total: 32 \(before D\), .* 37 \(D has hung up\)",
            ),
        },
        "same_notes.reveal(": {
            "How many tokens of F's prompt are found in the cache?": ("272 tokens", "F, from the cache: 272\n"),
            "How many of F's blocks are paler in its bill?": ("34 blocks", "F, blocks from the cache: 34\n"),
            "How many tokens does F's first step compute?": ("10 tokens", "F, tokens in each step: 33 prefill 10,"),
        },
        "full_queue.reveal(": {
            "Which one is refused?": ("I", "I: 429"),
            "With which status?": ("429 Too Many Requests", "I: 429, Retry-After: 1: the waiting queue is full"),
            "The two others are answered.": ("true", "G: The opposite of up is down.\nH: Grass is green.\n"),
        },
    },
}

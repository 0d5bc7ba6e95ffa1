"""Compares papers' claims about policies with results from an engine that makes the same decisions as vLLM."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from mini_vllm import EngineConfig, Lineup
from mini_vllm.core.request import Request
from mini_vllm_labs.policies.drafts_by_class import DraftsByClass
from mini_vllm_labs.policies.predictors import LengthRanker
from mini_vllm_labs.simulation.arena.contest import AnyLoad, Race, run_races, workers
from mini_vllm_labs.simulation.arena.drafted import DraftedRace, Drafter, HurriedLoad, run_drafted
from mini_vllm_labs.simulation.arena.figures import Figures
from mini_vllm_labs.simulation.arena.loads import ArenaLoad, UnevenOutputs
from mini_vllm_labs.simulation.arena.own_answers import OwnAnswers, kendalls_tau, read_own_answers
from mini_vllm_labs.simulation.experiment import ENGINE, Experiment

SEEDS = (0, 1, 2)
SEATS = 64


@dataclass(frozen=True, slots=True)
class PolicyClaim:
    """A claim about a policy: `said` is the headline of `source`.

    `measure` returns our result as text, and whether it confirms the claim. `shown` records whether we confirmed it;
    if False, `differs` states why.
    """

    name: str
    source: str
    said: str
    differs: str
    measure: Callable[[Lineup], tuple[str, bool]]
    shown: bool = True


def race_all(
    lineup: Lineup,
    policies: Sequence[str],
    load: AnyLoad,
    engine: EngineConfig | None = None,
) -> dict[str, list[Figures]]:
    """Run each policy with each seed on an H100 with a model of 8 billion parameters."""
    experiment = Experiment(engine=engine or replace(ENGINE, max_num_seqs=SEATS))
    config, cost = experiment.resolved_engine(), experiment.cost
    races = [Race(name, load, seed, config, cost, lineup) for name in policies for seed in SEEDS]
    figures = iter(run_races(races))
    return {name: [next(figures) for _ in SEEDS] for name in policies}


def mean_of(runs: Sequence[Figures], read: Callable[[Figures], float]) -> float:
    return fmean(map(read, runs))


def fair_tenants(lineup: Lineup) -> tuple[str, bool]:
    """Measure the largest service difference between two waiting tenants, and compare it with the paper's bound."""
    load = ArenaLoad("burst", 800, 60.0, num_tenants=2, heavy_share=0.8)
    runs = race_all(lineup, ["fcfs", "vtc"], load)
    longest = max(request.num_prompt_tokens for seed in SEEDS for request in load.requests(seed))
    held = SEATS * max(r.num_prompt_tokens + r.num_output_tokens for seed in SEEDS for r in load.requests(seed))
    bound = 2 * max(longest, 2 * held)
    fcfs, vtc = (max(run.max_service_difference for run in runs[name]) for name in ("fcfs", "vtc"))
    return f"{vtc:,.0f}, of at most {bound:,}; FCFS {fcfs:,.0f}", vtc <= bound < 10**9 and vtc * 10 < fcfs


def ranked_answers(lineup: Lineup) -> tuple[str, bool]:
    """Measure the mean request latency with FCFS, a trained ranker, and known lengths."""
    load = OwnAnswers(600, 1_600.0)
    runs = race_all(lineup, ["fcfs", "sjf-ranked", "sjf"], load)
    fcfs, ranked, known = (mean_of(runs[name], lambda run: run.e2e.mean) for name in ("fcfs", "sjf-ranked", "sjf"))
    unseen = read_own_answers()
    ranker = LengthRanker.trained()
    scores = [ranker(Request("", list(one.prompt_token_ids))) for one in unseen]
    tau = kendalls_tau(scores, [one.num_output_tokens for one in unseen])
    said = f"{fcfs / ranked:.2f} times lower (known lengths: {fcfs / known:.2f}); Kendall's tau {tau:.2f}"
    return said, fcfs / ranked > 1.2 and tau > 0.5


def chunked_prefill(lineup: Lineup) -> tuple[str, bool]:
    """Measure the 99th percentile of the time per output token with whole prompts and with chunks."""
    load = ArenaLoad("mixed", 500, 12.0)
    whole = replace(ENGINE, max_num_seqs=SEATS, max_model_len=16_384, max_num_batched_tokens=16_384)
    chunked = replace(whole, max_num_batched_tokens=512)
    whole = replace(whole, enable_chunked_prefill=False)
    before, after = (
        mean_of(race_all(lineup, ["fcfs"], load, engine)["fcfs"], lambda run: run.tpot.p99)
        for engine in (whole, chunked)
    )
    return f"{1e3 * before:.1f} ms become {1e3 * after:.1f} ms", after < before


def run_to_completion(lineup: Lineup) -> tuple[str, bool]:
    """Compare the mean latency of run-to-completion and round-robin for equal and uneven outputs."""
    one_seat = replace(ENGINE, max_num_seqs=1)
    found = []
    for variation in (0.0, 16.0):
        runs = race_all(lineup, ["fcfs", "feedback-queues"], UnevenOutputs(400, 1.0, 100.0, variation), one_seat)
        completed, turns = (mean_of(runs[name], lambda run: run.e2e.mean) for name in ("fcfs", "feedback-queues"))
        found.append(completed / turns)
    said = f"{found[0]:.2f} of the mean of taking turns if outputs are equal, {found[1]:.2f} if they vary much"
    return said, found[0] <= 1 < found[1]


def burst_tail(lineup: Lineup) -> tuple[str, bool]:
    """Measure the wait for a first token in bursts of arrivals."""
    runs = race_all(lineup, ["fcfs", "feedback-queues"], ArenaLoad("burst", 800, 60.0))
    fcfs, turns = (mean_of(runs[name], lambda run: run.ttft.p99) for name in ("fcfs", "feedback-queues"))
    whole, others = (mean_of(runs[name], lambda run: run.e2e.mean) for name in ("fcfs", "feedback-queues"))
    said = f"p99 of the first token {fcfs:.2f} s become {turns:.2f} s"
    return f"{said}; the mean of whole requests {whole:.2f} s become {others:.2f} s", turns < fcfs / 5


def readers_quality(lineup: Lineup) -> tuple[str, bool]:
    """Measure the mean quality of experience under overload."""
    runs = race_all(lineup, ["fcfs", "andes"], ArenaLoad("burst", 500, 80.0))
    fcfs, andes = (mean_of(runs[name], lambda run: run.qoe) for name in ("fcfs", "andes"))
    return f"{fcfs:.2f} becomes {andes:.2f}, {andes / fcfs:.2f} times", andes > 1.2 * fcfs


def wasted_tokens(lineup: Lineup) -> tuple[str, bool]:
    """Measure the number of tokens computed twice when memory is short, for each way to choose victims."""
    tight = replace(ENGINE, max_num_seqs=SEATS, num_gpu_blocks=1_000, max_model_len=16_384)
    names = ("fcfs", "least-computed-victim", "cheapest-victim")
    runs = race_all(lineup, names, ArenaLoad("mixed", 300, 12.0), tight)
    last, least, cheapest = (mean_of(runs[name], lambda run: run.num_recomputed_tokens) for name in names)
    said = (
        f"{last:,.0f} (the last to be admitted) become {least:,.0f} (fewest computed) and {cheapest:,.0f} (per block)"
    )
    return said, min(least, cheapest) < last


def drafts_for_the_hurried(lineup: Lineup) -> tuple[str, bool]:
    """Measure, for each number of drafts, how many urgent requests meet a limit of half a plain step per token.

    Phase 7 comes from the lineup, or from the same source as phase 1 if the lineup has none.
    """
    experiment = Experiment(gpu="A100-80GB", model="Qwen3-32B", num_gpus=2, engine=replace(ENGINE, max_num_seqs=SEATS))
    config, cost, load = experiment.resolved_engine(), experiment.cost, HurriedLoad("chat", 400, 8.0)
    # A draft model's passes run back to back on the GPU, without a step's overhead.
    passes = replace(Experiment(gpu="A100-80GB", model="Qwen2.5-0.5B").cost, seconds_per_step=0, seconds_per_request=0)
    own = lineup.scheduler if lineup.speculation == "absent" else lineup.speculation
    race = DraftedRace(DraftsByClass(), Drafter(passes, 8), load, 0, config, cost, replace(lineup, speculation=own))
    rivals = {f"{number} for all": (DraftsByClass({}, number), Drafter(passes, number)) for number in (0, 2, 4, 8)}
    rivals["by class"] = (race.policy, race.drafter)
    with workers(None, len(rivals) * len(SEEDS)) as submit:
        runs = {
            name: [submit(run_drafted, replace(race, policy=policy, drafter=drafter, seed=seed)) for seed in SEEDS]
            for name, (policy, drafter) in rivals.items()
        }
        late = {name: fmean(1 - each.result()["urgent"].share_good for each in runs[name]) for name in runs}
    ours = late.pop("by class")
    said = ", ".join(f"{100 * share:.0f}% with {name}" for name, share in late.items())
    return f"{100 * ours:.0f}% of the urgent late by class; {said}", 1.2 * ours < min(late.values())


CLAIMS = [
    PolicyClaim(
        "VTC: service between tenants",
        "arXiv 2401.00588",
        "two tenants that wait differ by at most 2 max(w_p L, w_q M) weighted tokens",
        "the bound is proved, so it must hold; a tenth of FCFS's difference is ours to show",
        fair_tenants,
    ),
    PolicyClaim(
        "learning to rank: mean latency",
        "arXiv 2408.15792",
        "2.8 times lower mean latency in chatbot serving",
        "answers of 8 to 100 tokens, so there is less to gain; the ranker sees which words a prompt holds",
        ranked_answers,
    ),
    PolicyClaim(
        "Sarathi: tail of time per token",
        "arXiv 2403.02310",
        "chunks bound the pause that a prompt causes for those that decode",
        "a simulated H100, one document to nine chats",
        chunked_prefill,
    ),
    PolicyClaim(
        "FastServe: tail under bursts",
        "arXiv 2305.05920",
        "up to 17.9 times the throughput under the same tail latency",
        "preempted requests are computed again here and not swapped, so the whole answer takes longer",
        burst_tail,
    ),
    PolicyClaim(
        "Andes: quality of experience",
        "arXiv 2404.16283",
        "up to 3.2 times the mean quality of experience at a high rate",
        "seats are short here, not memory, and a preempted request is computed again: there is little to trade",
        readers_quality,
        shown=False,
    ),
    PolicyClaim(
        "victims: tokens computed twice",
        "vLLM issue 54644",
        "preempting what has been computed least wastes less than preempting the last one",
        "what has just been admitted is the victim again and again, and each time its prompt is computed anew",
        wasted_tokens,
        shown=False,
    ),
    PolicyClaim(
        "AdaServe: drafts by class",
        "arXiv 2501.12162",
        "up to 4.3 times fewer violations and 1.9 times the goodput of the best system beside it",
        "a chain of 8, 2 or 0 drafts by class, the last ones seldom right; the paper picks the likeliest of a tree",
        drafts_for_the_hurried,
        shown=False,
    ),
    PolicyClaim(
        "run to completion minimises the mean",
        "a rule of thumb",
        "no preemption, lowest mean latency",
        "true for equal outputs; false if their squared coefficient of variation is over 1 (Wierman 2007)",
        run_to_completion,
    ),
]

"""Small contests."""

from dataclasses import replace

from mini_vllm import parse_lineup
from mini_vllm_labs.simulation.arena.contest import Race
from mini_vllm_labs.simulation.arena.loads import ArenaLoad
from mini_vllm_labs.simulation.experiment import ENGINE, Experiment

EXPERIMENT = Experiment(engine=replace(ENGINE, max_num_seqs=32))
REFERENCE = parse_lineup("solution:1-5")


def races_of(*policies: str, num_seeds: int = 1, load: ArenaLoad | None = None) -> list[Race]:
    """Return a race for each policy and seed, with each policy's races next to each other."""
    chosen = load or ArenaLoad("burst", 100, 60.0)
    config, cost = EXPERIMENT.resolved_engine(), EXPERIMENT.cost
    return [Race(name, chosen, seed, config, cost, REFERENCE) for name in policies for seed in range(num_seeds)]

"""A contest on a dask cluster of two processes gives the same figures as one on this machine's cores. (Extra
`dask`.)"""

import pytest
from distributed import LocalCluster

from mini_vllm_labs.simulation.arena.contest import run_races
from tests.policies.races import races_of


def test_a_cluster_gives_the_same_figures() -> None:
    races = races_of("fcfs", "priority", num_seeds=2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert run_races(races, cluster.scheduler_address) == run_races(races)


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(ValueError, match="there is no dask scheduler at"):
        run_races(races_of("fcfs"), "tcp://127.0.0.1:1")

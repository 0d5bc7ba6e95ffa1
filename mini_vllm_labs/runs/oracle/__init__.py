"""Two lineups on one workload: where their decisions diverge."""

"""Runs two lineups on the same workload and finds where their decisions diverge."""

"""Runs two lineups on one workload and finds where their decisions diverge."""

"""The scheduler's data and framework: requests, blocks, queues, one step. No torch."""

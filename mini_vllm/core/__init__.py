"""The scheduler's data and frame: requests, blocks, queues, one step. No torch."""

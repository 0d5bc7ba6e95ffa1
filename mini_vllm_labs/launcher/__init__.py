"""Provides the installed command `mini-vllm`, which unpacks the course into a folder and runs it there.

The code that runs always comes from the learner's folder: the installed engine, `mini_vllm`, has no labs.
"""

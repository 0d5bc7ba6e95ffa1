"""What the package for learners installs: the course as one archive, and `mini-vllm`, which unpacks and runs it.

No module of the course is installed, so the code that runs is always that of the learner's folder.
"""

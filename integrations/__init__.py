"""The learner's parts inside other people's engines."""

"""`mini-vllm bench ...`"""

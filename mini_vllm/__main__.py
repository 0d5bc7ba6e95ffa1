"""`python -m mini_vllm` is `mini-vllm`."""

from mini_vllm.cli.main import app

if __name__ == "__main__":
    app()

"""`python -m cli` is `mini-vllm`."""

from cli.main import app

if __name__ == "__main__":
    app()

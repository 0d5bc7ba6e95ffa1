"""`python -m course` is `mini-vllm`."""

from course.cli.main import app

if __name__ == "__main__":
    app()

"""`python -m mini_vllm_labs.cli` does the same as `mini-vllm`."""

from mini_vllm_labs.cli.main import app

if __name__ == "__main__":
    app(prog_name="mini-vllm")  # the program name for which shells request completions

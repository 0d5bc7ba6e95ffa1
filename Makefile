# make demo   set up, then watch the engine run on the model that comes with the course
# make test   set up, then run all tests
# make lab    set up, then open the notebooks
# On Windows without make: `python lab.py demo`, `python lab.py test`, `python lab.py lab`.
PYTHON ?= python3

.PHONY: demo test lab lint clean
demo test lab lint:
	@$(PYTHON) lab.py $@

clean:
	rm -rf .venv build *.egg-info

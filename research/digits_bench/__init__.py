"""Tasks, networks and training behind `make_digits_bench.py`."""

"""Speed and cost, each measured in one run: `python -m benchmarks.NAME`."""

"""Speed and memory against peers and physical limits, as ratios in one run: `python -m benchmarks [name …]`."""

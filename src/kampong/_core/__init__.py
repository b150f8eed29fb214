"""The base of all computations: arrays, compiled loops, threads, locks, memory limits and registries."""

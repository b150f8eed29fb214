"""Checks of the input: rows, labels, weights and parameters, checked once, with messages that say what to do next."""

"""Kernel functions, landmarks and random Fourier features: rows seen through a kernel."""

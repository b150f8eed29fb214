"""Kernel functions, landmarks and random Fourier features: rows seen through a kernel."""

from kampong.kernels.functions import register

__all__ = ["register"]

"""Kernel functions, landmarks and random Fourier features."""

from kampong.kernels.functions import register

__all__ = ["register"]

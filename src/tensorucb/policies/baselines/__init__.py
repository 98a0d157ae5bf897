"""Kernels of the baseline policies."""

"""Honest uncertainty: calibration, exact posteriors of small problems, and what the variational ones miss.

``python -m studies.uncertainty --out DIR`` makes every table and figure of ``docs/uncertainty.md``.
"""

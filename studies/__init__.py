"""Studies behind the figures of the documentation; run from the root of the repository, not part of the wheel."""

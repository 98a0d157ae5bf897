"""What the commands compare, tune and reproduce are made of, for tests that need them smaller than a command is."""

from __future__ import annotations

# private: a command plays all policies on all settings for minutes; these are its parts, each on its own
from tensorucb.experiments import _comparison, _files, _paper, _runs, _tuning

Comparison = _comparison.Comparison

ProductBlind = _comparison.ProductBlind
best_strategy = _comparison.best_strategy
contestants = _comparison.contestants
ours_untouched = _comparison.ours_untouched
paper_policies = _comparison.paper_policies
references = _comparison.references
strategy_contestants = _comparison.strategy_contestants

read_settings = _files.read_settings
write_settings = _files.write_settings

policy_key = _runs.policy_key

Effort = _paper.Effort
network_statistics = _paper.network_statistics
run_targets = _paper.run_targets
sampled = _paper.sampled
write_results = _paper.write_results

search = _tuning._search

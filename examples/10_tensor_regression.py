"""
The learner alone
=================

`TensorRegression` learns from any number of feature vectors per sample, one sample at a time, and says how sure it is.
"""

import altair as alt
import numpy as np

import tensorucb as tu

# %%
# Three modes: say, a user, a product and a season. The outcome is a product of what each of them contributes.

rng = np.random.default_rng(0)
weights = [rng.normal(size=dim) for dim in (4, 3, 2)]


def draw(n):
    features = [rng.normal(size=(n, len(w))) / np.sqrt(len(w)) for w in weights]
    signal = np.prod([x @ w for x, w in zip(features, weights, strict=True)], axis=0)
    return features, signal + 0.1 * rng.normal(size=n)


test_features, test_y = draw(500)

# %%
# The learner sees each sample once and keeps none. Its error on samples never seen falls to that of the noise.

learner = tu.TensorRegression(dims=(4, 3, 2), rank=2, noise_variance=0.01, rng=0)
rows = []
for _ in range(40):
    learner.update(*draw(10))
    mean, variance = learner.predict(test_features)
    error = float(np.sqrt(np.mean((mean - test_y) ** 2)))
    rows.append({"samples": learner.state.n_samples, "error": error})
print(f"error after 10 samples {rows[0]['error']:.2f}, after 400 {rows[-1]['error']:.2f}; the noise has 0.10")
print(f"the first test sample: {mean[0]:.2f} ± {np.sqrt(variance[0]):.2f}, in truth {test_y[0]:.2f}")

# %%
# The dashed line is the noise, below which nothing can get.

line = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=3)
line = line.encode(x=alt.X("samples:Q", title="Samples"), y=alt.Y("error:Q", title="Error on samples never seen"))
noise = (
    alt.Chart(alt.Data(values=[{"noise": 0.1}]))
    .mark_rule(strokeDash=[6, 4], color="#d55e00", strokeWidth=2)
    .encode(y="noise:Q")
)
errors = alt.layer(line, noise).properties(width=600, height=280, title="One pass over the samples")
errors

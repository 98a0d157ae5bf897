"""The eigenmap against dense eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.features import normalised_adjacency, spectrum
from tensorucb.errors import InputError, StateError
from tensorucb.features import eigenmap, laplacian_eigenmap
from tensorucb.graph import Graph


def random_graph(n: int, m: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    ring = np.arange(n)
    sources = np.concatenate([ring, rng.integers(0, n, m)])
    targets = np.concatenate([(ring + 1) % n, rng.integers(0, n, m)])
    keep = sources != targets
    return Graph.from_edges(sources[keep], targets[keep])


def degrees(graph: Graph) -> np.ndarray:
    return (normalised_adjacency(graph) > 0).sum(axis=1).astype(float)


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 30), st.integers(0, 60), st.integers(0, 10**6))
def test_solves_the_eigenproblem(n: int, m: int, seed: int) -> None:
    graph = random_graph(n, m, seed)
    dim = min(5, n - 1)
    found = eigenmap(graph, dim)
    d = degrees(graph)
    # Eigenvalues as the dense ones after the trivial 0; the residual covers rotations within eigenspaces.
    np.testing.assert_allclose(found.eigenvalues, spectrum(graph)[1 : dim + 1], atol=1e-9)
    laplacian = np.diag(d) - (normalised_adjacency(graph) > 0)
    y = found.vectors
    np.testing.assert_allclose(laplacian @ y, d[:, None] * y * found.eigenvalues, atol=1e-8)
    np.testing.assert_allclose(y.T @ (d[:, None] * y), np.eye(dim), atol=1e-8)
    np.testing.assert_allclose(d @ y, 0, atol=1e-8)


def test_a_graph_too_large_for_dense_matrices_agrees_with_dense_eigenvectors() -> None:
    graph = random_graph(600, 1800, 1)
    sparse = eigenmap(graph, 8, tolerance=1e-10)
    values, vectors = np.linalg.eigh(normalised_adjacency(graph))
    np.testing.assert_allclose(sparse.eigenvalues, 1.0 - values[::-1][1:9], atol=1e-9)
    dense = vectors[:, ::-1][:, 1:9] / np.sqrt(degrees(graph))[:, None]
    signs = np.sign((dense * sparse.vectors).sum(axis=0))
    np.testing.assert_allclose(sparse.vectors, signs * dense, atol=1e-6)
    assert sparse.residual < 1e-8
    np.testing.assert_array_equal(eigenmap(graph, 8).vectors, eigenmap(graph, 8).vectors)


def test_two_large_components_are_told_apart_and_small_ones_are_zero() -> None:
    one, two = random_graph(60, 120, 2), random_graph(50, 100, 3)
    sources = np.concatenate([one.sources, two.sources + 100, [500]])
    targets = np.concatenate([one.targets, two.targets + 100, [501]])
    graph = Graph.from_edges(sources, targets)
    found = eigenmap(graph, 4, min_component_share=0.05)
    assert found.embedded.sum() == 110
    assert (found.vectors[~found.embedded] == 0).all()
    lengths = np.linalg.norm(laplacian_eigenmap(graph, 4, min_component_share=0.05), axis=1)
    np.testing.assert_allclose(lengths, found.embedded)
    np.testing.assert_allclose(found.eigenvalues[0], 0, atol=1e-12)
    first, rest = found.vectors[:60, 0], found.vectors[60:110, 0]
    assert np.ptp(first) < 1e-12
    assert np.ptp(rest) < 1e-12
    assert first[0] * rest[0] < 0
    assert (found.eigenvalues[1:] > 1e-3).all()
    everything = eigenmap(graph, 4, min_component_share=0.0)
    assert everything.embedded.all()
    np.testing.assert_allclose(everything.eigenvalues, spectrum(graph)[1:5], atol=1e-9)


def test_direction_and_repeats_do_not_matter() -> None:
    graph = random_graph(40, 80, 4)
    both = Graph.from_edges(
        np.concatenate([graph.sources, graph.targets]), np.concatenate([graph.targets, graph.sources])
    )
    np.testing.assert_allclose(laplacian_eigenmap(graph, 4), laplacian_eigenmap(both, 4), atol=1e-9)


def test_scaling() -> None:
    graph = random_graph(50, 100, 5)
    rows = laplacian_eigenmap(graph, 6)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    raw = eigenmap(graph, 6).vectors
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), rows)


def test_the_largest_gap_of_the_spectrum_finds_the_blocks() -> None:
    rng = np.random.default_rng(6)
    block = np.repeat(np.arange(5), 30)
    close = rng.random((150, 150)) < np.where(block[:, None] == block, 0.5, 0.01)
    graph = Graph.from_edges(*np.nonzero(close & ~np.eye(150, dtype=bool)))
    # Five blocks: four non-trivial small eigenvalues, then a gap.
    assert laplacian_eigenmap(graph, None).shape == (150, 4)


def test_tiny_graph_with_free_dimension() -> None:
    assert laplacian_eigenmap(Graph.from_edges([1], [2]), None).shape == (2, 1)


def test_bad_input() -> None:
    graph = random_graph(10, 10, 7)
    for dim in (0, 10, True, "a", 2.5, [2]):
        with pytest.raises(InputError, match="dim must be"):
            laplacian_eigenmap(graph, dim)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="graph must be"):
        laplacian_eigenmap("g", 2)  # type: ignore[arg-type]
    for name in ("tolerance", "min_component_share"):
        with pytest.raises(InputError, match=name):
            laplacian_eigenmap(graph, 2, **{name: "a"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tolerance"):
        laplacian_eigenmap(graph, 2, tolerance=0.0)
    with pytest.raises(InputError, match="min_component_share"):
        laplacian_eigenmap(graph, 2, min_component_share=2.0)


def test_residuals_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        return np.linspace(0.0, 0.5, len(matrix)), np.linalg.qr(rng.standard_normal(matrix.shape))[0]

    monkeypatch.setattr(np.linalg, "eigh", wrong)
    with pytest.raises(StateError, match="off by"):
        eigenmap(random_graph(40, 40, 8), 3)

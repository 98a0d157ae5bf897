"""The Laplacian eigenmap of a graph: the paper's user features.

With ``A`` the adjacency of the graph taken as undirected and ``D`` its degrees, the eigenmap takes the eigenvectors
``v`` of ``D^-1/2 A D^-1/2`` with the largest eigenvalues after the trivial one, and embeds node ``i`` by
``v_i / sqrt(D_i)``, which solves ``(D - A) y = (1 - λ) D y``.

References
----------
M. Belkin and P. Niyogi, Laplacian eigenmaps and spectral techniques for embedding and clustering, NIPS 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_count, check_number, check_share
from tensorucb.errors import InputError, StateError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.threads import single_threaded_blas

# Up to so many nodes all eigenvectors of the dense matrix take less time than some of the sparse one.
_DENSE = 400
_MAX_DIM = 20


@dataclass(frozen=True, eq=False)
class Eigenmap:
    """An eigenmap with its spectrum.

    ``vectors`` is the raw ``(n, d)`` embedding ``Y`` with ``Yᵀ D Y = I``, zero for nodes that are not ``embedded``;
    ``eigenvalues`` are ``1 - λ``, those of the normalised Laplacian, ascending; ``residual`` is the largest
    ``‖A v - λ v‖`` of the eigenvectors.
    """

    vectors: F64
    eigenvalues: F64
    embedded: NDArray[np.bool_]
    residual: float


def _embedded(adjacency: Any, min_share: float) -> tuple[NDArray[np.bool_], I64]:
    """Nodes of the components to embed, and the component (0, 1, …) of each of these nodes."""
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(adjacency, directed=False)
    sizes = np.bincount(labels)
    chosen = (sizes >= max(min_share * labels.size, 2)) | (np.arange(sizes.size) == np.argmax(sizes))
    inside = chosen[labels]
    return inside, (np.cumsum(chosen) - 1)[labels[inside]].astype(np.int64)


def _trivial(root_degree: F64, component: I64) -> F64:
    """Orthonormal eigenvectors of eigenvalue 1: the constant one first, then contrasts between components."""
    indicators = np.zeros((component.size, int(component.max()) + 1))
    indicators[np.arange(component.size), component] = root_degree
    return np.asarray(np.linalg.qr(np.column_stack([root_degree, indicators[:, 1:]]))[0])


def _leading(matrix: Any, trivial: F64, count: int, tolerance: float) -> tuple[Any, Any]:
    """The ``count`` largest eigenpairs orthogonal to ``trivial``, whose eigenvalue is 1."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    n = matrix.shape[0]
    if n <= max(_DENSE, 3 * count):
        # Moved to -3, below all others, the known vectors come last.
        values, vectors = np.linalg.eigh(matrix.toarray() - 4.0 * trivial @ trivial.T)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    deflated = LinearOperator(
        matrix.shape, matvec=lambda x: matrix @ x - 2.0 * (trivial @ (trivial.T @ x)), dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(n)
    for widening in (1, 2, 4):
        ncv = min(n - 1, widening * max(60, 3 * count))
        try:
            values, vectors = eigsh(deflated, k=count, which="LA", tol=tolerance, ncv=ncv, v0=start, maxiter=300)
        except ArpackError:
            continue
        order = np.argsort(-values, kind="stable")
        return values[order], vectors[:, order]
    raise StateError(
        f"the eigenvectors of this graph did not converge to a tolerance of {tolerance}. "
        "Ask for fewer dimensions, or allow a larger tolerance."
    )


def _fix_signs(vectors: F64) -> F64:
    """Each column's entry of largest magnitude made positive (the first of those equal up to rounding)."""
    size = np.abs(vectors)
    first = (size >= size.max(axis=0) * (1 - 1e-6)).argmax(axis=0)
    signs = np.sign(vectors[first, np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0, 1.0, signs)


def eigenmap(
    graph: Graph, dim: int | None = 10, *, min_component_share: float = 0.01, tolerance: float = 1e-3
) -> Eigenmap:
    """The raw Laplacian eigenmap with its spectrum, up to 21 dimensions where ``dim`` is ``None``.

    See `laplacian_eigenmap` for the parameters.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.features import eigenmap
    >>> eigenmap(Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 0]), dim=2).vectors.shape
    (5, 2)
    """
    check_graph(graph)
    if dim is not None:
        dim = check_count("dim", dim)
    check_share("min_component_share", min_component_share)
    check_number("tolerance", tolerance, strict=True)
    from scipy.sparse import diags_array

    with single_threaded_blas():
        forward = graph.to_scipy()
        adjacency = (forward + forward.T).tocsr()
        adjacency.data[:] = 1.0  # 2 where an edge has its reverse
        inside, component = _embedded(adjacency, min_component_share)
        if dim is None:
            dim = min(_MAX_DIM + 1, component.size - 1)
        if dim >= component.size:
            raise InputError(f"must be below the {component.size} connected nodes to embed; got {dim}.", argument="dim")
        adjacency = adjacency[inside][:, inside]
        root = np.sqrt(np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel())
        scale = diags_array(1.0 / root)
        matrix = (scale @ adjacency @ scale).tocsr()
        trivial = _trivial(root, component)
        contrasts = trivial[:, 1 : dim + 1]
        values, vectors = np.ones(contrasts.shape[1]), contrasts
        if contrasts.shape[1] < dim:
            more, leading = _leading(matrix, trivial, dim - contrasts.shape[1], tolerance)
            values, vectors = np.concatenate([values, more]), np.column_stack([vectors, leading])
        residual = float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max())
    if residual > 10 * tolerance:
        raise StateError(f"eigenvectors are off by {residual:.1e}, more than 10 times the tolerance {tolerance:.1e}.")
    embedding = np.zeros((graph.n_nodes, dim))
    embedding[inside] = _fix_signs(vectors / root[:, None])
    return Eigenmap(embedding, 1.0 - values, inside, residual)


def _unit_rows(matrix: F64) -> F64:
    """Rows divided by their length; rows of zeros stay."""
    # The largest entry first, so that neither tiny nor huge rows lose their squares.
    peak = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    matrix = np.divide(matrix, peak, out=np.zeros_like(matrix), where=peak > 0)
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: F64 = np.divide(matrix, length, out=matrix, where=length > 0)
    return unit


def laplacian_eigenmap(
    graph: Graph,
    dim: int | None = 10,
    *,
    min_component_share: float = 0.01,
    tolerance: float = 1e-3,
) -> F64:
    """User features from the network alone: ``x_i``, the Laplacian eigenmap (Section "Datasets" of the paper).

    Every row has length 1 (A3 of the paper asks for at most that); zero rows stay. `eigenmap` has the raw solution,
    whose entries are so small that a zero-mean prior learns nothing from them. Signs and start are fixed: the same
    graph gives the same ``(n_nodes, dim)`` array.

    Parameters
    ----------
    graph
        The network; edges count in both directions.
    dim
        Number of features, 10 in the paper; ``None`` takes the largest gap of the first 21 eigenvalues.
    min_component_share
        Components with a smaller part of the nodes are not embedded: their rows are zero. The largest always is.
        With several left, the first features tell the components apart, the others order nodes within them.
    tolerance
        Relative accuracy of the eigenvectors.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.features import laplacian_eigenmap
    >>> ring = Graph.from_edges(range(10), [(v + 1) % 10 for v in range(10)])
    >>> laplacian_eigenmap(ring, dim=2).shape
    (10, 2)
    """
    result = eigenmap(graph, dim, min_component_share=min_component_share, tolerance=tolerance)
    vectors = result.vectors
    if dim is None and result.eigenvalues.size > 2:
        # The dimension after which the spectrum has its largest gap, at least 2.
        vectors = vectors[:, : 2 + int(np.argmax(np.diff(result.eigenvalues)[1:]))]
    return _unit_rows(vectors)

"""Studies behind the documents; no part of the package.

Run them from the root of the repository, with the data sets of docs/reference/data.md in ``data`` or in the folder that
``--data`` names. Each prints tables of Markdown, or writes them to ``--out``:

- ``python -m studies.uncertainty`` and ``python -m studies.reach`` for docs/uncertainty.md
- ``python -m studies.ablation`` for docs/model.md; ``studies.exploration`` and ``studies.modes`` are for decisions on
  the model, and no page has their tables
- ``python -m studies.yardsticks``, ``studies.paper_form``, ``studies.ceilings`` and ``studies.influence_rank`` for
  docs/results.md, ``python -m studies.premises`` for docs/mathematics.md
- ``python -m studies.lift`` for docs/howto/progress-and-lift.md, ``python -m studies.drift`` for docs/howto/drift.md,
  ``python -m studies.fatigue`` for docs/howto/people.md, ``python -m studies.columns`` for docs/howto/own-data.md,
  ``python -m studies.revenue`` for docs/howto/money.md
- ``python -m studies.service_load`` and ``studies.service_memory`` for docs/service.md

`studies.worlds` has their worlds by name, replayed logs among them, `studies.changed_worlds` worlds that are not as the
model has them, and `studies.kept` keeps runs, so that a study that was stopped goes on where it was.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# Where the data sets are: in the repository's folder, or beside it for several copies of the repository.
DATA = _ROOT / "data" if (_ROOT / "data").is_dir() else _ROOT.parent / "shared" / "data"

"""Studies behind the documents; no part of the package.

Run them from the root of the repository, with the data sets in ``../shared/data`` or in the folder that ``--data``
names. Each prints tables of Markdown, or writes them to ``--out``:

- ``python -m studies.uncertainty`` and ``python -m studies.reach`` for docs/uncertainty.md
- ``python -m studies.ablation``, ``studies.exploration``, ``studies.modes`` and ``studies.premises`` for docs/model.md
- ``python -m studies.lift`` for docs/campaigns.md, ``python -m studies.drift`` for docs/drift.md
"""

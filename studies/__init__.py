"""Commands that make the tables of the documents; each prints one table of Markdown.

Run them from the root of the repository, with the data sets in ``../shared/data`` or in the folder that ``--data``
names: ``python -m studies.lift`` (docs/campaigns.md), ``python -m studies.drift`` (docs/drift.md) and
``python -m studies.reach`` (docs/uncertainty.md). They are no part of the package.
"""

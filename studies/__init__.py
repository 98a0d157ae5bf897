"""Commands that make the tables of the documents; each prints one table of Markdown.

Run them from the root of the repository, with the data sets in ``../shared/data`` or in the folder that ``--data``
names: ``python -m studies.lift`` (docs/campaigns.md) and ``python -m studies.drift`` (docs/drift.md). They are no part
of the package.
"""

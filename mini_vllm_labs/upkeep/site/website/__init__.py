"""The pages around the lab: Material for MkDocs over the course's own handouts and documents.

Nothing is written twice: a page is a file of the student edition, or a document of this checkout that no learner's
edition has (benchmarks, for teachers). Built pages name no other machine.
"""

"""Builds the pages around the lab: the course's handouts and documents with Material for MkDocs.

No text exists twice: a page is a file from the student edition, or a document in this checkout that the student edition
does not contain (benchmarks, for teachers). Built pages do not refer to other machines.
"""

"""A certificate or a run as one HTML page: its numbers, its figures, and how to make it again."""

from certgcl.report.content import Missing, Report
from certgcl.report.numbers import gather
from certgcl.report.sources import Subject

__all__ = ["Missing", "Report", "Subject", "gather"]

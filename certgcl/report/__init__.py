"""A certificate or a run as one HTML page: its numbers, its figures, and how to make it again."""

from certgcl.report.content import Missing, Report
from certgcl.report.gather import gather
from certgcl.report.subject import Subject

__all__ = ["Missing", "Report", "Subject", "gather"]

"""A certificate or a run as one HTML page: its numbers, its figures, and how to reproduce it; or several compared."""

from certgcl.report.comparison import Comparison, compare_reports
from certgcl.report.content import Missing, Report
from certgcl.report.numbers import gather
from certgcl.report.sources import Subject

__all__ = ["Comparison", "Missing", "Report", "Subject", "compare_reports", "gather"]

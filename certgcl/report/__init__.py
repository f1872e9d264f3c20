"""A certificate or a run as one HTML page: its numbers, its figures, and how to reproduce it; or several compared."""

from certgcl.report.comparison import Comparison, compare_reports
from certgcl.report.content import Missing, Report
from certgcl.report.numbers import build_report
from certgcl.report.sources import ReportSource

__all__ = ["Comparison", "Missing", "Report", "ReportSource", "build_report", "compare_reports"]

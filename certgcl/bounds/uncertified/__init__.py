"""Formulas of the paper and of its released code. They are not bounds."""

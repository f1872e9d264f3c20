"""What must be right for a proof to be right. The theorems are stated in the package above."""

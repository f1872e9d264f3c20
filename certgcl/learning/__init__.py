"""Contrastive methods, the certified regularizer, training and evaluation."""

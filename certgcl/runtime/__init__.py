"""The process around a computation: arithmetic, memory, random numbers, other processes."""

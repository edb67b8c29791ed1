"""Measuring: GPUs by NVML, the host by /proc and /sys, or a simulation that says so."""

"""What runs in a job beside its script: steps, ports, files, and the job's own way to the controller."""

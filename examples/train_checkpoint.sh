#!/bin/bash
#SBATCH --job-name=train
#SBATCH --cpus-per-task=1
#SBATCH --mem=512M
#SBATCH --time=10
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=train-%j.log
# A small training loop (logistic regression in numpy) that saves a checkpoint after every epoch and goes on
# from it after a requeue. It asks for its own requeue once, after epoch 3, so that the restart can be seen.
set -eu
export CHECKPOINT="$PWD/train-$SLURM_JOB_ID.npz"
echo "attempt $((${SLURM_RESTART_COUNT:-0} + 1)) on $SLURMD_NODENAME"
exec "${PYTHON:-python3}" - <<'PY'
import os
import subprocess
import sys
import time

import numpy as np

path = os.environ["CHECKPOINT"]
generator = np.random.default_rng(7)
features = generator.normal(size=(2_000, 20))
labels = (features @ generator.normal(size=20) > 0).astype(float)
if os.path.exists(path):
    saved = np.load(path)
    weights, first = saved["weights"], int(saved["epoch"]) + 1
    print(f"resumed after epoch {first - 1}", flush=True)
else:
    weights, first = np.zeros(20), 1
for epoch in range(first, 7):
    for _ in range(50):
        guess = 1 / (1 + np.exp(-features @ weights))
        weights -= 0.5 * features.T @ (guess - labels) / len(labels)
    loss = -np.mean(labels * np.log(guess + 1e-9) + (1 - labels) * np.log(1 - guess + 1e-9))
    np.savez(path + ".new.npz", weights=weights, epoch=epoch)
    os.replace(path + ".new.npz", path)
    print(f"epoch {epoch} loss {loss:.4f}", flush=True)
    if epoch == 3 and os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
        subprocess.run(["flagplot", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
        time.sleep(60)
        sys.exit("the requeue did not end this attempt")
print("done", flush=True)
PY

#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-5%2
#SBATCH --mem=64M
#SBATCH --time=5
#SBATCH --output=sweep-%A_%a.log
# One learning rate for each element, at most two at once.
rates=(0.001 0.003 0.01 0.03 0.1 0.3)
echo "element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: learning rate ${rates[$SLURM_ARRAY_TASK_ID]}"
sleep 0.5

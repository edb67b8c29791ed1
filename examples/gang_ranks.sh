#!/bin/bash
#SBATCH --job-name=gang
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --mem=64M
#SBATCH --time=5
#SBATCH --open-mode=append
#SBATCH --output=gang-%j.log
#FLAGPLOT --launch=tasks
# All four tasks run this script, two on each node, with their ranks in the environment as torchrun sets them.
echo "rank $RANK of $WORLD_SIZE, local rank $LOCAL_RANK, node $SLURMD_NODENAME, master $MASTER_ADDR"

#!/bin/bash
#SBATCH --job-name=notebook
#SBATCH --gres=shard:3
#SBATCH --mem=128M
#SBATCH --time=10
#SBATCH --output=shared-%j.log
# Three eighths of one GPU: enough for a notebook or a small model; others share the card.
echo "device ${CUDA_VISIBLE_DEVICES}, $FLAGPLOT_SHARDS shards, $FLAGPLOT_VRAM_MIB MiB of VRAM"
sleep 1

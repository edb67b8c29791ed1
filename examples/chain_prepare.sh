#!/bin/bash
#SBATCH --job-name=prepare
#SBATCH --mem=64M
#SBATCH --time=5
#SBATCH --output=chain-prepare.log
# First link of a chain:
#   first=$(flagplot submit --parsable chain_prepare.sh)
#   flagplot submit --dependency=afterok:$first chain_train.sh
seq 1 100 > chain-data.txt
echo "prepared $(wc -l < chain-data.txt) samples"

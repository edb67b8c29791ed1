#!/bin/bash
#SBATCH --job-name=chain-train
#SBATCH --mem=64M
#SBATCH --time=5
#SBATCH --output=chain-train.log
# Second link: starts only after chain_prepare.sh ended well, and needs the file that it wrote.
awk '{ sum += $1 } END { print "sum", sum }' chain-data.txt

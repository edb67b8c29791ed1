#!/bin/bash
#SBATCH --job-name=overrun
#SBATCH --mem=64M
#SBATCH --time=1
#SBATCH --output=overrun-%j.log
# Sleeps past its limit of one minute: ends as TIMEOUT, after a chance to save on SIGTERM.
trap 'echo "told to end, saving"; exit 3' TERM
echo "started"
sleep 600 &
wait

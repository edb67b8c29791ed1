#!/bin/bash
# Stands in for nvidia-cuda-mps-control: notes in mps.notes beside it what it is told, and by whom.
note() { echo "$1 $(id -u) $CUDA_VISIBLE_DEVICES ${CUDA_MPS_PIPE_DIRECTORY##*/}" >>"${0%/*}/mps.notes"; }
alive="$CUDA_MPS_PIPE_DIRECTORY/alive"
if [ "$1" = -d ]; then
  [ -e "${0%/*}/mps.broken" ] && { note broken; exit 1; }
  : >"$alive" && note start
  exit
fi
read -r command
if [ ! -e "$alive" ]; then
  echo "Cannot find MPS control daemon process"
  exit 1
fi
[ "$command" = quit ] && { note quit; rm "$alive"; }
exit 0

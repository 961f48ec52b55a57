#!/bin/bash
# on the login node: Dask's scheduler and client there, and its workers in jobs, as dask-jobqueue has them
dask-scheduler --scheduler-file jobqueue.json --no-dashboard &
scheduler=$!
for worker in 1 2; do
	sbatch --quiet --ntasks=1 --gres=nic:1 -w "node$worker" -o "worker.%j" --wrap "srun dask-worker --scheduler-file jobqueue.json --nthreads 1 --no-dashboard"
done

python3 ~/apps/dask-client.py jobqueue.json
status=$?

kill $scheduler
exit $status

#!/bin/bash
# A program reads how the node's network is tuned.
#SBATCH --job-name=sysctls
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label sysctl net.core.somaxconn net.ipv4.tcp_keepalive_time net.ipv4.tcp_mtu_probing net.ipv4.tcp_syncookies net.ipv4.ping_group_range net.unix.max_dgram_qlen

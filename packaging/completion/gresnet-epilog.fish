# fish completion for gresnet-epilog
complete -c gresnet-epilog -f
complete -c gresnet-epilog -n __fish_use_subcommand -l config -r -F -d 'Read the configuration from this file'
complete -c gresnet-epilog -n __fish_use_subcommand -l state -x -a '(__fish_complete_directories)' -d 'Keep leases and the node table in this folder'
complete -c gresnet-epilog -n __fish_use_subcommand -l trace -d 'Print each step and how long it took'
complete -c gresnet-epilog -n __fish_use_subcommand -l version -d 'Print the version'
complete -c gresnet-epilog -l help -d 'Show help'
complete -c gresnet-epilog -n __fish_use_subcommand -a sweep -d 'Give back the leases of jobs that are gone'
complete -c gresnet-epilog -n __fish_use_subcommand -a boot -d 'Ready the node before slurmd starts'
complete -c gresnet-epilog -n __fish_use_subcommand -a release -d 'Let jobs have a quarantined HCA again'
complete -c gresnet-epilog -n '__fish_seen_subcommand_from sweep' -l boot -d 'slurmd does not run yet'
complete -c gresnet-epilog -n '__fish_seen_subcommand_from sweep' -a '(ls /run/gresnet/jobs 2>/dev/null)'
complete -c gresnet-epilog -n '__fish_seen_subcommand_from release' -a '(ls /sys/class/infiniband 2>/dev/null)'

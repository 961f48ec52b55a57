# fish completion for gresnet-prolog
complete -c gresnet-prolog -f
complete -c gresnet-prolog -n __fish_use_subcommand -l config -r -F -d 'Read the configuration from this file'
complete -c gresnet-prolog -n __fish_use_subcommand -l state -x -a '(__fish_complete_directories)' -d 'Keep leases and the node table in this folder'
complete -c gresnet-prolog -n __fish_use_subcommand -l trace -d 'Print each step and how long it took'
complete -c gresnet-prolog -n __fish_use_subcommand -l version -d 'Print the version'
complete -c gresnet-prolog -l help -d 'Show help'
complete -c gresnet-prolog -n __fish_use_subcommand -a status -d "Show who holds the node's HCAs"
complete -c gresnet-prolog -n __fish_use_subcommand -a scan -d "Show the node's HCAs"
complete -c gresnet-prolog -n __fish_use_subcommand -a plan -d 'Show what would be done for a job'
complete -c gresnet-prolog -n __fish_use_subcommand -a check -d 'Find what would go wrong'
complete -c gresnet-prolog -n __fish_use_subcommand -a close -d "Close the HCAs' device nodes"
complete -c gresnet-prolog -n '__fish_seen_subcommand_from status scan plan check' -l json -d 'Print JSON'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from status' -a '(ls /run/gresnet/jobs 2>/dev/null)'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from scan' -l toml -d 'Print tables for gresnet.toml'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from scan' -l gres-conf -d 'Print lines for gres.conf'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from scan' -l gres-files -d 'Make the files that they name'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from scan' -l gres-dir -x -a '(__fish_complete_directories)' -d 'Have these files in this folder'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from plan' -l job -x -d 'For this job'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from plan' -l gres -x -d 'For a job that has this GRES'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from plan' -l gpus -x -d 'For a job that has these GPUs'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from check' -l quiet -d 'Print warnings and errors alone'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from check' -l role -x -a 'node login' -d 'Of the host'
complete -c gresnet-prolog -n '__fish_seen_subcommand_from check' -l fingerprint -d 'Print a line that is equal on nodes configured alike'
complete -c gresnet-prolog -n __fish_use_subcommand -a help -d 'Show help'
complete -c gresnet-prolog -n __fish_use_subcommand -a version -d 'Print the version'

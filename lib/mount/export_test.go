package mount

// ServersIn lets a test give a list of mounts.
var ServersIn = servers

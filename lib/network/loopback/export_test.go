package loopback

// Sockets reads the sockets of a folder that is like /proc.
var Sockets = sockets

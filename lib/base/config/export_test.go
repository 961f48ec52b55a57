package config

// ParseMatch parses words without a file around them.
var ParseMatch = parseMatch

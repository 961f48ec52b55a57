package config

// The tests parse words without a file around them.
var (
	ParseMatch    = parseMatch
	ParseTemplate = parseTemplate
)

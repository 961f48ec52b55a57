package check

// Arguments are those that the plugin knows.
func Arguments() []string { return arguments() }

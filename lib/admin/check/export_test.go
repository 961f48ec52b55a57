package check

// Arguments returns those that the plugin knows.
func Arguments() []string { return arguments() }

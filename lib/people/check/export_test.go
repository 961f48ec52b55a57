package check

// Arguments returns those that the plugin knows.
func Arguments() []string { return arguments() }

// What the relay takes to spare.
const (
	ConnectionsSpare = connectionsSpare
	DescriptorsSpare = descriptorsSpare
)

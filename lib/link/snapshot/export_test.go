package snapshot

// Asked returns how many route requests the connection has made.
func (c *Conn) Asked() int { return c.Route.Asked() }

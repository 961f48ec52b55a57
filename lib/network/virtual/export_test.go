package virtual

// NameOf returns the name that an uplink has.
func NameOf(u Uplink) (name string, err error) {
	i, err := u.find()
	if err != nil {
		return "", err
	}
	return i.Attrs().Name, nil
}

package step

import (
	"errors"

	"gresnet/lib/scan"
)

// Strays are the interfaces of hardware that are in the job's namespace, each
// as the step whose undo brings it home under the name that it has. They are
// for an unwinding that has brought home all that it knows of.
func Strays(w *World) (strays []*Link, err error) {
	err = w.inJob(func(v *scan.View) error {
		list, err := v.Link.List()
		for _, i := range list {
			hardware := i.ID.Kind == "" || i.ID.Kind == "ipoib"
			if hardware && i.Index != loopback {
				strays = append(strays, &Link{Interface: i.ID, Name: i.Name})
			}
		}
		return err
	})
	if errors.Is(err, errNoNamespace) {
		return nil, nil
	}
	return strays, err
}

package step

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/kernel/udev"
	"gresnet/lib/link"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
	"gresnet/lib/words/poll"
)

// Rebind gives a VF an address of the job's own. The VF's driver takes an address when it binds the
// VF, so Do and Undo have it bind the VF again: that makes the RDMA device and the interface anew, on
// the node, wherever they were. The notes of what this loses come before; Do comes before the moves,
// and so does Undo: it leaves the moves' undos little to do.
type Rebind struct {
	ID    node.ID       `json:"hca"`
	Name  netlink.Name  `json:"name"`            // of the RDMA device
	Index int           `json:"index,omitempty"` // that its interface had
	Had   sriov.Address `json:"had"`
	Want  sriov.Address `json:"want"`
	CM    []rdma.CM     `json:"cm,omitempty"` // RDMA-CM's settings for the RDMA device

	Access *Access `json:"-"` // closes the device nodes once more; the undo needs it not
}

func (*Rebind) Kind() string     { return "rebind" }
func (s *Rebind) Object() string { return string(s.Name) }
func (s *Rebind) HCA() node.ID   { return s.ID }

// Sets says which address the VF gets.
func (s *Rebind) Sets() string { return s.Want.String() }

// Do gives the VF the job's address.
func (s *Rebind) Do(w *world.World) error {
	held, err := s.lock(w)
	if err != nil {
		return err
	}
	defer held.Close()
	watch, err := udev.Open("/run")
	if err != nil {
		return err
	}
	defer watch.Close()
	vf, err := findVF(w, s.ID)
	if err != nil {
		return err
	}
	if err := s.bind(w, vf, s.Want, held); err != nil {
		return err
	}
	w.Notice("%s has %s for the job", s.Name, s.Want)
	if err := s.Access.Do(w); err != nil {
		return err
	}
	// The kernel gave it the lowest free name. Whose that is may be waiting for it.
	if err := s.rename(w); err != nil {
		return err
	}
	// udev gives names, and opens the device nodes that it makes.
	if err := w.AwaitUdev(watch); err != nil {
		return err
	}
	if err := s.Access.Do(w); err != nil {
		return err
	}
	return s.rename(w)
}

// Undo gives the VF the address, and its interface the index, that it had. A VF that its PF does not have
// any more has nothing to restore, nor has one that was offered to its driver and did not come: whether
// these are lost, the undos of the moves say.
func (s *Rebind) Undo(w *world.World) error {
	held, err := s.lock(w)
	if err != nil {
		return err
	}
	defer held.Close()
	vf, err := findVF(w, s.ID)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	has, err := vf.has(w, s.Had)
	if err != nil {
		return err
	}
	if has {
		// Perhaps the PF was told the job's already.
		if err := sriov.SetAddress(vf.pf, vf.number, s.Had); err != nil {
			return err
		}
		return s.restoreNames(w, vf)
	}
	if err := s.close(w); err != nil {
		return err
	}
	err = s.bind(w, vf, s.Had, held)
	if (errors.As(err, &absentError{}) || errors.Is(err, sriov.ErrNoDriver)) && w.IsLost(s.ID) {
		w.Notice("%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	return s.restoreNames(w, vf)
}

// restoreNames gives the VF's interface its index, and the RDMA device its name. If another device has
// that, the VF gets it when all are home: the node may have swapped the names of two.
func (s *Rebind) restoreNames(w *world.World, vf function) error {
	if err := s.giveIndex(w, vf); err != nil && !errors.Is(err, link.ErrNotFound) { // the link's undo says what is lost
		return fmt.Errorf("give the interface of %s its index again: %w", s.Name, err)
	}
	err := s.restoreName(w)
	if errors.Is(err, rdma.ErrNameTaken) {
		w.Leave(s, func() error { return s.rename(w) })
		return nil
	}
	return err
}

// giveIndex gives an interface that was made anew its index, by a move into the job's namespace and back:
// the kernel takes an index with a move alone. An IPoIB interface, which does not move, keeps what it has.
// So does another one if the job's namespace, which is made before and removed later, is gone.
func (s *Rebind) giveIndex(w *world.World, vf function) error {
	var moved link.ID
	err := w.OnHost(func(v *scan.View) error {
		i, err := vf.link(v)
		if err != nil || s.Index == 0 || i.Index == s.Index || i.ID.Kind == "ipoib" {
			return err
		}
		job, err := w.JobNS()
		if errors.Is(err, world.ErrNoNamespace) {
			w.Notice("the interface of %s keeps index %d, and had %d: the job's namespace is gone, by which it would get that", s.Name, i.Index, s.Index)
			return nil
		}
		if err != nil {
			return err
		}
		moved = i.ID
		err = v.Link.Move(i.Index, job.FD(), link.FreeName, false)
		if errors.Is(err, link.ErrNameTaken) { // an alternative name, which the settings have
			if err = v.Link.DropAltNames(i.Index); err == nil {
				err = v.Link.Move(i.Index, job.FD(), link.FreeName, false)
			}
		}
		return err
	})
	if err != nil || moved == (link.ID{}) {
		return err
	}
	home := &Link{Interface: moved, Name: link.FreeName, Index: s.Index}
	return w.InJob(func(v *scan.View) error { return home.fetch(w, v) })
}

// Verify gives the RDMA device its name once more, see RDMA.Verify.
func (s *Rebind) Verify(w *world.World) error {
	err := s.device().Verify(w)
	if errors.Is(err, scan.ErrNotFound) && w.IsLost(s.ID) {
		return nil // other steps say so
	}
	return err
}

// AtHome returns an error for a VF that is not on the node with its own address, unless it is gone.
func (s *Rebind) AtHome(w *world.World) error {
	held, err := s.lock(w)
	if err != nil {
		return err
	}
	defer held.Close()
	vf, err := findVF(w, s.ID)
	if isGone(err) {
		return nil
	}
	has := false
	if err == nil {
		has, err = vf.has(w, s.Had)
	}
	if err != nil || has {
		return err
	}
	if w.IsLost(s.ID) {
		return nil
	}
	return fmt.Errorf("%s does not have %s", s.Name, s.Had)
}

// isGone tells whether a VF is no more, by an error of its own files and its PF's. Errors of programs are not for it:
// one that is missing is fs.ErrNotExist, too.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, sriov.ErrNoVF) }

// lock takes the lock of the HCA's moves. Who bound the VF before and was killed has left a process
// behind that keeps the lock until the driver has answered.
func (s *Rebind) lock(w *world.World) (*lock.File, error) {
	return s.device().lockUntil(w, poll.MoveBy(w.Context))
}

// device is the step whose undo would bring the RDMA device home.
func (s *Rebind) device() *RDMA { return &RDMA{ID: s.ID, Name: s.Name, CM: s.CM} }

// close closes the lease's device nodes and ends the guard, while the nodes' numbers are the job's still:
// another job's VF may get them. Those of a lease that was set aside are gone; the guard is a later lease's of the job.
func (s *Rebind) close(w *world.World) error {
	if w.Dir.IsLost() {
		return nil
	}
	return hint.Join(w.CloseNodes(), Unguard(w, w.Job))
}

// function is a VF as its PF and the PCI bus know it.
type function struct {
	hca    node.ID
	pf     sriov.Link
	number int
	pci    string
}

// findVF finds a VF; isGone tells the error of one that its PF does not have any more.
func findVF(w *world.World, id node.ID) (vf function, err error) {
	at, err := sysfs.AddressOf(w.Sys, id)
	if err != nil {
		return function{}, err
	}
	vf = function{hca: id, pci: at.PCI}
	if vf.pf, err = sriov.FindLink(w.Sys, id.PCI); err != nil {
		return function{}, err
	}
	if vf.number, err = strconv.Atoi(id.VF); err != nil {
		return function{}, fmt.Errorf("read the number of VF %s: %w", id, err)
	}
	return vf, nil
}

// has tells whether a VF is on the node, bound with an address.
func (vf function) has(w *world.World, a sriov.Address) (is bool, err error) {
	err = w.OnHost(func(v *scan.View) error {
		d, err := v.Find(vf.hca)
		if err != nil {
			return err
		}
		if vf.pf.InfiniBand {
			now, err := sriov.ReadAddress(w.Sys, vf.pf, vf.number, d.Name)
			is = now == a
			return err
		}
		i, err := vf.link(v)
		is = i.BoundWith() == a.MAC
		return err
	})
	// udev may have renamed the RDMA device meanwhile.
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, link.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sriov.ErrNoAddress) {
		return false, nil
	}
	return is, err
}

// link returns the VF's interface, if it is on the node.
func (vf function) link(v *scan.View) (link.Interface, error) { return v.Link.OfFunction(vf.pci) }

// bind gives a VF an address, and waits until the VF is there again. Its interface gets a name that is
// nobody's: the kernel's may be that of an interface that is away.
func (s *Rebind) bind(w *world.World, vf function, a sriov.Address, held *lock.File) error {
	deadline := poll.MoveBy(w.Context)
	if err := sriov.SetAddress(vf.pf, vf.number, a); err != nil {
		return err
	}
	if err := sriov.PCI.Rebind(vf.pci, deadline, held.File); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(w.Context, deadline)
	defer cancel()
	var missing string
	is, err := (&poll.Budget{Context: ctx}).Until(poll.Driver, func() (_ bool, err error) {
		if missing, err = sriov.Missing(w.Sys, s.ID.PCI, vf.number); err != nil {
			return false, fmt.Errorf("bind %s again: %w", s.Name, err)
		}
		if missing != "" {
			return false, nil
		}
		return vf.has(w, a)
	})
	switch {
	case err != nil:
		return err
	case is:
		return w.OnHost(func(v *scan.View) error {
			i, err := vf.link(v)
			if err != nil {
				return err
			}
			return v.Link.Park(i)
		})
	case missing != "":
		err := fmt.Errorf("bind %s again: waited in vain for %s", s.Name, missing)
		return absentError{hint.With(err, "GN363 see in journalctl -k what the VF's driver did not like")}
	}
	return hint.With(fmt.Errorf("bind %s again: its driver does not take %s", s.Name, a), "GN364 leave address out of vf in [[hca]] and [[policy]]")
}

// absentError says what a VF's drivers have not made.
type absentError struct{ error }

func (e absentError) Unwrap() error { return e.error }

// rename gives the RDMA device its name, and RDMA-CM its settings for it. Another job's VF may have the
// name for the moment in which its driver binds it.
func (s *Rebind) rename(w *world.World) error {
	return w.Try(poll.DeviceName, rdma.ErrNameTaken, func() error { return s.restoreName(w) })
}

func (s *Rebind) restoreName(w *world.World) error {
	err := w.OnHost(func(v *scan.View) error { return s.device().restoreName(v, (*scan.View).Locate) })
	if err != nil {
		return err
	}
	return w.ApplyCM(string(s.Name), s.CM)
}

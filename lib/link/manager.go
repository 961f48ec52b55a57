package link

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"gresnet/lib/kernel/proc"
)

// Managers are programs that configure network interfaces by themselves: they
// see an interface go and come, and give one that came what their own files say.
const (
	Networkd       = "systemd-networkd"
	NetworkManager = "NetworkManager"
)

// Manager is what the program that manages an interface says of it.
type Manager struct {
	Name       string // empty if none has the interface
	Configured bool   // it has given the interface all that it has to give
	Said       time.Time
}

// ManagerOf reads what the managers of the node say of the interface with an
// index of the root namespace; run is the node's /run. What cannot be understood
// is no manager: the files are their writers' own, without a promise.
func ManagerOf(run fs.FS, index int) (Manager, error) {
	for _, m := range []struct {
		dir  string
		read func(run fs.FS, text string) (Manager, error)
	}{
		{"systemd/netif/links", readNetworkd},
		{"NetworkManager/devices", readNetworkManager},
	} {
		text, said, err := readSaid(run, fmt.Sprintf("%s/%d", m.dir, index))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var state Manager
		if err == nil {
			state, err = m.read(run, text)
		}
		if err != nil {
			return Manager{}, fmt.Errorf("read who manages interface %d: %w", index, err)
		}
		if state.Name != "" {
			state.Said = said
			return state, nil
		}
	}
	return Manager{}, nil
}

func readSaid(run fs.FS, name string) (text string, said time.Time, err error) {
	f, err := run.Open(name)
	if err != nil {
		return "", time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	b, err := io.ReadAll(f)
	return string(b), info.ModTime(), err
}

// readNetworkd reads what networkd-state-file.c:link_save wrote. The states are
// those of networkd-link.c:link_state_table less "unmanaged" and "linger".
func readNetworkd(_ fs.FS, text string) (Manager, error) {
	switch state := valueIn(text, "", "ADMIN_STATE"); state {
	case "pending", "initialized", "configuring", "configured", "failed":
		return Manager{Name: Networkd, Configured: state == "configured"}, nil
	}
	return Manager{}, nil
}

// readNetworkManager reads what nm-config.c:nm_config_device_state_write wrote
// when a device became active, inactive or unmanaged
// (nm-manager.c:manager_device_state_changed): it has a connection if active.
func readNetworkManager(run fs.FS, text string) (Manager, error) {
	if valueIn(text, "device", "managed") != "true" {
		return Manager{}, nil
	}
	connection := valueIn(text, "device", "connection-uuid")
	if external, err := isExternal(run, connection); external || err != nil {
		return Manager{}, err
	}
	return Manager{Name: NetworkManager, Configured: connection != ""}, nil
}

// isExternal tells whether NetworkManager only describes by a connection what others have given an interface
// ("connected (externally)"): it gives the interface nothing when that comes back.
func isExternal(run fs.FS, connection string) (bool, error) {
	files, err := fs.Glob(run, "NetworkManager/system-connections/*.nmconnection")
	if err != nil || connection == "" {
		return false, err
	}
	for _, name := range files {
		text, err := fs.ReadFile(run, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just removed it
		}
		if err != nil {
			return false, err
		}
		if valueIn(string(text), "connection", "uuid") == connection {
			return valueIn(string(text), ".nmmeta", "external") == "true", nil
		}
	}
	return false, nil
}

// valueIn returns what a key is given in a section of a file of KEY=VALUE lines; empty
// if it is given nothing, or twice.
func valueIn(text, section, key string) (found string) {
	in := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			in = line[1 : len(line)-1]
			continue
		}
		k, v, _ := strings.Cut(line, "=")
		if in != section || k != key {
			continue
		}
		if found != "" {
			return ""
		}
		found = v
	}
	return found
}

// After tells whether the manager said it after a time since boot, such as that at which an interface
// left. If the clock was set meanwhile it may deny it.
func (m Manager) After(taken time.Duration) bool {
	return m.Said.After(time.Now().Add(taken - proc.SinceBoot()))
}

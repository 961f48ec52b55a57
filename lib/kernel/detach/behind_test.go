package detach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/await"
)

// The programs that the tests below run are this one: GRESNET_TEST_BEHIND names a pipe, at whose end the run behind ends.
func init() {
	fifo := os.Getenv("GRESNET_TEST_BEHIND")
	if fifo == "" {
		return
	}
	if !slices.Contains(os.Args, "--behind") {
		if err := Behind("--behind"); err != nil {
			fmt.Println("in front:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	back := Back()
	fmt.Println("said in front")
	if slices.Contains(os.Args, "--fail") {
		os.Exit(2)
	}
	if err := back(); err != nil {
		os.Exit(4)
	}
	fmt.Println("said behind")
	session, _ := unix.Getsid(0)
	text, err := os.ReadFile(fifo)
	if err == nil && session == os.Getpid() {
		err = os.WriteFile(fifo+".done", text, 0o600)
	}
	if err != nil {
		os.Exit(5)
	}
	os.Exit(0)
}

func behind(t *testing.T, args ...string) (fifo, said string, err error) {
	t.Helper()
	fifo = filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "GRESNET_TEST_BEHIND="+fifo)
	out, err := cmd.CombinedOutput() // until all who have its output have let go of it, as slurmd waits
	return fifo, string(out), err
}

func TestARunGoesOnBehindWhenSlurmdsHasEndedAndItsPipesAreClosed(t *testing.T) {
	fifo, said, err := behind(t)
	if err != nil || said != "said in front\n" {
		t.Fatalf("%v: %s", err, said)
	}
	if _, err := os.Stat(fifo + ".done"); err == nil {
		t.Fatal("it has not gone on behind: it has ended")
	}
	var in *os.File
	await.Until(t, "it reads its pipe", func() (reads bool) {
		in, err = os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0)
		return err == nil
	})
	if _, err := in.WriteString("go on"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	await.Until(t, "it goes on", func() bool {
		text, _ := os.ReadFile(fifo + ".done")
		return string(text) == "go on"
	})
}

func TestARunThatFailsBeforeItGoesBehindFailsInFront(t *testing.T) {
	_, said, err := behind(t, "--fail")
	if err == nil || !strings.HasPrefix(said, "said in front\nin front: exit status 2") {
		t.Errorf("%v: %s", err, said)
	}
}

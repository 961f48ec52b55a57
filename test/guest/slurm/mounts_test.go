package slurm

import (
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// hasImage gives alice an image with a file in it, and folders to mount it at.
func hasImage(t *testing.T) {
	t.Helper()
	vm.Run(t, `
modprobe fuse
chmod 666 /dev/fuse
rm -rf /tmp/tree; mkdir /tmp/tree; echo of the image >/tmp/tree/file
install -d -o alice -g alice /home/alice/fuse /home/alice/fuse/script /home/alice/fuse/step /home/alice/fuse/node
mksquashfs /tmp/tree /home/alice/fuse/image >/dev/null
rm -rf /tmp/tree
`)
	t.Cleanup(func() { vm.Run(t, "rm -rf /home/alice/fuse") })
}

func isThere(t *testing.T, path string) {
	t.Helper()
	vm.Eventually(t, path+" is there", func() bool { _, err := os.Stat(path); return err == nil })
}

// mountsAreTheJobs has a batch script and a step mount an image, and other tasks look for it.
func mountsAreTheJobs(t *testing.T) {
	const (
		image  = "of the image\n"
		script = "cd /home/alice/fuse; squashfuse image script; touch ready; until [ -e look ]; do sleep 0.1; done; cat step/file >found; mv found seen; sleep 1000"
		step   = "cd /home/alice/fuse; squashfuse image step; touch look; sleep 1000"
		look   = "cat /home/alice/fuse/script/file /home/alice/fuse/step/file"
	)
	vm.Slurm(t)
	hasImage(t)
	before := vm.Picture(t)
	vm.PluginArguments(t, "batch")
	vm.Run(t, "mount -t tmpfs node /home/alice/fuse/node; mount --make-shared /home/alice/fuse/node; mkdir /home/alice/fuse/node/later")
	t.Cleanup(func() { vm.Try("umount -R /home/alice/fuse/node") })

	job := vm.Submit(t, "alice", "--gres=nic:1", script)
	in := "srun --jobid=" + job + " --overlap "
	isThere(t, "/home/alice/fuse/ready")
	if out := vm.As(t, "alice", in+"cat /home/alice/fuse/script/file"); out != image {
		t.Errorf("a step finds %q where the script has mounted", out)
	}
	vm.As(t, "alice", "setsid "+in+"bash -c "+vm.Quote(step)+" >/dev/null 2>&1 &")
	isThere(t, "/home/alice/fuse/seen")
	if out := vm.Run(t, "cat /home/alice/fuse/seen"); out != image {
		t.Errorf("the script finds %q where a step has mounted", out)
	}
	if out := vm.As(t, "alice", in+"bash -c "+vm.Quote(look)); out != image+image {
		t.Errorf("a second step finds %q where the script and the first have mounted", out)
	}
	// Who enters another's mount namespace is in its root directory.
	if out := vm.As(t, "alice", in+"-D /home/alice/fuse bash -c 'pwd; ls | xargs'"); !strings.HasPrefix(out, "/home/alice/fuse\nimage ") {
		t.Errorf("a step in another folder is in %q", out)
	}
	if out, err := vm.Try("cat /home/alice/fuse/script/file || cat /home/alice/fuse/step/file || grep squashfuse /proc/self/mountinfo"); err == nil {
		t.Errorf("the node finds %q", out)
	}
	if out, err := vm.TryAs("alice", "srun --gres=nic:1 bash -c "+vm.Quote(look)+" 2>/dev/null"); err == nil {
		t.Errorf("another job finds %q", out)
	}
	vm.Run(t, "mount -t tmpfs later /home/alice/fuse/node/later; echo of the node >/home/alice/fuse/node/later/file")
	out := strings.TrimSpace(vm.As(t, "alice", in+"cat /home/alice/fuse/node/later/file || true"))
	if late := out == "of the node"; late == strings.Contains(vm.Run(t, "cat /etc/slurm/slurm.conf"), "job_container") {
		t.Errorf("what the node mounts later is %q in a step", out)
	}
	vm.Run(t, "umount -R /home/alice/fuse/node")
	vm.Cancel(t, job)
	vm.Eventually(t, "the node is idle", func() bool { return nodeState(t) == "idle" })
	vm.Same(t, before)
}

func TestWhatATaskMountsTheJobsOtherTasksSeeAndTheNodeDoesNot(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	mountsAreTheJobs(t)
}

func TestWhatATaskMountsInAJobContainerTheJobsOtherTasksSee(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	vm.Run(t, "printf 'AutoBasePath=true\nBasePath=/var/containers\n' >/etc/slurm/job_container.conf")
	vm.RestartSlurm(t, "--conf JobContainerType=job_container/tmpfs")
	t.Cleanup(func() {
		vm.Run(t, "rm /etc/slurm/job_container.conf")
		vm.RestartSlurm(t)
	})
	mountsAreTheJobs(t)
}

func TestWhatATaskMountsInTheNodesNetworkTheJobsOtherTasksSee(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.WithConfig(t, "[[policy]]\nisolation = \"devices\"\n")
	mountsAreTheJobs(t)
}

// holder takes the file system's end that has to answer, begins, and never answers again.
const holder = `
import array, os, signal, socket, struct
at = socket.socket(socket.AF_UNIX)
at.bind("/home/alice/fuse/socket")
at.listen(1)
open("/home/alice/fuse/ready", "w")
_, passed, _, _ = at.accept()[0].recvmsg(1, socket.CMSG_SPACE(4))
fuse = array.array("i", passed[0][2])[0]
unique = struct.unpack("<IIQ", os.read(fuse, 1 << 17)[:16])[2]
os.write(fuse, struct.pack("<IiQIIIIHHIIHHI7I", 80, 0, unique, 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0, 0, *[0] * 7))
open("/home/alice/fuse/held", "w")
signal.pause()
`

// mounter mounts a file system and gives it away, as libfuse has fusermount3 give it to a server.
const mounter = `
import os, socket
to = socket.socket(socket.AF_UNIX)
to.connect("/home/alice/fuse/socket")
to.set_inheritable(True)
os.environ["_FUSE_COMMFD"] = str(to.fileno())
os.execvp("fusermount3", ["fusermount3", "--", "/home/alice/fuse/step"])
`

// No process of the job has to do with such a server: Slurm does not end it.
func TestAFileSystemWhoseServerDoesNotAnswerHoldsUpNoEpilog(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	hasImage(t)
	before := vm.Picture(t)
	for name, text := range map[string]string{"holder": holder, "mounter": mounter} {
		if err := os.WriteFile("/home/alice/fuse/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	vm.Run(t, "setsid runuser -u alice -- python3 /home/alice/fuse/holder >/home/alice/fuse/said 2>&1 & echo $! >/run/holder")
	t.Cleanup(func() { vm.Run(t, "kill $(cat /run/holder); rm /run/holder") })
	isThere(t, "/home/alice/fuse/ready")
	job := vm.Submit(t, "alice", "--gres=nic:1", "srun bash -c 'cd /home/alice/fuse; python3 mounter; until [ -e held ]; do sleep 0.1; done; touch asks; ls step'")
	isThere(t, "/home/alice/fuse/asks")
	vm.Eventually(t, "a process of the job waits for the server", func() bool {
		out, _ := vm.Try("cat /proc/$(pgrep -u alice -xf 'ls step')/wchan")
		return strings.Contains(out, "request_wait_answer") || strings.Contains(out, "fuse")
	})
	vm.Cancel(t, job)
	vm.Eventually(t, "the node is idle", func() bool { return nodeState(t) == "idle" })
	vm.Same(t, before)
}

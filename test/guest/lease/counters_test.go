package lease

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const (
	countedJob = "SLURM_JOB_ID=900095 SLURM_JOB_GPUS=0"
	countedIn  = "/run/gresnet/jobs/900095/netns"
	jobsFile   = "/var/lib/gresnet-counters/jobs.jsonl"
	countFile  = "/var/lib/gresnet-counters/gresnet.prom"
)

// accounting has gresnet.toml name files for a job's lines and for metrics, in a folder of the test's.
func accounting(t *testing.T) (hca string) {
	t.Helper()
	hca = withOperation(t, "[accounting]\nfile = \""+jobsFile+"\"\n[metrics]\nfile = \""+countFile+"\"\n")[0]
	vm.Run(t, "install -d -m 700 $(dirname "+jobsFile+")")
	t.Cleanup(func() { vm.Run(t, "rm -r $(dirname "+jobsFile+")") })
	return hca
}

// counted returns what a stub has counted: bytes and packets. within is where it is.
func counted(t *testing.T, within, hca string) (bytes, packets int) {
	t.Helper()
	out := vm.Run(t, within+"unshare -m sh -c 'mount -t sysfs none /sys; cd /sys/class/infiniband/"+hca+"/ports/1; cat hw_counters/sent_bytes hw_counters/sent_packets'")
	both := strings.Fields(out)
	return vm.Atoi(both[0]), vm.Atoi(both[1])
}

// jobs asks the file of lines by jq.
func jobs(t *testing.T, query string) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, "jq -r "+vm.Quote(query)+" "+jobsFile))
}

func TestAJobsLineHasWhatItsHCACountedFromArrivalToDeparture(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	hca := accounting(t)
	before := vm.Picture(t)
	lid := strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+hca+"/ports/1/lid"))
	within := ""
	if vm.IsExclusive(t) {
		within = "nsenter --net=" + countedIn + " "
	}
	const sent = 40
	var total [2]int
	for run := range 2 {
		b0, p0 := counted(t, "", hca)
		vm.Must(t, "prolog", countedJob)
		b1, p1 := counted(t, within, hca)
		node := strings.TrimSpace(vm.Run(t, "grep -lx "+hca+" /sys/class/infiniband_mad/umad*/ibdev | cut -d / -f 5"))
		vm.Run(t, within+"python3 -c "+vm.Quote(sendMADs)+" /dev/infiniband/"+node+" "+lid+" "+strconv.Itoa(sent))
		b2, p2 := counted(t, within, hca)
		vm.Must(t, "epilog", countedJob)
		b3, p3 := counted(t, "", hca)
		t.Logf("bytes %d %d %d %d, packets %d %d %d %d", b0, b1, b2, b3, p0, p1, p2, p3)
		line := fmt.Sprintf("%d: ", run) + vm.Run(t, "tail -n 1 "+jobsFile)
		t.Log(line)
		if n := jobs(t, "select(.job == 900095 and .version == 1 and .hcas[0].name == \""+hca+"\") | .job"); n != strings.TrimSpace(strings.Repeat("900095\n", run+1)) {
			t.Fatalf("jq finds the lines %q", n)
		}
		last := func(key string) int {
			return vm.Atoi(vm.Run(t, "tail -n 1 "+jobsFile+" | jq '.hcas[0].ports[0]."+key+"'"))
		}
		for key, bounds := range map[string][2]int{
			// The kernel itself sends while the HCA moves, and between two of our looks.
			"sent_bytes":               {b2 - b1, b3 - b0 + 4},
			"sent_packets":             {p2 - p1, p3 - p0},
			"hw_counters.sent_bytes":   {b2 - b1, b3 - b0},
			"hw_counters.sent_packets": {p2 - p1, p3 - p0},
		} {
			if is := last(key); is < bounds[0] || is > bounds[1] || is < sent {
				t.Errorf("%s is %d, wanted %d to %d", key, is, bounds[0], bounds[1])
			}
		}
		total[0] += last("sent_bytes")
		total[1] += last("sent_packets")
		for i, name := range []string{"gresnet_job_sent_bytes_total", "gresnet_job_sent_packets_total"} {
			series := fmt.Sprintf("%s{device=%q,port=\"1\"} %d", name, hca, total[i])
			if out := vm.Run(t, "grep "+name+" "+countFile); !strings.Contains(out, series+"\n") {
				t.Errorf("the metrics lack %s:\n%s", series, out)
			}
		}
	}
	vm.Same(t, before)
}

func TestNoEpilogFailsForALineThatCannotBeWritten(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	accounting(t)
	before := vm.Picture(t)
	vm.Run(t, "chmod 777 $(dirname "+jobsFile+")")
	vm.Must(t, "prolog", countedJob)
	vm.Must(t, "epilog", countedJob)
	if out, err := vm.Try("cat " + jobsFile); err == nil {
		t.Errorf("there is a line: %s", out)
	}
	vm.Same(t, before)
}

// running returns what `gresnet metrics` says of a counter of the job's HCA, by the job's labels.
func running(t *testing.T, counter, hca string) int {
	t.Helper()
	out, code := vm.Command(t, "gresnet metrics")
	m := regexp.MustCompile(`(?m)^gresnet_running_job_` + counter + `\{jobid="900095",user="alice",device="` + hca + `",port="1"[^}]*\} ([0-9]+)$`).FindStringSubmatch(out)
	if code != 0 || m == nil {
		t.Fatalf("exit %d: it says nothing of %s of %s:\n%s", code, counter, hca, out)
	}
	return vm.Atoi(m[1])
}

func TestWhatAJobsHCACountsIsReadWhileTheJobRuns(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	hca := accounting(t)
	before := vm.Picture(t)
	lid := strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+hca+"/ports/1/lid"))
	within := ""
	if vm.IsExclusive(t) {
		within = "nsenter --net=" + countedIn + " "
	}
	_, p0 := counted(t, "", hca)
	vm.Must(t, "prolog", countedJob)
	node := strings.TrimSpace(vm.Run(t, "grep -lx "+hca+" /sys/class/infiniband_mad/umad*/ibdev | cut -d / -f 5"))
	last := 0
	for _, sent := range []int{40, 3} {
		_, p1 := counted(t, within, hca)
		vm.Run(t, within+"python3 -c "+vm.Quote(sendMADs)+" /dev/infiniband/"+node+" "+lid+" "+strconv.Itoa(sent))
		is := running(t, "sent_packets_total", hca)
		_, p2 := counted(t, within, hca)
		// The kernel itself sends, too.
		if is < last+sent || is < p1-p0+sent-10 || is > p2-p0 {
			t.Errorf("the job has sent %d packets, wanted %d to %d", is, last+sent, p2-p0)
		}
		last = is
	}
	if hardware := running(t, "hardware_total", hca); hardware < last {
		t.Errorf("hw_counters/sent_bytes is %d", hardware)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet metrics --write")
	const file = "/var/lib/gresnet-counters/gresnet-running.prom"
	if out := vm.Run(t, "stat -c %a "+file+"; cat "+file); !strings.HasPrefix(out, "644\n# HELP") || !strings.Contains(out, `sent_bytes_total{jobid="900095"`) {
		t.Errorf("%s is\n%s", file, out)
	}
	vm.Must(t, "epilog", countedJob)
	if out, code := vm.Command(t, "gresnet metrics"); code != 0 || strings.Contains(out, "900095") {
		t.Errorf("after the job: exit %d\n%s", code, out)
	}
	vm.Same(t, before)
}

// A look that stands still in the job's namespace, for as long as the test likes.
func TestAnEpilogDoesNotFailWhileALookIsInItsJob(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	hca := accounting(t)
	before := vm.Picture(t)
	stopped := "for p in $(pgrep -x gresnet); do for s in /proc/$p/task/*; do [ $(readlink $s/ns/net) = net:[$(stat -c %i " + countedIn + ")] ] && echo $p; done; done; true"
	for range 3 {
		vm.Must(t, "prolog", countedJob)
		// In shared mode no look has to go there: the HCA is on the node.
		if vm.IsExclusive(t) {
			running := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsopen", "-e", "inject=fsopen:signal=STOP", vm.Repo()+"/bin/gresnet", "metrics")
			var out strings.Builder
			running.Stdout, running.Stderr = &out, &out
			if err := running.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { vm.Try("pkill -KILL -x gresnet") })
			pid := ""
			vm.Eventually(t, "a look is in the job", func() bool {
				pid = strings.TrimSpace(vm.Run(t, stopped))
				return pid != ""
			})
			vm.Must(t, "epilog", countedJob)
			vm.Same(t, before)
			ended := make(chan error, 1)
			go func() { ended <- running.Wait() }()
			// On a slow machine it may be about to stop only now.
			vm.Eventually(t, "the look, whose job has ended, ends", func() bool {
				vm.Try("kill -CONT " + pid)
				return len(ended) > 0
			})
			if err := <-ended; err != nil {
				t.Errorf("the look, whose job has ended: %v\n%s", err, out.String())
			}
			continue
		}
		looks := exec.Command("sh", "-c", "while :; do "+vm.Repo()+"/bin/gresnet metrics || exit; done")
		if err := looks.Start(); err != nil {
			t.Fatal(err)
		}
		vm.Must(t, "epilog", countedJob)
		looks.Process.Kill()
		looks.Wait()
		vm.Same(t, before)
	}
	if all := vm.HCAs(t); !slices.Contains(all, hca) {
		t.Errorf("%s is not back: %v", hca, all)
	}
}

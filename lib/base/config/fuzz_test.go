package config_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
)

var place = regexp.MustCompile(`^f:([0-9]+): `)

func FuzzConfig(f *testing.F) {
	f.Add(whole)
	f.Add("")
	f.Add("[slurm]\ngress = 1\n")
	f.Add("hca = [{index = 0, match = \"rdma=mlx5_0\"}]\nslurm.timeout = '''1s'''")
	f.Add("[[hca]]\nindex = 0\nmatch = \"pci=100000:01:00.0\"\n[hca.x]\n\"a.b\".c = \"\"\"\"\"\"\n")
	f.Add("[[hca]]\nindex = 4\npart = \"vf\"\ncount = 3\nmatch = \"pci=3b:00.0\"\ngpus = [2, 0]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse([]byte(text), "f")
		if err != nil {
			m := place.FindStringSubmatch(err.Error())
			if m == nil {
				t.Fatalf("%q: error without a place: %v", text, err)
			}
			if line, _ := strconv.Atoi(m[1]); line < 1 || line > strings.Count(text, "\n")+1 {
				t.Errorf("%q: error on a line that is not there: %v", text, err)
			}
			var hinted interface{ Hint() string }
			if !errors.As(err, &hinted) || hinted.Hint() == "" {
				t.Errorf("%q: error without a hint: %v", text, err)
			}
			return
		}
		checkBounds(t, c)
	})
}

// checkBounds holds a configuration to what the other packages rely on.
func checkBounds(t *testing.T, c config.Config) {
	if len(c.Slurm.Gres) == 0 || len(c.Slurm.Source) == 0 {
		t.Errorf("empty lists: %+v", c.Slurm)
	}
	if c.Slurm.Timeout < 100*time.Millisecond || c.Slurm.Timeout > time.Minute {
		t.Errorf("timeout %s", c.Slurm.Timeout)
	}
	numbers := map[string]bool{}
	for _, h := range c.HCAs {
		for part := range h.Parts() {
			number := h.Gres + " " + strconv.Itoa(h.Index+part)
			if numbers[number] || h.Index < 0 || h.Index+part > 4095 || !slices.Contains(c.Slurm.Gres, h.Gres) {
				t.Errorf("entry %+v of %+v", h, c)
			}
			numbers[number] = true
		}
		if m, err := config.ParseMatch(h.Match.String()); err != nil || m != h.Match {
			t.Errorf("match %q parses as %q, %v", h.Match, m, err)
		}
		if alone := h.Part == "" || h.Count == 1; alone && !slices.IsSorted(h.GPUs) || !alone && len(h.GPUs) > h.Parts() {
			t.Errorf("gpus %v", h.GPUs)
		}
	}
}

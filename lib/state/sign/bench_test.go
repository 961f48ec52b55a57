package sign_test

import (
	"os"
	"testing"
	"time"

	"gresnet/lib/state"
	"gresnet/lib/state/sign"
)

// BenchmarkASign is what a sign costs a prolog of a job without HCAs.
func BenchmarkASign(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "sign")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := state.Dir(dir)
	for b.Loop() {
		sign.Begin(d, 4711)
		if err := sign.Expect(d, []string{"nic", "gpu"}, time.Now()); err != nil {
			b.Fatal(err)
		}
		if err := sign.End(d, sign.Sign{Job: 4711, Caller: sign.Caller{Slurmd: true}}); err != nil {
			b.Fatal(err)
		}
	}
}

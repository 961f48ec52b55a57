package metrics_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gresnet/lib/admin/metrics"
)

// counted returns a page on which much has happened.
func counted(t testing.TB, seed uint64) *metrics.Page {
	t.Helper()
	return fill(t, metrics.New(), seed)
}

func fill(t testing.TB, p *metrics.Page, seed uint64) *metrics.Page {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		families := p.Families()
		f := families[r.IntN(len(families))]
		var labels []string
		for _, l := range f.Labels {
			values := l.Values
			if values == nil {
				values = []string{"mlx5_0", "mlx5_10", "mlx5_9", "1", "2"}
			}
			labels = append(labels, values[r.IntN(len(values))])
		}
		var err error
		switch f.Kind {
		case metrics.Counter:
			err = p.Add(f.Name, float64(r.IntN(5)), labels...)
		case metrics.Gauge:
			err = p.Set(f.Name, float64(r.IntN(9)), labels...)
		case metrics.Histogram:
			err = p.Observe(f.Name, r.ExpFloat64()*10, labels...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	for seed := range uint64(50) {
		text := counted(t, seed).Text()
		p, err := metrics.Parse(text)
		if err != nil || !bytes.Equal(p.Text(), text) {
			t.Fatalf("%v: got\n%s\nwant\n%s", err, p.Text(), text)
		}
	}
}

func TestPrometheusReadsWhatIsWritten(t *testing.T) {
	for name, text := range map[string][]byte{
		"new": metrics.New().Text(), "counted": counted(t, 1).Text(),
		"of no job": metrics.NewRunning().Text(), "of jobs that run": fill(t, metrics.NewRunning(), 1).Text(),
	} {
		for _, problem := range lint(string(text)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func TestTheLintFindsWhatPrometheusWouldNotRead(t *testing.T) {
	good := string(counted(t, 1).Text())
	for name, text := range map[string]string{
		"no help":          strings.Replace(good, "# HELP gresnet_leases Leases", "# Help gresnet_leases Leases", 1),
		"a line twice":     strings.Replace(good, "gresnet_quarantines_total ", "gresnet_quarantines_total 7\ngresnet_quarantines_total ", 1),
		"no value":         good + "gresnet_cleaned_up_leases_total many\n",
		"no end":           strings.TrimSuffix(good, "\n"),
		"a broken label":   strings.Replace(good, `mode="shared"`, `mode=shared`, 1),
		"a bucket of less": strings.Replace(good, `gresnet_run_seconds_bucket{program="cleanup",le="0.01"} `, `gresnet_run_seconds_bucket{program="cleanup",le="0.01"} 9`, 1),
		"another count":    strings.Replace(good, `gresnet_run_seconds_count{program="cleanup"} `, `gresnet_run_seconds_count{program="cleanup"} 9`, 1),
	} {
		if text == good || len(lint(text)) == 0 {
			t.Errorf("%s: the lint has nothing to say", name)
		}
	}
}

func TestWhatIsNotOursToTheByteIsDamaged(t *testing.T) {
	p := metrics.New()
	for range 3 {
		if err := p.Observe(metrics.RunSeconds, 0.3, "prolog"); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range []string{"mlx5_2", "mlx5_1"} {
		if err := p.Add(metrics.SentBytes, 3, device, "1"); err != nil {
			t.Fatal(err)
		}
	}
	const port = `gresnet_job_sent_bytes_total{device="mlx5_1",port="1"} 3` + "\n"
	good := string(p.Text())
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the page has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct{ text, why string }{
		"empty":                  {"", "it is cut off"},
		"cut off":                {good[:len(good)/2], "it is cut off"},
		"cut off by one":         {good[:len(good)-1], "it is cut off"},
		"a line more":            {good + "node_load1 0.5\n", "it goes on after line"},
		"another line":           {replace("gresnet_cleaned_up_leases_total 0", "gresnet_swabbed_leases_total 0"), "is not of gresnet_cleaned_up_leases_total"},
		"ports not in order":     {replace(port, strings.Replace(port, "mlx5_1", "mlx5_3", 1)), "is not in its place"},
		"a port twice":           {replace(port, port+port), "is not in its place"},
		"a port of no name":      {replace(port, strings.Replace(port, "mlx5_1", "", 1)), "it is not of gresnet_job_sent_bytes_total"},
		"a port with a quote":    {replace(port, strings.Replace(port, `port="1"`, `port="1`, 1)), "it is not of gresnet_job_sent_bytes_total"},
		"a port of other labels": {replace(port, strings.Replace(port, "device", "hca", 1)), "it is not of gresnet_job_sent_bytes_total"},
		"half a byte":            {replace(port, strings.Replace(port, " 3\n", " 3.5\n", 1)), "not a whole number"},
		"another help":           {replace("Leases of jobs", "Jobs with leases"), "is not of # HELP gresnet_leases"},
		"a longer comment":       {replace("# TYPE gresnet_leases gauge", "# TYPE gresnet_leases gauge!"), "is not of # TYPE gresnet_leases"},
		"no value":               {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total "), `"" is not a value`},
		"words":                  {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total none"), `"none" is not a value`},
		"negative":               {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total -1"), `"-1" is not a value`},
		"not a number":           {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total NaN"), `"NaN" is not a value`},
		"infinite":               {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total +Inf"), `"+Inf" is not a value`},
		"too large":              {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total 10000000000000000"), "is not a value"},
		"in another form":        {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total 1e2"), `"1e2" is not a value`},
		"half a run":             {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total 0.5"), "not a whole number"},
		"a time stamp":           {replace("gresnet_cleaned_up_leases_total 0", "gresnet_cleaned_up_leases_total 0 1700000000"), "is not a value"},
		"fewer in all": {replace(`gresnet_run_seconds_bucket{program="prolog",le="60"} 3`, `gresnet_run_seconds_bucket{program="prolog",le="60"} 2`),
			"fewer than a smaller bucket"},
		"another count": {replace(`gresnet_run_seconds_count{program="prolog"} 3`, `gresnet_run_seconds_count{program="prolog"} 4`),
			"is not the number of all values"},
	} {
		if _, err := metrics.Parse([]byte(c.text)); !errors.Is(err, metrics.ErrDamaged) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %v, wanted %q", name, err, c.why)
		}
	}
}

func TestAValueIsInEachBucketThatHasRoomForIt(t *testing.T) {
	p := metrics.New()
	for _, seconds := range []float64{0.01, 0.3, 500} {
		if err := p.Observe(metrics.RunSeconds, seconds, "epilog"); err != nil {
			t.Fatal(err)
		}
	}
	text := string(p.Text())
	for _, line := range []string{
		`gresnet_run_seconds_bucket{program="epilog",le="0.01"} 1`,
		`gresnet_run_seconds_bucket{program="epilog",le="0.25"} 1`,
		`gresnet_run_seconds_bucket{program="epilog",le="0.5"} 2`,
		`gresnet_run_seconds_bucket{program="epilog",le="120"} 2`,
		`gresnet_run_seconds_bucket{program="epilog",le="+Inf"} 3`,
		`gresnet_run_seconds_sum{program="epilog"} 500.31`,
		`gresnet_run_seconds_count{program="epilog"} 3`,
		`gresnet_run_seconds_count{program="prolog"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}

func TestASeriesThatThereIsNotIsAnError(t *testing.T) {
	p := metrics.New()
	before := p.Text()
	for name, err := range map[string]error{
		"no such metric":     p.Add("gresnet_jobs_total", 1),
		"no such value":      p.Add(metrics.Refusals, 1, "bad_luck"),
		"no such device":     p.Add(metrics.SentBytes, 1, `mlx5_0",port="1`, "1"),
		"no device":          p.Add(metrics.SentBytes, 1, "", "1"),
		"a label too many":   p.Add(metrics.CleanedUp, 1, "done"),
		"a label too few":    p.Add(metrics.Moves, 1, "rdma", "out"),
		"a counter is set":   p.Set(metrics.CleanedUp, 1),
		"a gauge is added":   p.Add(metrics.Leases, 1, "complete"),
		"no histogram at it": p.Observe(metrics.CleanedUp, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if !bytes.Equal(p.Text(), before) {
		t.Errorf("an error changed the page:\n%s", p.Text())
	}
}

func TestBytesAreCountedForYears(t *testing.T) {
	p := metrics.New()
	var err error
	for year := range 5 {
		// 800 Gb/s.
		if err = p.Add(metrics.SentBytes, 1e11*365*24*3600, "mlx5_0", "1"); err != nil {
			t.Fatal(year, err)
		}
		if p, err = metrics.Parse(p.Text()); err != nil {
			t.Fatal(year, err)
		}
	}
}

func TestThereAreNotMoreAndMorePorts(t *testing.T) {
	p := metrics.New()
	var err error
	for i := 0; err == nil; i++ {
		if i > 10_000 {
			t.Fatal("there is no end of it")
		}
		err = p.Add(metrics.SentBytes, 1, fmt.Sprintf("mlx5_%d", i), "1")
	}
	if _, err := metrics.Parse(p.Text()); err != nil {
		t.Error(err)
	}
	if err := p.Add(metrics.SentBytes, 1, "mlx5_0", "1"); err != nil {
		t.Errorf("one that is there is not counted any more: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(metrics.New().Text())
	f.Add(counted(f, 1).Text())
	f.Add([]byte("# HELP gresnet_leases\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := metrics.Parse(text)
		if err == nil && !bytes.Equal(p.Text(), text) {
			t.Fatalf("%q was read and is written as %q", text, p.Text())
		}
		if err != nil && !errors.Is(err, metrics.ErrDamaged) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			for _, problem := range lint(string(text)) {
				t.Error(problem)
			}
		}
	})
}

package lease

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"gresnet/lib/kernel/netns"
)

// BenchmarkTraffic measures what two nodes' jobs of one network send each other, and what they send to the other node
// by the way out, each against what the nodes send each other. Each round has each case once.
func BenchmarkTraffic(b *testing.B) {
	b.Setenv("GRESNET_BED_UPLINK", "auto")
	node, far, farJob, state := overlayBed(b)
	testRun(b, node, state, "prolog", never)
	defer testRun(b, node, state, "epilog", never)
	raiseFar(b, far, farJob, testJob)
	job, err := netns.Open(fmt.Sprintf("%s/jobs/%d/netns", state, testJob))
	if err != nil {
		b.Fatal(err)
	}
	defer job.Close()
	cases := []*traffic{
		{name: "nodes", server: far.Do, client: node.Do},
		{name: "jobs", server: farJob.Do, client: job.Do},
		{name: "job-to-node", server: far.Do, client: job.Do, port: 80}, // a service of the nodes
	}
	for b.Loop() {
		for _, c := range cases {
			c.measure(b)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range cases {
		rate, delay := slices.Max(c.rates), slices.Min(c.delays)
		b.ReportMetric(rate, c.name+"-MB/s")
		b.ReportMetric(delay, c.name+"-us")
		b.ReportMetric(rate/slices.Max(cases[0].rates), c.name+"-throughput")
		b.ReportMetric(delay/slices.Min(cases[0].delays), c.name+"-latency")
	}
}

// traffic is what goes from a client to a server at the other node's address.
type traffic struct {
	name           string
	server, client func(func() error) error
	port           int
	rates          []float64 // of a TCP stream, in MB/s
	delays         []float64 // of a question and an answer over UDP, in µs
}

func (c *traffic) measure(b *testing.B) {
	b.Helper()
	listener := net.TCPAddr{IP: net.IPv4(10, 9, 0, 2), Port: c.port}
	var tcp *net.TCPListener
	var udp, asks *net.UDPConn
	var sends *net.TCPConn
	err := c.server(func() (err error) {
		if tcp, err = net.ListenTCP("tcp4", &listener); err != nil {
			return err
		}
		udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: listener.IP, Port: tcp.Addr().(*net.TCPAddr).Port})
		return err
	})
	if err == nil {
		err = c.client(func() (err error) {
			to := tcp.Addr().(*net.TCPAddr)
			if sends, err = net.DialTCP("tcp4", nil, to); err != nil {
				return err
			}
			asks, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: to.IP, Port: to.Port})
			return err
		})
	}
	if err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	defer tcp.Close()
	defer udp.Close()
	defer asks.Close()

	const size, questions = 512 << 20, 5000
	go func() {
		to, err := tcp.Accept()
		if err == nil {
			_, _ = io.Copy(io.Discard, to)
			to.Close()
		}
	}()
	begun := time.Now()
	for block, left := make([]byte, 1<<20), size; left > 0; left -= len(block) {
		if _, err := sends.Write(block); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	if err := sends.CloseWrite(); err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	if _, err := sends.Read(make([]byte, 1)); err != io.EOF { // it has all
		b.Fatalf("%s: %v", c.name, err)
	}
	sends.Close()
	c.rates = append(c.rates, size/time.Since(begun).Seconds()/1e6)

	go func() {
		answer := make([]byte, 64)
		for {
			_, from, err := udp.ReadFromUDPAddrPort(answer)
			if err != nil {
				return
			}
			_, _ = udp.WriteToUDPAddrPort(answer, from)
		}
	}()
	begun = time.Now()
	for range questions {
		if _, err := asks.Write(make([]byte, 64)); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
		asks.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := asks.Read(make([]byte, 64)); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	c.delays = append(c.delays, float64(time.Since(begun).Microseconds())/questions)
}
